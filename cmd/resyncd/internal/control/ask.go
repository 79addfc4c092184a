// Package control knows how a command has the daemon do its work: what is asked for, how that is handed over, what is
// heard of it. It refuses to know how the daemon does it.
package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/cmd/resyncd/internal/term"
	"resyncd/store"
	syncengine "resyncd/sync"
)

// Delegate has the daemon carry out a command, if one holds the Source, and writes what it says to out. done is false
// if nobody does, and the command must see for itself; a living process that takes no request, be it stopped or a
// `sync`, is an error that says who it is.
func Delegate(ctx context.Context, o *mirror.Opened, out io.Writer, command string, a Args) (done bool, err error) {
	held, err := DaemonHolds(ctx, o)
	if held == nil || err != nil {
		return false, err
	}
	e := &errand{
		requests: o.Engine.Store,
		request:  requestFor(o, command, a),
		line: func(line string) error {
			_, err := fmt.Fprintln(out, line)
			return err
		},
	}
	switch err = e.run(ctx); {
	case errors.Is(err, errNobody): // who held it may be gone by now
		held, err = DaemonHolds(ctx, o)
		return held != nil, errors.Join(held, err)
	case errors.Is(err, errStuck):
		return true, held
	}
	return true, err
}

func requestFor(o *mirror.Opened, command string, a Args) store.Request {
	return store.Request{Source: o.Source.Name, Command: command, Args: a.encode(), Created: store.MicrosOf(o.Engine.Now())}
}

// nobody says who holds the Source where no daemon took the request.
func nobody(err, held error) error {
	if errors.Is(err, errNobody) || errors.Is(err, errStuck) {
		return held
	}
	return err
}

// Pull lets the daemon that holds a Source catch it up. ended is told of each set, progress of the whole; held is what
// to say if nobody takes the request.
func Pull(
	ctx context.Context, o *mirror.Opened, a Args, progress *term.Progress, held error,
	ended func(*syncengine.Result) error,
) (results []syncengine.Result, err error) {
	e := &errand{
		requests: o.Engine.Store,
		request:  requestFor(o, AskSync, a),
		line: func(line string) error {
			res, err := decodeSet(line)
			if err != nil {
				return err
			}
			results = append(results, res)
			return ended(&res)
		},
		progress: func(state []byte) {
			var done term.Sums
			if json.Unmarshal(state, &done) == nil { // one that cannot be read is left out, the next one comes soon
				progress.Set(&done)
			}
		},
	}
	err = nobody(progress.While(ctx, e.run), held)
	var told *exit.Error
	if errors.As(err, &told) && told.Err == nil && len(results) > 0 { // the results say it, and are counted by who asked
		err = nil
	}
	return results, err
}

// DaemonHolds reports, as a *store.HeldError, whether a living process holds a configured Source: the claim is asked for,
// and given back at once. The Source of a folder is never a daemon's.
func DaemonHolds(ctx context.Context, o *mirror.Opened) (held error, err error) {
	if o.Alone || o.Known == nil {
		return nil, nil
	}
	_, release, err := o.Engine.Store.Claim(ctx, o.Known.ID, o.Engine.Holder)
	if exit.IsHeld(err) {
		return err, nil
	}
	if err != nil {
		return nil, err
	}
	return nil, release()
}
