package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"resyncd/cmd/resyncd/internal/control"
	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/cmd/resyncd/internal/term"
	"resyncd/store"
	syncengine "resyncd/sync"
	"resyncd/sync/queue"
)

// What an operator can have done with a Source, by a command or by a button of the console. Each returns what to tell.

var (
	errEnding = errors.New("the daemon is ending")
	errLeft   = errors.New("the daemon left off: the Source was paused, removed or changed; run the command again")
)

// between runs work between two jobs of the Source.
func (r *runner) between(
	ctx context.Context, work func(context.Context, *syncengine.Follower) (string, error),
) (words string, err error) {
	s := r.current()
	if s == nil || !s.enter() {
		return "", r.errIdle()
	}
	defer s.jobs.Done()
	within, cancel := until(ctx, s.ending)
	defer cancel()
	if s.take(within) {
		defer s.release()
		err = r.d.parts.guarded(func() (err error) {
			words, err = work(within, s.f)
			return err
		})
		if err == nil {
			return words, nil
		}
	}
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case s.isEnding():
		return "", &exit.Error{Code: exit.Held, Err: errLeft}
	}
	return "", err
}

// actions are what an operator can have done with a Source, but for a pull, by the name of its command.
var actions = map[string]func(context.Context, *runner, control.Args) (string, error){
	control.AskApprove: func(ctx context.Context, r *runner, a control.Args) (string, error) {
		return r.between(ctx, func(ctx context.Context, f *syncengine.Follower) (string, error) {
			done, err := f.Approve(ctx, a.Reject)
			return term.Approved(&done), err
		})
	},
	control.AskRestore: func(ctx context.Context, r *runner, a control.Args) (string, error) {
		return r.between(ctx, func(ctx context.Context, f *syncengine.Follower) (string, error) {
			done, err := f.Restore(ctx, a.URI)
			return term.Restored(&done), err
		})
	},
	control.AskRenew: func(ctx context.Context, r *runner, a control.Args) (string, error) {
		return r.subscriptions(ctx, a.Topic, r.d.keeper.Renew, "%s: asking hubs to renew %d subscriptions")
	},
	control.AskCancel: func(ctx context.Context, r *runner, a control.Args) (string, error) {
		return r.subscriptions(ctx, a.Topic, r.d.keeper.Cancel, "%s: unsubscribing %d subscriptions")
	},
	control.AskPause: func(ctx context.Context, r *runner, _ control.Args) (string, error) {
		return "paused " + r.name, r.pause(ctx)
	},
	control.AskResume: func(ctx context.Context, r *runner, _ control.Args) (string, error) {
		return "resumed " + r.name, r.setPaused(ctx, false) // lookAtPauses does the rest
	},
	control.AskForget: func(ctx context.Context, r *runner, a control.Args) (string, error) {
		return r.forget(ctx, a.WithMirror)
	},
}

// carryOut does what a command or a button asks for, but for a pull, and says so.
func (r *runner) carryOut(ctx context.Context, command string, a control.Args) (string, error) {
	action := actions[command]
	if action == nil {
		return "", control.Unknown(command)
	}
	return action(ctx, r, a)
}

// pull has the Source pulled. Its Ended is called for each set, by this goroutine: the Follower waits for nobody.
func (r *runner) pull(ctx context.Context, p syncengine.PullRequest) error {
	s := r.current()
	if s == nil {
		return r.errIdle()
	}
	var v exit.Verdict
	ended := p.Ended
	take := func(res syncengine.Result) {
		v.Count(&res)
		ended(res)
	}
	done := make(chan error, 1)
	results := make(chan syncengine.Result, 64)
	left := make(chan struct{}) // nobody takes results any more
	defer close(left)
	p.Done = func(err error) { done <- err }
	p.Ended = func(res syncengine.Result) {
		select {
		case results <- res:
		case <-s.ending:
		case <-left:
		}
	}
	s.f.RequestPull(p)
	r.d.jobs.put(s.f.SourceID(), queue.KindPull, time.Time{})
	for {
		select {
		case res := <-results:
			take(res)
		case err := <-done:
			for len(results) > 0 {
				take(<-results)
			}
			if err != nil {
				return err
			}
			return v.Err()
		case <-ctx.Done():
			return ctx.Err()
		case <-s.ending:
			return &exit.Error{Code: exit.Held, Err: errLeft}
		}
	}
}

