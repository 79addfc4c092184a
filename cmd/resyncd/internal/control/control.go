// Package control knows how a command has the daemon do its work, by rows of the state. It refuses to know how the
// daemon does it.
package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/cmd/resyncd/internal/term"
	"resyncd/store"
	syncengine "resyncd/sync"
)

// The commands that a request may carry (store.Request.Command).
const (
	AskSync    = "sync"
	AskApprove = "approve"
	AskRestore = "restore"
	AskRenew   = "renew"
	AskCancel  = "cancel"
	AskPause   = "pause"
	AskResume  = "resume"
	AskForget  = "forget"
)

// Args are the options of a request, of all commands.
type Args struct {
	Full       bool          `json:"full,omitempty"`        // sync
	RetryFor   time.Duration `json:"retry_for,omitempty"`   // sync
	Reject     bool          `json:"reject,omitempty"`      // approve
	URI        string        `json:"uri,omitempty"`         // restore
	Topic      string        `json:"topic,omitempty"`       // renew, cancel; "": all of the Source
	WithMirror bool          `json:"with_mirror,omitempty"` // forget
}

// setLine is a line of the answer to AskSync: what Result keeps out of its JSON goes beside it.
type setLine struct {
	Result      syncengine.Result `json:"result"`
	Problem     string            `json:"problem"`
	Unavailable bool              `json:"unavailable"`
}

func decodeSet(line string) (syncengine.Result, error) {
	var l setLine
	if err := json.Unmarshal([]byte(line), &l); err != nil {
		return l.Result, fmt.Errorf("read the daemon's answer: %w", err)
	}
	l.Result.Problem, l.Result.Unavailable = l.Problem, l.Unavailable
	return l.Result, nil
}

// Delegate has the daemon that holds the Source carry out a command, and writes what it says to out. done is false if
// nobody holds it. A living process that takes no request is an error that says who it is.
func Delegate(ctx context.Context, o *mirror.Opened, out io.Writer, command string, a Args) (done bool, err error) {
	c := newCall(o, command, a)
	c.line = func(line string) error {
		_, err := fmt.Fprintln(out, line)
		return err
	}
	return c.delegate(ctx, o, c.run)
}

// Pulling is a pull for the daemon: what to ask for, what must not fail before it is asked, how it is shown, and who is
// told of each set.
type Pulling struct {
	Args     Args
	Before   func() error
	Progress *term.Progress
	Ended    func(*syncengine.Result) error
}

// Pull is Delegate for a pull.
func Pull(ctx context.Context, o *mirror.Opened, p *Pulling) (results []syncengine.Result, done bool, err error) {
	c := newCall(o, AskSync, p.Args)
	c.line = func(line string) error {
		res, err := decodeSet(line)
		if err != nil {
			return err
		}
		results = append(results, res)
		return p.Ended(&res)
	}
	c.progress = func(state []byte) {
		var done term.Sums
		if json.Unmarshal(state, &done) == nil { // the next one comes soon
			p.Progress.Set(&done)
		}
	}
	done, err = c.delegate(ctx, o, func(ctx context.Context) error {
		if err := p.Before(); err != nil {
			return err
		}
		return p.Progress.While(ctx, c.run)
	})
	var told *exit.Error
	if errors.As(err, &told) && told.Err == nil && len(results) > 0 { // the results say it
		err = nil
	}
	return results, done, err
}

// delegate runs a call if a daemon holds the Source.
func (c *call) delegate(
	ctx context.Context, o *mirror.Opened, run func(context.Context) error,
) (done bool, err error) {
	held, err := daemonHolds(ctx, o)
	if held == nil || err != nil {
		return false, err
	}
	switch err = run(ctx); {
	case errors.Is(err, errNobody): // who held it may be gone
		held, err = daemonHolds(ctx, o)
		return held != nil, errors.Join(held, err)
	case errors.Is(err, errStuck):
		return true, held
	}
	return true, err
}

// daemonHolds reports, as a *store.HeldError, whether a living process holds a configured Source: the claim is asked
// for and given back. The Source of a folder is never a daemon's.
func daemonHolds(ctx context.Context, o *mirror.Opened) (held error, err error) {
	if o.AdHoc || o.Known == nil {
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

func newCall(o *mirror.Opened, command string, a Args) *call {
	args, _ := json.Marshal(a) // strings, numbers and flags only
	return &call{requests: o.Engine.Store, request: store.Request{
		Source: o.Source.Name, Command: command, Args: args, Created: store.MicrosOf(o.Engine.Now()),
	}}
}
