package sync

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"resyncd/destination"
	"resyncd/destination/fetch"
	"resyncd/store"
	"resyncd/store/blob"
	"resyncd/sync/pull"
	"resyncd/sync/report"
	"resyncd/sync/transfer"
)

// pulling is a pull whose documents are read and whose fetches may still run.
type pulling struct {
	pull     *pull.Puller
	start    time.Time
	base     *transfer.Count
	deadline time.Time
	requests []*PullRequest
	last     bool
	retry    time.Time
	// asked and got are the requests and bytes spent before the pull.
	asked, got int64
}

func (f *Follower) newPulling(requests []*PullRequest) *pulling {
	p := &pulling{requests: requests, base: f.rec.Count()}
	p.asked, p.got = f.s.Target.Spent()
	return p
}

var errBroke = errors.New("the pull broke off; the log says why")

// pull reads the offer and each set. The Source's faults are recorded at its sets and return no error.
func (f *Follower) pull(ctx context.Context) error {
	requests := f.asks.take(WorkPull)
	err := errBroke
	defer func() {
		if errors.Is(err, errBroke) { // a panic goes on, and the next try does not know of these requests
			f.asks.answer(requests, err)
		}
	}()
	err = f.pullAll(ctx, requests)
	if err != nil {
		f.asks.answer(requests, err)
		if f.broken(ctx, err) {
			return err
		}
		cause := err
		if err = f.troubled(ctx, cause); err == nil && f.once {
			err = cause
		}
	}
	f.rec.Stir()
	return err
}

// broken reports a failure of ours, which ends the slice.
func (f *Follower) broken(ctx context.Context, err error) bool {
	_, theirs := errors.AsType[*destination.Error](err)
	_, source := errors.AsType[sourceError](err)
	return ctx.Err() != nil || !theirs && !source
}

// sourceError is a failure of the Source that is no *destination.Error.
type sourceError struct{ error }

func (e sourceError) Unwrap() error { return e.error }

// pullAll pulls each set. A one-shot run ends each pull before the next.
func (f *Follower) pullAll(ctx context.Context, requests []*PullRequest) (err error) {
	s, p := f.s, f.newPulling(requests)
	defer func() {
		s.Full, s.Wide = false, false
		s.Release()
		f.rec.EndCount(p.base) // the pull that was never concluded
	}()
	s.Full = slices.ContainsFunc(requests, func(r *PullRequest) bool { return r.Full })
	back, err := f.setBack(ctx)
	if err != nil {
		return err
	}
	f.tried = s.Now()
	if len(requests) > 0 || back {
		if err := s.tryOwed(ctx); err != nil {
			return err
		}
	}
	if err := s.BeginLook(ctx); err != nil {
		return err
	}
	offer, chosen, err := f.discover(ctx, s.Reader)
	if err != nil {
		return err
	}
	for i := range chosen {
		p.last = i == len(chosen)-1
		if err := f.pullSet(ctx, &chosen[i], p); err != nil {
			return err
		}
		if f.once {
			if err := f.settle(ctx, offer); err != nil {
				return err
			}
		}
		p = f.newPulling(p.requests)
	}
	if len(chosen) == 0 {
		f.asks.answer(p.requests, nil)
	}
	if s.sweep && !f.once {
		if err := s.sweepExtra(ctx, f.rec, offer); err != nil {
			return err
		}
	}
	return f.housekeeping(ctx, offer)
}

