package sync

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"resyncd/destination"
	"resyncd/store"
	"resyncd/store/blob"
	"resyncd/sync/merge"
	"resyncd/sync/report"
	"resyncd/sync/transfer"
)

// runSet pulls one set and reconciles it. The error is one of store or context; what the Source did wrong, and a full
// disk, stand in the result. all is the whole offer where the set is the last one of the run.
func (s *session) runSet(ctx context.Context, offer *destination.SetOffer, all *destination.Offer) (Result, error) {
	start := s.Now()
	res := Result{Source: s.t.Name, Set: offer.ID, Kind: "none", DryRun: s.o.Plan != nil}
	set, err := s.Store.EnsureSet(ctx, s.claim, offer.ID)
	if err != nil {
		return res, err
	}
	planned := make(chan struct{})
	pull, err := s.newPuller(&set, offer)
	if err != nil {
		return res, err
	}
	pull.last = all != nil
	s.scopes.add(set.ID, pull.plan.scope)
	if offer.Err != nil {
		pull.fail(offer.Err)
	}
	rec := transfer.New(s.site, transfer.Options{
		Workers: transfer.Workers(s.t.Concurrency), Scope: pull.plan.scope, Planned: planned, Failing: s.failing,
	})
	base := rec.Count()
	if s.o.Plan == nil {
		err = s.work(ctx, pull, rec, planned)
	} else if err = pull.run(ctx); err == nil {
		err = s.explain(ctx, rec)
	}
	if err == nil && s.sweep && all != nil { // before the result is drawn up, so that it is told there
		err = s.sweepExtra(ctx, rec, all)
	}
	s.fill(&res, pull, rec, base)
	s.spend(&res)
	res.Seconds = since(s.Now, start)
	if err != nil {
		return res, err
	}
	return res, s.conclude(ctx, pull, rec, &res, start)
}

// work overlaps pull and reconciliation, then retries what failed for as long as it was allowed to.
func (s *session) work(ctx context.Context, pull *puller, rec *transfer.Reconciler, planned chan struct{}) error {
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(planned)
		return pull.run(gctx)
	})
	g.Go(func() error { return rec.Pass(gctx, func() store.Micros { return endOfTime }) })
	if err := g.Wait(); err != nil {
		return err
	}
	return s.retry(ctx, pull, rec)
}

// endOfTime makes everything due: a person who runs a catch-up wants owed work tried now, whatever the ledger planned.
const endOfTime = store.Micros(1) << 62

