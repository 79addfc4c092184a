package sync

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"math/rand/v2"

	"resyncd/destination"
	"resyncd/store"
	"resyncd/store/blob"
	"resyncd/sync/merge"
	"resyncd/sync/pull"
	"resyncd/sync/report"
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
	f.pulls = nil
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
	rec := transfer.New(s.Site, transfer.Workers(s.Target.Concurrency), func() { tell(news) })
	rec.Retry(s.Now())
	return rec.While(ctx, func(ctx context.Context) error { return s.workOff(ctx, rec, news, nil) })
}

func (s *session) result(p *pulling, rec *transfer.Reconciler) Result {
	done, out := rec.Since(p.base, p.pull.Plan.Calm), &p.pull.Out
	asked, got := s.Target.Spent()
	res := Result{
		Source: s.Target.Name, Set: p.pull.Set.CapabilityList, DryRun: s.o.Plan != nil, Kind: out.Kind,
		Position: report.RFC3339(p.pull.Cover.Position()), Odd: p.pull.Plan.Topic.Odd, GapsFound: out.GapsFound,
		GapsClosed: out.GapsClosed, Unavailable: !out.Usable, Fetched: done.Fetched, Deleted: done.Deleted,
		Failed: done.Failed, Asked: done.Asked, Unchanged: done.Unchanged, Requests: asked - p.asked,
		Bytes: got - p.got, Seconds: s.Now().Sub(p.start).Round(time.Millisecond).Seconds(),
	}
	if s.o.Plan != nil {
		res.Fetched, res.Deleted = 0, 0
		sum := s.would
		res.Would, s.would = &sum, Would{}
	}
	if res.Kind == "none" && (res.Fetched > 0 || res.Deleted > 0) {
		res.Kind = "incremental"
	}
	return res
}