// subscriptions changes those of a topic, which may be called as pages show it; "" is all.
func (r *runner) subscriptions(
	ctx context.Context, topic string, change func(context.Context, int64, string) (int, error), text string,
) (string, error) {
	id, err := r.known()
	if err != nil {
		return "", err
	}
	subs, err := r.d.st.Subscriptions(ctx, id, false)
	if err != nil {
		return "", err
	}
	n, err := change(ctx, id, term.TopicNamed(subs, topic))
	return fmt.Sprintf(text, r.name, n), err
}

func (r *runner) setPaused(ctx context.Context, is bool) error {
	id, err := r.known()
	if err != nil {
		return err
	}
	return r.d.st.SetPaused(ctx, id, is)
}

// pause stops work on the Source and waits until nothing works on it any more.
func (r *runner) pause(ctx context.Context) error {
	if err := r.setPaused(ctx, true); err != nil {
		return err
	}
	s := r.current()
	if s == nil {
		return nil
	}
	r.stop(syncengine.ErrStopped)
	select {
	case <-s.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// forget unsubscribes, stops work on the Source and drops what is known of it. It is not begun anew before the
// configuration is read again.
func (r *runner) forget(ctx context.Context, withMirror bool) (said string, err error) {
	id, err := r.known()
	if err != nil {
		return "", err
	}
	defer func() {
		r.d.sources.changing.Lock()
		defer r.d.sources.changing.Unlock()
		switch {
		case err == nil:
			r.d.sources.remove(r)
		case ctx.Err() == nil && r.d.sources.named(r.name) == r: // it goes on
			r.d.startSource(ctx, *r.src.Load(), 0)
		}
	}()
	r.part.stop()
	select {
	case <-r.part.done:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	left, err := r.unsubscribe(ctx, id)
	if err != nil {
		return "", err
	}
	o := mirror.Over(r.d.engine, mirror.Configured(r.d.sources.config(), *r.src.Load()))
	defer func() { err = errors.Join(err, o.Close()) }()
	o.Target.Name = r.name
	if withMirror {
		if err := o.Identify(ctx); err != nil {
			return "", err
		}
		if err := o.OpenMirror(true); err != nil {
			return "", err
		}
	}
	if err := r.d.engine.Forget(ctx, o.Target, withMirror); err != nil {
		return "", err
	}
	lines := []string{"forgot " + r.name}
	for i := range left {
		lines = append(lines, term.LeaseLeft(&left[i]))
	}
	lines = append(lines, r.name+
		" is still configured: it begins anew when the daemon is started again or reads its configuration again")
	return strings.Join(lines, "\n"), nil
}

// lookEvery is how often is looked for what another process does.
const lookEvery = 100 * time.Millisecond

// unsubscribeWithin is how long hubs have to let a Source go that is being forgotten.
const unsubscribeWithin = 5 * time.Second

// unsubscribe ends a Source's subscriptions and returns those whose hubs have not let go.
func (r *runner) unsubscribe(ctx context.Context, id int64) (left []store.Subscription, err error) {
	if err := r.d.keeper.DropSource(ctx, id); err != nil {
		return nil, fmt.Errorf("unsubscribe: %w", err)
	}
	patience, stop := context.WithTimeout(ctx, unsubscribeWithin)
	defer stop()
	err = every(patience, lookEvery, func() error {
		if left, err = r.d.st.Subscriptions(ctx, id, false); err == nil && len(left) == 0 {
			stop()
		}
		return err
	})
	return left, errors.Join(err, ctx.Err())
}