func (s *session) retry(ctx context.Context, pull *puller, rec *transfer.Reconciler) error {
	if s.o.RetryFor <= 0 {
		return nil
	}
	end := s.Now().Add(s.o.RetryFor)
	rec.Limit(end)
	defer rec.Limit(time.Time{})
	for rec.ErrHalted() == nil && !rec.Late() {
		due, err := s.Store.NextDue(ctx, s.src.ID)
		if err != nil || !due.Known() || due.Time().After(end) {
			return err
		}
		if err := pause(ctx, due.Time().Sub(s.Now())); err != nil {
			return err
		}
		if rec.TakeStale() && pull != nil {
			if err := pull.again(ctx); err != nil {
				return err
			}
		}
		if err := rec.Pass(ctx, s.site.LocalNow); err != nil {
			return err
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(max(d, 0))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// again re-reads the Change List between retries: a body that does not match its entry usually changed once more. A Resource
// List that answers no 304 is not read over and over.
func (p *puller) again(ctx context.Context) error {
	switch {
	case p.offer.Topic != nil: // it was read a moment ago
	case p.offer.ChangeList != nil:
		return p.changes(ctx, *p.offer.ChangeList, false)
	case p.offer.ResourceList != nil && !p.futile:
		before, wanted := p.set.Baselines, p.plan.wanted
		p.plan.wanted = false
		err := p.listOnly(ctx)
		p.futile = p.set.Baselines > before && !p.plan.wanted
		p.plan.wanted = p.plan.wanted || wanted
		return err
	}
	return nil
}

// spend adds what was asked of the network since the last result.
func (s *session) spend(res *Result) {
	requests, bytes := s.t.spent()
	res.Requests, res.Bytes = requests-s.requests, bytes-s.bytes
	s.requests, s.bytes = requests, bytes
}

// fill draws up a result; base is what the reconciler had done before.
func (s *session) fill(res *Result, pull *puller, rec *transfer.Reconciler, base transfer.Count) {
	res.Kind = pull.out.kind
	res.Position = report.RFC3339(pull.cover.Position())
	res.Odd = pull.plan.odd
	res.GapsFound, res.GapsClosed = pull.out.gapsFound, pull.out.gapsClosed
	res.Unavailable = !pull.out.usable
	done := rec.Since(base, pull.plan.calm)
	res.Fetched, res.Deleted, res.Failed = done.Fetched, done.Deleted, done.Failed
	res.Asked, res.Unchanged = done.Asked, done.Unchanged
	if s.o.Plan != nil {
		res.Fetched, res.Deleted = 0, 0
		sum := s.would
		res.Would, s.would = &sum, Would{}
	}
	if res.Kind == "none" && (res.Fetched > 0 || res.Deleted > 0) {
		res.Kind = "incremental"
	}
}

// conclude records how the set stands. In step: everything was read, nothing is owed or held, no gap is open.
func (s *session) conclude(ctx context.Context, pull *puller, rec *transfer.Reconciler, res *Result, start time.Time) error {
	counts, err := s.Store.Counts(ctx, pull.set.ID)
	if err != nil {
		return err
	}
	gaps, err := s.Store.Gaps(ctx, pull.set.ID)
	if err != nil {
		return err
	}
	if res.Failed, err = s.stillFailing(ctx, rec); err != nil {
		return err
	}
	res.Owed, res.Held, res.Refused = counts.Owed, counts.Held, counts.Refused
	s.halted = s.halted || rec.IsHalted()
	problem := errors.Join(pull.out.problem, rec.ErrHalted())
	_, hole := pull.cover.FirstHole()
	read := problem == nil && !hole
	res.InStep = read && counts.Owed == 0 && counts.Held == 0 &&
		!slices.ContainsFunc(gaps, func(g store.Gap) bool { return g.State.Open() })
	if problem != nil {
		res.Problem = problem.Error()
	}
	if res.Refused > 0 {
		s.log.Warn("resources outside scope or policy were refused: see `resyncd ls --refused`; widen `scope` if they belong to the set",
			"set", pull.set.CapabilityList, "refused", res.Refused)
	}
	// What is owed, held or open may change before the next pull; whoever shows the set looks at that anew.
	pull.set.InStep, pull.set.Problem, pull.set.LastPull, pull.set.Gone = read, res.Problem, s.site.LocalNow(), 0
	pull.set.Cause = causeOf(problem)
	c := pull.setCommit()
	c.Runs = []store.Run{{
		SetID: pull.set.ID, Kind: res.Kind, Started: store.MicrosOf(start), Ended: s.site.LocalNow(), Fetched: res.Fetched,
		Deleted: res.Deleted, Unchanged: res.Unchanged, Failed: res.Failed, Bytes: res.Bytes, Requests: res.Requests,
		Problem: res.Problem,
	}}
	c.Repeatable = res.Kind == "none" // the next run would say the same again
	if err := s.Store.Commit(ctx, c); err != nil {
		return fmt.Errorf("record the run: %w", err)
	}
	return nil
}

// explain reports the work of a dry run in place of doing it. It looks at local files as the real run would.
func (s *session) explain(ctx context.Context, rec *transfer.Reconciler) error {
	for _, action := range []store.Action{store.ActionFetch, store.ActionRemove} {
		for after := int64(0); ; {
			rs, err := s.Store.Due(ctx, store.DueQuery{SourceID: s.src.ID, Action: action, Now: endOfTime, After: after, Limit: sweepPage})
			if err != nil {
				return err
			}
			if len(rs) == 0 {
				break
			}
			for _, r := range rs {
				after = r.ID
				if err := s.explainOne(ctx, rec, r); err != nil {
					return err
				}
			}
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
		if p.Action = "delete"; s.t.Delete == transfer.DeleteKeep {
			p.Action = "keep"
		}
	case s.t.Mirror != nil:
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

// stillFailing counts what failed in this run and is still owed: a list read later may have taken it back. A Follower's
// reconciler works on meanwhile.
func (s *session) stillFailing(ctx context.Context, rec *transfer.Reconciler) (n int64, err error) {
	ids := make([]int64, 0, sweepPage)
	page := func() error {
		rs, err := s.Store.ByIDs(ctx, ids)
		for _, r := range rs {
			if r.Work.Action != store.ActionNone {
				n++
			}
		}
		ids = ids[:0]
		return err
	}
	for id := range rec.Failing().All() {
		if ids = append(ids, id); len(ids) == cap(ids) {
			if err := page(); err != nil {
				return n, err
			}
		}
	}
	return n, page()
}
