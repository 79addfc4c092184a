package sync

import (
	"context"
	"errors"
	"fmt"
	"time"

	"resyncd/destination"
	"resyncd/store"
	"resyncd/store/blob"
	"resyncd/sync/merge"
	"resyncd/sync/transfer"
)

// Run catches one Source up and returns the sets that ended, also with an error: a *store.HeldError, store.ErrFenced,
// ctx's, of store or disk, or a *destination.Error. A set's own problem stands in its Result.
func (e *Engine) Run(ctx context.Context, t Target, o RunOptions) (results []Result, err error) {
	if err := CheckFrom(o.From, e.now()()); err != nil {
		return nil, fmt.Errorf("begin at %s: %w", o.From.Time().UTC().Format(time.RFC3339), err)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	news := make(chan struct{}, 1)
	f := &Follower{o: FollowOptions{Later: func(Work, time.Time) { tell(news) }}, once: true, news: news}
	if err := f.begin(ctx, e, t, o); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var told error
	f.RequestPull(PullRequest{Full: o.Full, RetryFor: o.RetryFor, Ended: func(r Result) {
		if results = append(results, r); o.Ended != nil {
			if told = o.Ended(r); told != nil {
				stop(told)
			}
		}
	}})
	pull := func(ctx context.Context) error { return f.Do(ctx, WorkPull) }
	if o.Plan != nil {
		err = pull(ctx)
	} else {
		err = f.rec.While(ctx, pull)
		if err == nil {
			err = f.s.tidyState(ctx)
		}
		if err == nil {
			err = f.end(ctx)
		}
	}
	if told != nil {
		err = told
	}
	return results, err
}

func tell(news chan<- struct{}) {
	select {
	case news <- struct{}{}:
	default:
	}
}

func (f *Follower) settle(ctx context.Context, offer *destination.Offer) (err error) {
	p := f.pulls[0]
	if f.s.o.Plan != nil {
		err = f.s.explain(ctx, f.rec)
	} else {
		err = f.s.workOff(ctx, f.rec, f.news, f.fillHinted)
	}
	if err == nil && p.last && f.s.sweep {
		err = f.s.sweepExtra(ctx, f.rec, offer)
	}
	if err == nil {
		err = f.concludeOne(ctx, p)
	}
	return err
}

// fillHinted reads lists anew after failures, because a mismatched body usually means another change.
func (f *Follower) fillHinted(ctx context.Context) (read bool, err error) {
	if !f.asks.hinted() {
		return false, nil
	}
	err = f.fillGaps(ctx)
	return !f.asks.hinted(), err
}

const retryLook = 20 * time.Millisecond

// workOff waits until the reconciler has nothing left and the retry time is over; news tells of its rests.
func (s *session) workOff(
	ctx context.Context, rec *transfer.Reconciler, news <-chan struct{}, ask func(context.Context) (bool, error),
) error {
	rec.Stir()
	for end := (time.Time{}); ; {
		wait := time.Hour
		if rec.Rests() {
			if end.IsZero() {
				end = s.Now().Add(s.o.RetryFor)
				rec.Retry(end)
			}
			again := rec.TakeResumed()
			if again {
				if err := s.tryOwed(ctx); err != nil {
					return err
				}
			} else if ask != nil && s.Now().Before(end) {
				var err error
				if again, err = ask(ctx); err != nil {
					return err
				}
			}
			if again {
				rec.Stir()
				continue
			}
			due, err := s.Store.NextDue(ctx, s.SourceID)
			if err != nil {
				return err
			}
			if rec.IsHalted() || !due.Known() || due.Time().After(end) || !s.Now().Before(end) {
				return nil
			}
			wait = max(due.Time().Sub(s.Now()), retryLook)
		}
		timer := time.NewTimer(wait)
		select {
		case <-news:
		case <-timer.C:
		case <-ctx.Done():
		}
		if timer.Stop(); ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

func (s *session) carryOut(ctx context.Context) error {
	news := make(chan struct{}, 1)
	rec := transfer.New(s.Site, func() { tell(news) })
	rec.Retry(s.Now())
	return rec.While(ctx, func(ctx context.Context) error { return s.workOff(ctx, rec, news, nil) })
}

func (s *session) explain(ctx context.Context, rec *transfer.Reconciler) error {
	for r, err := range s.Owed().All(ctx) {
		if err == nil {
			err = s.explainOne(ctx, rec, r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *session) explainOne(ctx context.Context, rec *transfer.Reconciler, res *store.Resource) error {
	want := merge.Effective(res.Wants)
	p := Planned{URI: res.URI, Key: res.Key, Action: "fetch", Had: res.Have.State != store.HaveNone, Length: -1}
	switch {
	case want == nil || s.explained.Has(res.ID):
		return nil
	case want.State == store.WantAbsent:
		if p.Action = "delete"; s.Target.Delete == transfer.DeleteKeep {
			p.Action = "keep"
		}
	case s.Target.Mirror != nil:
		if done, err := rec.Satisfied(ctx, res); err != nil && !blob.Missing(err) {
			return err
		} else if done {
			rec.FoundRight(res.ID)
			s.explained.Add(res.ID)
			return nil
		}
	}
	s.explained.Add(res.ID)
	if p.Action == "fetch" {
		p.Length = want.Length
	}
	return s.o.Plan(p)
}
