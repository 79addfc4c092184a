package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"resyncd/cmd/resyncd/internal/control"
	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/cmd/resyncd/internal/term"
	"resyncd/store"
	syncengine "resyncd/sync"
	"resyncd/sync/queue"
)

// errAway says that nobody follows the Source at the moment, and why.
func (r *resident) errAway() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.problem != "" {
		return fmt.Errorf("the daemon cannot work on %s: %s", r.name, r.problem)
	}
	return &exit.Error{Code: exit.Held, Err: fmt.Errorf("the daemon does not work on %s just now", r.name)}
}

// between runs work between two jobs of the Source and waits for it.
func (d *Daemon) between(ctx context.Context, r *resident, work func(context.Context, *syncengine.Follower) error) error {
	s := r.now()
	if s == nil {
		return r.errAway()
	}
	done := make(chan error, 1)
	if !s.ask(func(ctx context.Context) { done <- d.guarded(func() error { return work(ctx, s.f) }) }) {
		return r.errAway()
	}
	d.put(s.f.SourceID(), queue.KindRequest, time.Time{})
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return &exit.Error{Code: exit.Held, Err: errEnding}
	case <-s.leaving:
		return &exit.Error{Code: exit.Held, Err: errLeft}
	}
}

// answerSync has the Source pulled and passes each set's result on as it ends.
func (d *Daemon) answerSync(ctx context.Context, r *resident, a control.Args, t control.Listener) control.Outcome {
	s := r.now()
	if s == nil {
		return control.Ending(r.errAway())
	}
	var v exit.Verdict
	done := make(chan error, 1)
	results := make(chan syncengine.Result, 64)
	deaf := make(chan struct{}) // nobody takes results any more: the pull must not wait for that
	defer close(deaf)
	s.f.RequestPull(syncengine.PullRequest{
		Full: a.Full, RetryFor: a.RetryFor, Progress: t.Note,
		Ended: func(res syncengine.Result) {
			select {
			case results <- res:
			case <-s.leaving:
			case <-deaf:
			}
		},
		Done: func(err error) { done <- err },
	})
	d.put(s.f.SourceID(), queue.KindPull, time.Time{})
	take := func(res syncengine.Result) {
		v.Count(&res)
		t.Result(&res)
	}
	for {
		select {
		case res := <-results:
			take(res)
		case err := <-done:
			for len(results) > 0 {
				take(<-results)
			}
			if err != nil {
				return control.Ending(err)
			}
			return control.Outcome{Code: exit.Code(context.Background(), v.Err())}
		case <-ctx.Done():
			return control.Ending(&exit.Error{Code: exit.Held, Err: errEnding})
		case <-s.leaving:
			return control.Ending(&exit.Error{Code: exit.Held, Err: errLeft})
		}
	}
}

func (d *Daemon) answerSubscription(ctx context.Context, r *resident, command, topic string, t control.Listener) error {
	id, err := r.known()
	if err != nil {
		return err
	}
	change, text := d.keeper.Renew, "%s: asking hubs to renew %d subscriptions"
	if command == control.AskCancel {
		change, text = d.keeper.Cancel, "%s: unsubscribing %d subscriptions"
	}
	n, err := change(ctx, id, topic)
	if err == nil {
		t.Say(fmt.Sprintf(text, r.name, n))
	}
	return err
}

// answerPause leaves the Source and says so once nothing works on it any more.
func (d *Daemon) answerPause(ctx context.Context, r *resident, t control.Listener) error {
	id, err := r.known()
	if err != nil {
		return err
	}
	if err := d.st.SetPaused(ctx, id, true); err != nil {
		return err
	}
	if err := d.away(ctx, r, syncengine.ErrStopped); err != nil {
		return err
	}
	t.Say("paused " + r.name)
	return nil
}

// answerResume takes a pause back, also one that is just about to begin; lookAtPauses does the rest.
func (d *Daemon) answerResume(ctx context.Context, r *resident, t control.Listener) error {
	id, err := r.known()
	if err != nil {
		return err
	}
	if err := d.st.SetPaused(ctx, id, false); err != nil {
		return err
	}
	t.Say("resumed " + r.name)
	return nil
}

// away ends the Source's stay and waits until it is over.
func (d *Daemon) away(ctx context.Context, r *resident, why error) error {
	s := r.now()
	if s == nil {
		return nil
	}
	r.leave(why)
	select {
	case <-s.gone:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// answerForget unsubscribes, leaves the Source and drops what is known of it. It is not begun anew before the
// configuration is read again.
func (d *Daemon) answerForget(ctx context.Context, r *resident, withMirror bool, t control.Listener) (err error) {
	id, err := r.known()
	if err != nil {
		return err
	}
	r.setForgotten(true)
	defer func() {
		if err != nil { // it goes on
			r.setForgotten(false)
			r.leave(nil) // a stay that began meanwhile has no plan
			r.lookAgain()
		}
	}()
	if err := d.away(ctx, r, nil); err != nil {
		return err
	}
	left, err := d.unsubscribe(ctx, id)
	if err != nil {
		return err
	}
	src := r.source()
	o := mirror.Over(d.engine, mirror.Configured(d.config(), src))
	defer func() { err = errors.Join(err, o.Close()) }()
	o.Target.Name = src.Name
	if withMirror {
		if err := o.Identify(ctx); err != nil {
			return err
		}
		if err := o.OpenMirror(true); err != nil {
			return err
		}
	}
	if err := d.engine.Forget(ctx, o.Target, withMirror); err != nil {
		return err
	}
	t.Say("forgot " + src.Name)
	for i := range left {
		t.Say(term.LeaseLeft(&left[i]))
	}
	t.Say(src.Name + " is still configured: it begins anew when the daemon is started again or reads its configuration again")
	return nil
}

// lookEvery is how often is looked for what another process does.
const lookEvery = 100 * time.Millisecond

// unsubscribeWithin is how long hubs have to let a Source go that is being forgotten.
const unsubscribeWithin = 5 * time.Second

// unsubscribe ends a Source's subscriptions and returns those whose hubs have not let go.
func (d *Daemon) unsubscribe(ctx context.Context, id int64) (left []store.Subscription, err error) {
	if err := d.keeper.DropSource(ctx, id); err != nil {
		return nil, fmt.Errorf("unsubscribe: %w", err)
	}
	patience := time.NewTimer(unsubscribeWithin)
	defer patience.Stop()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		if left, err = d.st.Subscriptions(ctx, id, false); err != nil || len(left) == 0 {
			return left, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-patience.C:
			return left, nil
		case <-tick.C:
		}
	}
}
