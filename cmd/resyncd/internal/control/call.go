package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/store"
)

// How long a command waits for the daemon.
const (
	takenWithin = 3 * time.Second
	silentFor   = 15 * time.Second
	pollEvery   = 100 * time.Millisecond
)

// errNobody: no daemon took the request, and it was taken back. errStuck: not even that could be written down.
var (
	errNobody = errors.New("no daemon took the request")
	errStuck  = errors.New("the state database does not let go")
)

// LeftError is of a command that was interrupted while the daemon goes on with its work.
type LeftError struct{ source string }

// Error implements error.
func (e *LeftError) Error() string {
	return "interrupted; the daemon goes on with it: see `resyncd status " + e.source + "`"
}

// call is one request to the daemon, and what is shown of its answer.
type call struct {
	requests store.Requests
	request  store.Request
	line     func(string) error
	progress func([]byte) // nil: nobody looks
}

// run hands the request over and shows what the daemon reports until it has ended it. It fails with errNobody,
// errStuck, with *LeftError when ctx ends after the daemon took it, or with a coded error.
func (c *call) run(ctx context.Context) error {
	c.request.State = store.RequestWaiting
	soon, cancel := context.WithTimeout(ctx, takenWithin)
	defer cancel()
	if err := c.requests.AddRequest(soon, &c.request); err != nil {
		if soon.Err() != nil && ctx.Err() == nil { // its holder holds the database too
			return errStuck
		}
		return fmt.Errorf("ask the daemon: %w", err)
	}
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	taken, shown, beat, heard := false, 0, store.NoTime, time.Now()
	for {
		select {
		case <-ctx.Done():
			if taken {
				return &LeftError{c.request.Source}
			}
			return c.takeBack(ctx, ctx.Err())
		case <-tick.C:
		}
		r, err := c.requests.Request(ctx, c.request.ID, shown)
		switch {
		case ctx.Err() != nil:
			continue
		case err != nil:
			return fmt.Errorf("look for the daemon's answer: %w", err)
		case !taken && r.State == store.RequestWaiting:
			if time.Since(heard) >= takenWithin {
				if err := c.takeBack(ctx, errNobody); err != nil {
					return err
				}
				taken, heard = true, time.Now()
			}
			continue
		}
		for _, line := range r.Output {
			if err := c.line(line); err != nil {
				return err
			}
		}
		shown += len(r.Output)
		if c.progress != nil && len(r.Progress) > 0 {
			c.progress(r.Progress)
		}
		if r.State == store.RequestDone {
			return ended(&r)
		}
		// Its clock may differ from ours: only that it moves counts.
		if !taken || r.Beat != beat || len(r.Output) > 0 {
			taken, beat, heard = true, r.Beat, time.Now()
		}
		if time.Since(heard) >= silentFor {
			return &exit.Error{Code: exit.Held, Err: fmt.Errorf(
				"the daemon stopped answering: it has said nothing for %s; look at its log", silentFor)}
		}
	}
}

// takeBack takes the request back and returns why, unless the daemon has taken it by now: nil then, and *LeftError
// where nobody waits any more.
func (c *call) takeBack(ctx context.Context, why error) error {
	back, cancel := context.WithTimeout(context.WithoutCancel(ctx), takenWithin)
	defer cancel()
	taken, err := c.requests.DropRequest(back, c.request.ID)
	switch {
	case back.Err() != nil: // the daemon finds it too old
		return why
	case err != nil:
		return errors.Join(why, err)
	case taken && ctx.Err() != nil:
		return &LeftError{c.request.Source}
	case taken:
		return nil
	}
	return why
}

func ended(r *store.Request) error {
	switch {
	case r.Problem != "":
		return &exit.Error{Code: r.ExitCode, Err: errors.New(r.Problem)}
	case r.ExitCode != exit.Done:
		return &exit.Error{Code: r.ExitCode}
	}
	return nil
}
