package sync

import (
	"context"
	"errors"
	"slices"
	"time"

	"resyncd/destination"
	"resyncd/store"
	"resyncd/sync/coverage"
	"resyncd/sync/pull"
	"resyncd/sync/transfer"
)

// pulling is a pull whose documents are read and whose fetches may still be under way.
type pulling struct {
	pull     *pull.Puller
	res      Result
	start    time.Time
	base     transfer.Count
	deadline time.Time
	requests []*PullRequest
	last     bool      // the requests end with it
	retry    time.Time // until then failures are waited for
	// asked, got are what the Source had cost before it.
	asked, got int64
}

// pull reads what the Source offers and then each set, as a one-shot run does, but leaves the fetching to Run. What the
// Source does wrong is recorded at its sets and no error.
func (f *Follower) pull(ctx context.Context) error {
	requests := f.asks.take()
	full := false
	for _, r := range requests {
		full = full || r.Full
	}
	back, err := f.setBack(ctx)
	if err != nil {
		f.asks.answer(requests, err)
		return err
	}
	f.tried = f.s.Now()
	first := &pulling{requests: requests, base: f.rec.Count()}
	first.asked, first.got = f.s.Target.Spent()
	if len(requests) > 0 || back {
		if err := f.s.tryOwed(ctx); err != nil {
			f.rec.EndCount(first.base)
			f.asks.answer(requests, err)
			return err
		}
	}
	err = f.pullAll(ctx, full, first)
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
	f.wake()
	return err
}

// broken tells a failure of ours, which ends the slice, from one of the Source.
func (f *Follower) broken(ctx context.Context, err error) bool {
	var own *destination.Error
	return ctx.Err() != nil || !errors.As(err, &own) && !errors.Is(err, errSource)
}

// errSource marks what the Source does wrong as a whole.
var errSource = errors.New("the Source cannot be followed")