// pullSet reads the documents of one set. The pull is concluded when its fetches rest or patience ends.
func (f *Follower) pullSet(ctx context.Context, offer *destination.SetOffer, p *pulling) error {
	s := f.s
	for _, before := range slices.Clone(f.pulls) {
		if before.pull.Set.CapabilityList == offer.ID {
			if err := f.concludeOne(ctx, before); err != nil {
				return err
			}
		}
	}
	set, err := s.Store.EnsureSet(ctx, s.Claim, offer.ID)
	if err != nil {
		return err
	}
	pull, err := s.NewPuller(&set, offer)
	if err != nil {
		return sourceError{err}
	}
	s.Scopes.Add(set.ID, pull.Plan.Refuses)
	if offer.Err != nil {
		pull.Fail(offer.Err)
	}
	p.pull, p.start, pull.Last = pull, s.Now(), p.last
	for _, r := range p.requests {
		if until := p.start.Add(r.RetryFor); until.After(p.retry) {
			p.retry = until
		}
	}
	if f.once {
		f.rec.Retry(p.start) // every resource is tried once before any retry
	}
	if pull.HasDumps() {
		s.Hold()
	} else {
		s.Release()
	}
	if err := f.reads(pull, func() error { return pull.Run(ctx) }); err != nil {
		return err
	}
	pull.Offer = light(offer)
	if err := f.hasRead(ctx, pull); err != nil {
		return err
	}
	p.deadline = s.Now().Add(f.o.Patience)
	// Otherwise a retry under way when patience ends would not be awaited.
	if p.retry.After(p.deadline) {
		p.deadline = p.retry
	}
	f.pulls = append(f.pulls, p)
	f.unsettled.Add(1)
	f.set(set.ID).pulled = s.Now()
	if len(pull.Cover.Unheard()) > 0 {
		f.o.Later(WorkGap, s.Now().Add(lagFirst))
	} else {
		f.set(set.ID).due, f.set(set.ID).delay = time.Time{}, 0
	}
	f.o.Later(WorkConclude, p.deadline)
	if set.Floor.Known() {
		f.o.Later(WorkNotify, s.Now())
	}
	return nil
}

// hasRead records that the documents were read; the fetches may take much longer.
func (f *Follower) hasRead(ctx context.Context, p *pull.Puller) error {
	_, hole := p.Cover.FirstHole()
	f.s.judge(p.Set, p.Out.Problem == nil && !hole, p.Out.Problem)
	if p.Out.Problem != nil {
		f.s.observe.Unread(p.Out.Problem)
	}
	c := p.SetCommit()
	c.Repeatable = true // an interrupted pull is read again
	return f.s.Store.Commit(ctx, c)
}

func (s *session) judge(set *store.Set, inStep bool, problem error) {
	set.InStep, set.Problem, set.Cause, set.LastPull = inStep, "", "", s.LocalNow()
	if problem != nil {
		set.Problem, set.Cause = problem.Error(), causeOf(problem)
	}
}

// setBack reports a clock behind the last pull: until then failures would wait longer.
func (f *Follower) setBack(ctx context.Context) (bool, error) {
	sets, err := f.s.Store.Sets(ctx, f.s.SourceID)
	now := f.s.LocalNow()
	return slices.ContainsFunc(sets, func(set store.Set) bool { return set.LastPull > now }), err
}

func (s *session) tryOwed(ctx context.Context) error {
	return s.Revise(ctx, s.Owed(), s.Name, func(v *pull.Revision, rs []*store.Resource) error {
		for _, r := range s.Idle(rs) {
			if work := r.Work; work.Due > v.Now {
				work.Due = v.Now
				v.Change(store.ResourceChange{ID: r.ID, Work: &work})
			}
		}
		return nil
	})
}

const concludeAgain = 500 * time.Millisecond

