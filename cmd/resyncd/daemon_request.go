package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"resyncd/cmd/resyncd/internal/logging"
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
func (d *daemon) attend(ctx context.Context) error {
	tick := time.NewTicker(attendEvery)
	defer tick.Stop()
	var looked, woken time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now := d.sh.now()
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
func (d *daemon) lookAtPauses(ctx context.Context) error {
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
func (d *daemon) carryOut(ctx context.Context, req *store.Request) {
	t := &teller{requests: d.st, id: req.ID, now: d.sh.now, log: d.log}
	d.log.Info("a command asks", "command", req.Command, logging.KeySource, req.Source, logging.KeyJob, req.ID)
	d.asked.Go(func() {
		t.while(ctx, func() outcome {
			age := d.sh.now().Sub(req.Created.Time())
			if req.Created.Known() && age > staleAsk {
				return outcome{exitHeld, "nobody took the request in time"}
			}
			var o outcome
			if err := guarded(func() error { o = d.answer(ctx, req, t); return nil }); err != nil {
				d.log.Error("a request panicked", logging.Err(err))
				return ending(err)
			}
			return o
		})
	})
}

func (d *daemon) answer(ctx context.Context, req *store.Request, t *teller) outcome {
	var a askArgs
	if len(req.Args) > 0 {
		if err := json.Unmarshal(req.Args, &a); err != nil {
			return outcome{exitUsage, fmt.Sprintf("the daemon cannot read the request: %v", err)}
		}
	}
	r := d.residentNamed(req.Source)
	if r == nil {
		return outcome{exitHeld, fmt.Sprintf("the daemon does not know %s: send it SIGHUP to read its configuration again", req.Source)}
	}
	var err error
	switch req.Command {
	case askSync:
		return d.answerSync(ctx, r, a, t)
	case askApprove:
		err = d.between(ctx, r, func(ctx context.Context, f *syncengine.Follower) error {
			done, err := f.Approve(ctx, a.Reject)
			if err == nil {
				t.say(approvedText(&done))
			}
			return err
		})
	case askRestore:
		err = d.between(ctx, r, func(ctx context.Context, f *syncengine.Follower) error {
			done, err := f.Restore(ctx, a.URI)
			if err == nil {
				t.say(restoredText(&done))
			}
			return err
		})
	case askRenew, askCancel:
		err = d.answerSubscription(ctx, r, req.Command, a.Topic, t)
	case askPause:
		err = d.answerPause(ctx, r, t)
	case askResume:
		err = d.answerResume(ctx, r, t)
	case askForget:
		err = d.answerForget(ctx, r, a.WithMirror, t)
	default:
		return outcome{exitUsage, fmt.Sprintf("the daemon does not know the command %q: it is another version, restart it", req.Command)}
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = &coded{code: exitHeld, err: errEnding}
	}
	return ending(err)
}

// ending maps an error to the end of a request, with the advice that the command itself would give.
func ending(err error) outcome {
	if err == nil {
		return outcome{}
	}
	return outcome{exitCode(context.Background(), err), advised(err)}
}