// pullAll pulls each set; p is the pull of the first one, with what was done for all of them before it. A one-shot run ends
// each before it begins the next.
func (f *Follower) pullAll(ctx context.Context, full bool, p *pulling) (err error) {
	s := f.s
	s.Full = full
	defer func() {
		s.Full, s.Wide = false, false
		f.rec.EndCount(p.base) // the one that is not to be concluded
	}()
	if err := s.BeginLook(ctx); err != nil {
		return err
	}
	offer, err := f.discover(ctx)
	if err != nil {
		return err
	}
	chosen, err := s.choose(offer)
	if err != nil {
		return sourceError{err}
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
		p = &pulling{requests: p.requests, base: f.rec.Count()}
		p.asked, p.got = s.Target.Spent()
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

// sourceError is what the Source does wrong as a whole.
type sourceError struct{ error }

func (sourceError) Is(target error) bool { return target == errSource }
func (e sourceError) Unwrap() error      { return e.error }

// pullSet reads the documents of one set. It is concluded when its fetches have come to rest, or patience is over.
func (f *Follower) pullSet(ctx context.Context, offer *destination.SetOffer, p *pulling) error {
	s := f.s
	set, err := s.Store.EnsureSet(ctx, s.claim, offer.ID)
	if err != nil {
		return err
	}
	if err := f.concludeSet(ctx, set.ID); err != nil { // an earlier pull of it ends here
		return err
	}
	if set, err = s.Store.EnsureSet(ctx, s.claim, offer.ID); err != nil {
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
	f.watchMisses(pull)
	p.pull, p.start, pull.Last = pull, s.Now(), p.last
	for _, r := range p.requests {
		if until := p.start.Add(r.RetryFor); until.After(p.retry) {
			p.retry = until
		}
	}
	if f.once {
		f.rec.Retry(p.start) // each resource is tried once before any is tried again
	}
	if err := f.readsBy(pull, func() error { return pull.Run(ctx) }); err != nil {
		return err
	}
	pull.Offer = light(offer) // it may be long until it is concluded
	f.countMisses(pull)
	if err := f.hasRead(ctx, pull); err != nil {
		return err
	}
	p.deadline = s.Now().Add(f.o.Patience)
	if p.retry.After(p.deadline) { // else a retry that is under way when patience ends would not be waited for
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
	if set.Floor.Known() { // what waited for a baseline
		f.o.Later(WorkNotify, s.Now())
	}
	return nil
}

// hasRead shows that the documents of a set were read just now; its fetches may take hours more.
func (f *Follower) hasRead(ctx context.Context, p *pull.Puller) error {
	_, hole := p.Cover.FirstHole()
	p.Set.LastPull, p.Set.Problem, p.Set.Cause, p.Set.InStep = f.s.Site.LocalNow(), "", "", p.Out.Problem == nil && !hole
	if p.Out.Problem != nil {
		p.Set.Problem, p.Set.Cause = p.Out.Problem.Error(), causeOf(p.Out.Problem)
		f.s.observe.unread(p.Out.Problem)
	}
	c := p.SetCommit()
	c.Repeatable = true // a pull that was cut is read again
	return f.s.Store.Commit(ctx, c)
}

// setBack tells of a clock that is behind the last pull, which may have been one of the process before: what failed until then
// would wait as much longer as the clock was ahead.
func (f *Follower) setBack(ctx context.Context) (bool, error) {
	if !f.tried.IsZero() {
		return f.s.Now().Round(0).Before(f.tried.Round(0)), nil
	}
	sets, err := f.s.Store.Sets(ctx, f.s.src.ID)
	now := f.s.Site.LocalNow()
	return slices.ContainsFunc(sets, func(set store.Set) bool { return set.LastPull > now }), err
}

// tryOwed makes everything owed due: somebody who asks for a catch-up wants it tried now, whatever the ledger planned.
func (s *session) tryOwed(ctx context.Context) error {
	for _, action := range []store.Action{store.ActionFetch, store.ActionRemove} {
		for after, more := int64(0), true; more; {
			var err error
			if after, more, err = s.tryPage(ctx, action, after); err != nil {
				return err
			}
		}
	}
	return nil
}

// tryPage holds the lock of the rows, because rows read here are written back.
func (s *session) tryPage(ctx context.Context, action store.Action, after int64) (last int64, more bool, err error) {
	s.Site.Rows.Lock()
	defer s.Site.Rows.Unlock()
	rs, err := s.Store.Due(ctx, store.DueQuery{SourceID: s.src.ID, Action: action, Now: pull.EndOfTime, After: after, Limit: pull.SweepPage})
	if err != nil || len(rs) == 0 {
		return after, false, err
	}
	after = rs[len(rs)-1].ID
	c, now := &store.Commit{Claim: s.claim}, s.Site.LocalNow()
	for _, r := range s.Site.Idle(rs) {
		if work := r.Work; work.Due > now {
			work.Due = now
			c.Resources = append(c.Resources, store.ResourceChange{ID: r.ID, Work: &work})
		}
	}
	if len(c.Resources) == 0 {
		return after, true, nil
	}
	if err := s.Store.Commit(ctx, c); err != nil {
		return after, false, err
	}
	s.Site.Name(transfer.Due(c))
	return after, true, nil
}

// concludeAgain is when a pull is looked at again of which something is still owed.
const concludeAgain = 500 * time.Millisecond

// wake has the reconciler say when it is at rest.
func (f *Follower) wake() {
	f.rec.Stir()
}

// conclude ends the pulls whose fetches are done, or all that are out of patience.
func (f *Follower) conclude(ctx context.Context, all bool) error {
	rest := f.pulls[:0]
	pulls := f.pulls
	idle := f.rec.Rests()
	for i, p := range pulls {
		wait := !idle && f.s.Now().Before(p.deadline)
		if !all && !wait && idle && f.s.Now().Before(p.retry) { // what failed comes again
			counts, err := f.s.Store.Counts(ctx, p.pull.Set.ID)
			if err != nil {
				f.pulls = append(rest, pulls[i:]...)
				return err
			}
			if wait = counts.Owed > 0; wait {
				f.o.Later(WorkConclude, f.s.Now().Add(concludeAgain))
			}
		}
		if !all && wait {
			rest = append(rest, p)
			continue
		}
		if err := f.concludeOne(ctx, p); err != nil {
			f.pulls = append(rest, pulls[i:]...)
			return err
		}
	}
	f.pulls = rest
	return nil
}

// concludeSet ends an earlier pull of a set, whatever its fetches do.
func (f *Follower) concludeSet(ctx context.Context, set int64) error {
	for i, p := range f.pulls {
		if p.pull.Set.ID == set {
			if err := f.concludeOne(ctx, p); err != nil {
				return err
			}
			f.pulls = append(f.pulls[:i:i], f.pulls[i+1:]...)
			return nil
		}
	}
	return nil
}

// concludeOne records how a pull ended, in the set as it is now: notifications may have moved it on meanwhile.
func (f *Follower) concludeOne(ctx context.Context, p *pulling) error {
	set, err := f.known(ctx, p.pull.Set.ID)
	if err != nil {
		return err
	}
	if set == nil {
		f.rec.EndCount(p.base)
		f.ended(p)
		return nil
	}
	p.pull.Set, p.pull.Cover = set, &coverage.Coverage{Floor: set.Floor, Proven: set.Proven, Joint: set.Joint}
	p.res = Result{Source: f.s.Target.Name, Set: set.CapabilityList, Kind: "none", DryRun: f.s.o.Plan != nil}
	f.s.fill(&p.res, p.pull, f.rec, p.base)
	asked, got := f.s.Target.Spent()
	p.res.Requests, p.res.Bytes = asked-p.asked, got-p.got
	p.res.Seconds = since(f.s.Now, p.start)
	if err := f.s.conclude(ctx, p.pull, f.rec, &p.res, p.start); err != nil {
		return err
	}
	f.rec.EndCount(p.base)
	if read := p.pull.Out.Problem; p.res.Problem != "" && (read == nil || p.res.Problem != read.Error()) {
		f.marred.Store(true)
		f.judgeAnew() // it may be over already
	}
	if o := f.o.Observe.Pulled; o != nil {
		o(p.res)
	}
	asking := f.asks.unanswered()
	for _, r := range p.requests {
		if r.Ended != nil && slices.Contains(asking, r) {
			r.Ended(p.res)
		}
	}
	f.ended(p)
	return nil
}

// ended: the pull is concluded.
func (f *Follower) ended(p *pulling) {
	f.unsettled.Add(-1)
	if p.last {
		f.asks.answer(p.requests, nil)
	}
}

// troubled shows at all sets why the Source could not be read as a whole.
func (f *Follower) troubled(ctx context.Context, cause error) error {
	if !f.once { // else it is the error of the run
		f.s.log.Warn("the Source could not be read; it is tried again at its next pull", "err", cause)
	}
	f.s.observe.unread(cause)
	sets, err := f.s.Store.Sets(ctx, f.s.src.ID)
	if err != nil {
		return err
	}
	c := &store.Commit{Claim: f.s.claim}
	for i := range sets {
		sets[i].InStep, sets[i].Problem, sets[i].LastPull = false, transfer.Clip(cause.Error(), 500), f.s.Site.LocalNow()
		sets[i].Cause = causeOf(cause)
		c.Sets = append(c.Sets, store.SetChange{ID: sets[i].ID, State: pull.StateOf(&sets[i])})
	}
	if len(sets) == 0 {
		return f.s.noteUnread(ctx, cause)
	}
	return f.s.Store.Commit(ctx, c)
}

// housekeeping follows a pull of all sets.
func (f *Follower) housekeeping(ctx context.Context, offer *destination.Offer) error {
	s := f.s
	if s.o.Plan != nil {
		return nil
	}
	if s.Site.Look && !f.looked {
		if err := s.claimTrash(ctx); err != nil {
			return err
		}
		f.looked = true
	}
	if err := errors.Join(s.emptyTrash(ctx), s.missing(ctx, offer)); err != nil {
		return err
	}
	s.Recheck = false
	policy := s.Target.PolicyDigest()
	if s.sweep {
		policy = policySweep
	}
	if len(s.Target.Sets) > 0 || policy == s.src.Policy { // the sets left out were not judged by what may be new in it
		return nil
	}
	s.src.Policy = policy
	return s.Store.Commit(ctx, &store.Commit{Claim: s.claim, Source: &store.SourceChange{Policy: &policy}})
}
