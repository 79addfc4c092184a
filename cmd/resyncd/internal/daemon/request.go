package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"resyncd/cmd/resyncd/internal/control"
	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/cmd/resyncd/internal/logging"
	"resyncd/cmd/resyncd/internal/term"
	"resyncd/store"
	syncengine "resyncd/sync"
)

const (
	attendEvery = 250 * time.Millisecond
	stateEvery  = time.Second // how often is looked for Sources that were paused or resumed by somebody else
	// wakeEvery is how often the keeper looks for what a command wrote down itself, as nobody held the Source.
	wakeEvery = 30 * time.Second
	// staleAsk is how old a request may be: its command has given up long before, and nobody wants it carried out then.
	staleAsk = 30 * time.Second
)

// attend takes requests and carries them out, each in a goroutine of its own, until ctx ends. It also is what tells the
// service manager that the daemon lives: it needs the store to.
func (d *Daemon) attend(ctx context.Context) error {
	tick := time.NewTicker(attendEvery)
	defer tick.Stop()
	var looked, woken time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now := d.now()
		taken, err := d.st.TakeRequests(ctx, store.MicrosOf(now))
		if err == nil && now.Sub(looked).Abs() >= stateEvery {
			looked = now
			err = d.lookAtPauses(ctx)
		}
		if now.Sub(woken).Abs() >= wakeEvery {
			woken = now
			d.keeper.Wake()
		}
		switch {
		case ctx.Err() != nil: // those that were taken are told below
		case errors.Is(err, store.ErrCorrupt):
			return err
		case err != nil:
			d.stateFailed(err)
			d.log.Warn("cannot look for requests", logging.Err(err))
		default:
			d.manager.alive(time.Now())
		}
		for i := range taken {
			d.carryOut(ctx, &taken[i])
		}
	}
}

// lookAtPauses has Sources left, or taken up again, that another process paused or resumed.
func (d *Daemon) lookAtPauses(ctx context.Context) error {
	all, err := d.st.Sources(ctx)
	if err != nil {
		return err
	}
	for i := range all {
		r := d.residentNamed(all[i].Name)
		if r == nil {
			continue
		}
		switch following := r.now() != nil; {
		case all[i].Paused && following:
			r.leave(syncengine.ErrStopped)
		case !all[i].Paused && !following && r.resting():
			r.lookAgain()
			d.keeper.Wake() // for what commands wrote down meanwhile
		}
	}
	return nil
}

// resting reports whether the Source is left alone without anything being wrong.
func (r *resident) resting() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stay == nil && r.problem == "" && !r.forgotten
}

// carryOut does what one request asks for and writes down how it goes.
func (d *Daemon) carryOut(ctx context.Context, req *store.Request) {
	t := control.NewReport(d.st, req.ID, d.now, d.log)
	d.log.Info("a command asks", "command", req.Command, logging.KeySource, req.Source, logging.KeyJob, req.ID)
	d.asked.Go(func() {
		t.While(ctx, func() control.Outcome {
			age := d.now().Sub(req.Created.Time())
			if req.Created.Known() && age > staleAsk {
				return control.Outcome{Code: exit.Held, Problem: "nobody took the request in time"}
			}
			var o control.Outcome
			if err := d.guarded(func() error { o = d.answerTo(ctx, req, t); return nil }); err != nil {
				d.log.Error("a request panicked", logging.Err(err))
				return control.Ending(err)
			}
			return o
		})
	})
}

func (d *Daemon) answerTo(ctx context.Context, req *store.Request, t *control.Report) control.Outcome {
	a, err := control.DecodeArgs(req.Args)
	if err != nil {
		return control.Outcome{Code: exit.Misused, Problem: err.Error()}
	}
	return d.answer(ctx, req.Source, req.Command, a, t)
}

// answer carries out a command on a Source, whoever asks.
func (d *Daemon) answer(
	ctx context.Context, source, command string, a control.Args, t control.Listener,
) control.Outcome {
	r := d.residentNamed(source)
	if r == nil {
		return control.Outcome{Code: exit.Held, Problem: fmt.Sprintf("the daemon does not know %s: send it SIGHUP to read its configuration again", source)}
	}
	var err error
	switch command {
	case control.AskSync:
		return d.answerSync(ctx, r, a, t)
	case control.AskApprove:
		err = d.between(ctx, r, func(ctx context.Context, f *syncengine.Follower) error {
			done, err := f.Approve(ctx, a.Reject)
			if err == nil {
				t.Say(term.Approved(&done))
			}
			return err
		})
	case control.AskRestore:
		err = d.between(ctx, r, func(ctx context.Context, f *syncengine.Follower) error {
			done, err := f.Restore(ctx, a.URI)
			if err == nil {
				t.Say(term.Restored(&done))
			}
			return err
		})
	case control.AskRenew, control.AskCancel:
		err = d.answerSubscription(ctx, r, command, a.Topic, t)
	case control.AskPause:
		err = d.answerPause(ctx, r, t)
	case control.AskResume:
		err = d.answerResume(ctx, r, t)
	case control.AskForget:
		err = d.answerForget(ctx, r, a.WithMirror, t)
	default:
		return control.Outcome{Code: exit.Misused, Problem: fmt.Sprintf("the daemon does not know the command %q: it is another version, restart it", command)}
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = &exit.Error{Code: exit.Held, Err: errEnding}
	}
	return control.Ending(err)
}