// conclude ends the pulls whose fetches are done or whose patience is over. One that fails or panics stays for the next
// try.
func (f *Follower) conclude(ctx context.Context) error {
	idle := f.rec.Rests()
	for _, p := range slices.Clone(f.pulls) {
		now := f.s.Now()
		wait := !idle && now.Before(p.deadline)
		if idle && now.Before(p.retry) {
			counts, err := f.s.Store.Counts(ctx, p.pull.Set.ID)
			if err != nil {
				return err
			}
			if wait = counts.Owed > 0; wait {
				f.o.Later(WorkConclude, now.Add(concludeAgain))
			}
		}
		if !wait {
			if err := f.concludeOne(ctx, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// concludeOne records how a pull ended in the set's current state, which notifications may have moved on.
func (f *Follower) concludeOne(ctx context.Context, p *pulling) error {
	set, err := f.known(ctx, p.pull.Set.ID)
	if err != nil {
		return err
	}
	p.pull.Set, p.pull.Cover = set, pull.CoverageOf(set)
	res := f.s.result(p, f.rec)
	if err := f.s.conclude(ctx, p.pull, f.rec, &res, p.start); err != nil {
		return err
	}
	f.rec.EndCount(p.base)
	if read := p.pull.Out.Problem; res.Problem != "" && (read == nil || res.Problem != read.Error()) {
		f.marred.Store(true)
		f.judgeAnew() // the failure may be over
	}
	f.s.observe.Pulled(res)
	for _, r := range p.requests {
		if r.Ended != nil && slices.Contains(f.asks.all(), r) {
			r.Ended(res)
		}
	}
	f.pulls = slices.DeleteFunc(f.pulls, func(other *pulling) bool { return other == p })
	f.unsettled.Add(-1)
	if p.last {
		f.asks.answer(p.requests, nil)
	}
	return nil
}

// troubled records at all sets why the whole Source could not be read.
func (f *Follower) troubled(ctx context.Context, cause error) error {
	if !f.once { // a one-shot run returns it
		f.s.Log.Warn("the Source could not be read; it is tried again at its next pull", "err", cause)
	}
	f.s.observe.Unread(cause)
	sets, err := f.s.Store.Sets(ctx, f.s.SourceID)
	if err != nil {
		return err
	}
	c := &store.Commit{Claim: f.s.Claim}
	for i := range sets {
		f.s.judge(&sets[i], false, cause)
		sets[i].Problem = transfer.Clip(sets[i].Problem, 500)
		c.Sets = append(c.Sets, store.SetChange{ID: sets[i].ID, State: new(sets[i].SetState)})
	}
	if len(sets) == 0 {
		return f.s.noteUnread(ctx, cause)
	}
	return f.s.Store.Commit(ctx, c)
}

func causeOf(err error) string {
	if blob.Systemic(err) {
		return store.CauseDisk
	}
	return fetch.CauseOf(err)
}

// missMargin is the age at which a change counts as missed by the hub; until then its push may be on its way.
const missMargin store.Micros = 3 * 1e6

func (f *Follower) watchMisses(p *pull.Puller) {
	if f.o.Subscribed == nil {
		return
	}
	since := f.o.Subscribed(p.Set.ID)
	if !since.Known() {
		return
	}
	since += f.s.Offset
	p.Holes.Missed = func(at store.Version, inHole bool) {
		if at.From > since && (inHole || f.s.SourceNow()-at.Until > missMargin) {
			p.Holes.Misses++
		}
	}
}

func (f *Follower) countOf(p *pull.Puller) {
	if p.Holes.Misses > 0 {
		f.s.observe.Missed(p.Set.ID, p.Holes.Misses)
	}
	if p.Plan.Topic.Odd > 0 {
		f.s.observe.Odd(p.Set.ID, p.Plan.Topic.Odd)
	}
}

func (s *session) result(p *pulling, rec *transfer.Reconciler) Result {
	done, out := rec.Since(p.base, p.pull.Plan.Calm), &p.pull.Out
	asked, got := s.Target.Spent()
	res := Result{
		Source: s.Target.Name, Set: p.pull.Set.CapabilityList, DryRun: s.o.Plan != nil, Kind: out.Kind,
		Position: report.RFC3339(p.pull.Cover.Position()), Odd: p.pull.Plan.Topic.Odd, GapsFound: out.GapsFound,
		GapsClosed: out.GapsClosed, Unavailable: !out.Usable, Fetched: done.Fetched, Deleted: done.Deleted,
		Asked: done.Asked, Unchanged: done.Unchanged, Requests: asked - p.asked, Bytes: got - p.got,
		Packages: out.Packages, Batches: done.Batches, FromPackages: done.FromPackages, Patched: done.Patched,
		FromDuplicates: done.FromDuplicates,
		Seconds:        s.Now().Sub(p.start).Round(time.Millisecond).Seconds(),
	}
	if s.o.Plan != nil {
		res.Fetched, res.Deleted = 0, 0
		res.Would, s.would = new(s.would), Would{}
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

// noteUnread records for `status` why a Source without known sets could not be read.
func (s *session) noteUnread(ctx context.Context, problem error) error {
	text, cause := transfer.Clip(problem.Error(), 500), causeOf(problem)
	said, why, err := report.Unread(ctx, s.Store, s.SourceID)
	if err != nil || said == text && why == cause {
		return err
	}
	d := s.NewDocument(report.UnreadDocument, report.UnreadDocument)
	d.Body = []byte(store.WithCause(text, cause))
	err = s.Store.Commit(ctx, &store.Commit{Claim: s.Claim, Repeatable: true, Documents: []store.Document{d}})
	if err != nil {
		return fmt.Errorf("record why nothing was found: %w", err)
	}
	return nil
}