// conclude records the state of the set. InStep needs all documents read, nothing owed or held, and no open gap.
func (s *session) conclude(
	ctx context.Context, pull *pull.Puller, rec *transfer.Reconciler, res *Result, start time.Time,
) error {
	counts, err := s.Store.Counts(ctx, pull.Set.ID)
	if err != nil {
		return err
	}
	gaps, err := s.Store.Gaps(ctx, pull.Set.ID)
	if err != nil {
		return err
	}
	if res.Failed, err = s.stillFailing(ctx, rec); err != nil {
		return err
	}
	res.Owed, res.Held, res.Refused = counts.Owed, counts.Held, counts.Refused
	problem := errors.Join(pull.Out.Problem, rec.ErrHalted())
	_, hole := pull.Cover.FirstHole()
	read := problem == nil && !hole
	res.InStep = read && counts.Owed == 0 && counts.Held == 0 &&
		!slices.ContainsFunc(gaps, func(g store.Gap) bool { return g.State.Open() })
	if problem != nil {
		res.Problem = problem.Error()
	}
	if res.Refused > 0 {
		s.Log.Warn(
			"resources outside scope or policy were refused: see `resyncd ls --refused`; "+
				"widen `scope` if they belong to the set",
			"set", pull.Set.CapabilityList, "refused", res.Refused)
	}
	// Owed, held and open work may change before the next pull, so readers of the set look at it anew.
	s.judge(pull.Set, read, problem)
	pull.Set.Gone = 0
	c := pull.SetCommit()
	c.Runs = []store.Run{{
		SetID: pull.Set.ID, Kind: res.Kind, Started: store.MicrosOf(start), Ended: s.LocalNow(), Fetched: res.Fetched,
		Deleted: res.Deleted, Unchanged: res.Unchanged, Failed: res.Failed, Bytes: res.Bytes, Requests: res.Requests,
		Problem: res.Problem,
	}}
	c.Repeatable = res.Kind == "none" // the next run would record the same
	if err := s.Store.Commit(ctx, c); err != nil {
		return fmt.Errorf("record the run: %w", err)
	}
	return nil
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

// stillFailing counts this run's failures that are still owed, because a later list may have taken them back.
func (s *session) stillFailing(ctx context.Context, rec *transfer.Reconciler) (n int64, err error) {
	for ids := range rec.Failing().Pages(pull.SweepPage) {
		rs, err := s.Store.ByIDs(ctx, ids)
		if err != nil {
			return n, err
		}
		for _, r := range rs {
			if r.Work.Action != store.ActionNone {
				n++
			}
		}
	}
	return n, nil
}

func (s *session) emptyTrash(ctx context.Context) error {
	before := store.MicrosOf(s.Now().Add(-s.Target.TrashFor))
	for after := ""; ; {
		ts, err := s.Store.Trash(ctx, s.SourceID, before, after, 1000)
		if err != nil || len(ts) == 0 {
			return err
		}
		if err := s.Begun(ctx, nil); err != nil {
			return err
		}
		c := &store.Commit{Claim: s.Claim}
		for _, t := range ts {
			after = t.ID
			if err := s.Target.Mirror.DropTrash(ctx, t.ID); err != nil && !errors.Is(err, blob.ErrNotFound) {
				s.Log.Warn("could not drop a file from the trash; it is tried again with the next run",
					"key", t.Key, "err", err)
				continue
			}
			c.DropTrash = append(c.DropTrash, t.ID)
		}
		if err := s.Store.Commit(ctx, c); err != nil {
			return err
		}
	}
}

// claimTrash gives rows to trashed files that a kill left without one, so that they can be dropped (P8).
func (s *session) claimTrash(ctx context.Context) error {
	var lost []store.Trashed
	err := s.Target.Mirror.ListTrash(ctx, func(i blob.TrashInfo) error {
		if i.Trashed.IsZero() {
			return nil
		}
		// The prefix matches ids that differ in the last digit.
		near, err := s.Store.Trash(ctx, s.SourceID, store.NoTime, i.ID[:len(i.ID)-1], 16)
		for _, t := range near {
			if t.ID == i.ID {
				return err
			}
		}
		if err == nil {
			lost = append(lost, store.Trashed{
				ID: i.ID, SourceID: s.SourceID, Length: -1, Reason: "left by a run that was cut", At: s.LocalNow(),
			})
		}
		return err
	})
	for start := 0; start < len(lost) && err == nil; start += 1000 {
		err = s.Store.Commit(ctx, &store.Commit{Claim: s.Claim, Trash: lost[start:min(start+1000, len(lost))]})
	}
	return err
}

const tidySlices = 20

func (f *Follower) end(ctx context.Context) error {
	s := f.s
	// After a disk failure a file may be newer than its row, so the next run looks.
	unclean := f.rec.IsHalted() || s.Look && !f.looked
	if !unclean {
		var err error
		if unclean, err = s.uncertain(ctx); err != nil {
			return err
		}
	}
	return s.leave(ctx, unclean)
}

func (s *session) leave(ctx context.Context, unclean bool) error {
	if unclean = unclean || s.AnyDoubt(); !unclean && !s.Unclean.Load() {
		return nil
	}
	return s.Store.Commit(ctx, &store.Commit{Claim: s.Claim, Source: &store.SourceChange{Unclean: &unclean}})
}

func (s *session) tidyUp(ctx context.Context) error {
	if s.Follows {
		return nil // the run of a Follower goes on
	}
	return s.leave(ctx, s.Look) // uncertain until a run has looked
}

const tidyIdle = 16

func (s *session) tidyState(ctx context.Context) error {
	if !s.Unclean.Load() && rand.N(tidyIdle) > 0 {
		return nil
	}
	for more, slices := true, 0; more && slices < tidySlices; slices++ {
		var err error
		if more, err = s.Store.Tidy(ctx); err != nil {
			return err
		}
	}
	return nil
}

const lookMost = 10_000

// uncertain reports whether files of owed resources that were not due may still differ from their rows (F1).
func (s *session) uncertain(ctx context.Context) (bool, error) {
	if !s.Look {
		return false, nil
	}
	looked := 0
	for r, err := range s.Owed().All(ctx) {
		if looked++; err != nil || looked > lookMost || s.Differs(ctx, r) {
			return err == nil, err
		}
	}
	return false, nil
}
