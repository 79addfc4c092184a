package sync

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"resyncd/store"
	"resyncd/store/blob"
)

// How the ledger backs off: from retryFirst, doubling, with jitter, to retryCap; what asking again will not mend starts at
// the cap.
const (
	retryFirst = 250 * time.Millisecond
	// An answer that was just wrong is asked for again sooner, then after four times as long until that is the usual time: most
	// Sources, caches and wires that spoil a body do so once, and nobody is overloaded.
	retryWrong = 25 * time.Millisecond
	retryCap   = time.Hour
	diskRetry  = 10 * time.Second
	// A Follower asks for a newer list after the first failures that one may explain (F47, F48).
	staleAsks = 4
)

// settle makes one group durable: files first, rows after, in one commit (design.md 3.3). An item that fails stays owed. No file
// gets its name before its want, and the notification that may have asked for it, are durable (early.go).
func (r *reconciler) settle(ctx context.Context, group []*outcome) error {
	r.giveUp(group)
	err := ctx.Err()
	if err == nil {
		err = r.s.Store.Durable(ctx)
	}
	if err != nil {
		for _, o := range group {
			o.discard()
		}
		return err
	}
	r.place(ctx, group)
	err = r.record(ctx, group)
	for _, o := range group {
		switch {
		case err == nil && o.verdict != verdictFailed:
			r.s.doubts.drop(o.res.ID)
		case err != nil && o.learnt:
			r.s.doubts.add(o.res.ID)
		}
	}
	return err
}

// giveUp waits until a commit of wants that is under way is made, or has failed, and ends what was fetched for wants that were
// never recorded: by its row such a file might have to go again at once (P5).
func (r *reconciler) giveUp(group []*outcome) {
	f := r.s.flight
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range group {
		if f.inVain(o.res.ID) {
			o.discard()
			o.fail(failure{class: "canceled", reason: "the state could not record that it is wanted", unasked: true})
		}
	}
}

// place gives staged bytes their names. A failure of the disk halts the run; what was placed before it is recorded.
func (r *reconciler) place(ctx context.Context, group []*outcome) {
	items := make([]blob.Placement, 0, len(group))
	of := make([]*outcome, 0, len(group))
	for _, o := range group {
		if o.stage != nil {
			items = append(items, blob.Placement{Stage: o.stage, Key: o.res.Key, Displace: o.displace})
			of = append(of, o)
		} else {
			o.displace = "" // nothing came to take the place
		}
	}
	if len(items) == 0 {
		return
	}
	errs, systemic := r.s.t.Mirror.Place(ctx, items)
	for i, o := range of {
		if errs[i] != nil {
			o.discard()
			o.failWith(errs[i])
			if o.unsure = systemic != nil; o.unsure { // before another want can be planned for it
				r.s.doubts.add(o.res.ID)
			}
		}
		if !items[i].Displaced {
			o.displace = ""
		}
		o.stage = nil
	}
	if systemic != nil && ctx.Err() == nil { // a run that is being stopped is no trouble of the disk
		r.halt(systemic)
	}
}

func (r *reconciler) halt(err error) {
	r.tally.add(func(*tally) {
		if r.halted == nil {
			r.halted = err
			r.s.log.Error("the mirror cannot take files; what is left stays owed", "err", err)
			r.s.observe.halted(err)
		}
	})
}

// record commits a group: haves, failures, totals, history.
func (r *reconciler) record(ctx context.Context, group []*outcome) error {
	f := r.s.flight
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := r.refreshTouched(ctx, group); err != nil {
		return err
	}
	c := &store.Commit{Claim: r.s.claim, Resources: make([]store.ResourceChange, 0, len(group))}
	sums, now := map[int64]*store.SetChange{}, r.s.localNow()
	for _, o := range group {
		r.recordOne(c, sums, o, f.touched(o.res.ID), now)
	}
	for _, s := range sums {
		c.Sets = append(c.Sets, *s)
	}
	if err := r.s.Store.Commit(ctx, c); err != nil {
		return err
	}
	var p Progress
	r.s.observe.settled(group)
	for _, o := range group {
		touched := f.touched(o.res.ID)
		f.land(o.res.ID)
		r.count(o, &p)
		r.tell(o, touched)
	}
	if r.hot != nil && slices.ContainsFunc(c.Resources, removes) {
		r.hot.removals()
	}
	if r.s.o.Progress != nil {
		r.s.o.Progress(p)
	}
	return nil
}

// refreshTouched re-reads the rows whose want changed during the fetch, so that totals and states build on what is.
func (r *reconciler) refreshTouched(ctx context.Context, group []*outcome) error {
	byID := map[int64]*outcome{}
	var ids []int64
	for _, o := range group {
		if r.s.flight.touched(o.res.ID) {
			byID[o.res.ID] = o
			ids = append(ids, o.res.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rs, err := r.s.Store.ByIDs(context.WithoutCancel(ctx), ids) // the files are in place already
	if err != nil {
		return err
	}
	for _, fresh := range rs {
		byID[fresh.ID].res = fresh
	}
	return nil
}

func (r *reconciler) recordOne(c *store.Commit, sums map[int64]*store.SetChange, o *outcome, touched bool, now store.Micros) {
	rc := store.ResourceChange{ID: o.res.ID}
	have := &o.res.Have
	if o.learnt {
		if have.State != store.HaveNone && have.SHA256 != o.have.SHA256 {
			r.remember(c, o.res)
		}
		have = &o.have
		rc.Have = have
	}
	wants := o.res.Wants
	if !touched {
		work := store.Work{}
		switch o.verdict {
		case verdictFailed:
			work = r.reschedule(o, now)
		case verdictThere:
			wants, rc.Want = r.stays(o, wants, have) // which may be newer than the file
			work = r.s.workForAll(wants, have, now)
		case verdictGone:
			if o.want.State == store.WantAbsent {
				work = store.Work{Action: store.ActionRemove, Due: now}
				break
			}
			fallthrough
		case verdictRefused:
			wants, rc.Want = r.decided(o, wants)
			work = r.s.workForAll(wants, have, now) // what the other sets want may count now
		default:
			if o.want == nil || o.want.State == store.WantAbsent {
				work = r.s.workForAll(wants, have, now)
			} else if o.want.State == store.WantAsk && o.verdict == verdictFetched {
				wants, rc.Want = r.decided(o, wants)
				if w := Effective(wants); w != nil && w.SetID != o.want.SetID { // newer than the answer
					work = r.s.workFor(w, have, now)
				}
			}
		}
		rc.Work = &work
		o.settled(&rc)
	} else if o.unsure { // whoever changed the want could not know what will be on disk
		work := r.reschedule(o, now)
		rc.Work = &work
	} else if o.learnt { // the planner judged by what was on disk before
		work := r.s.workForAll(wants, have, now)
		rc.Work = &work
	}
	if o.displace != "" {
		c.Trash = append(c.Trash, store.Trashed{ID: o.displace, SourceID: r.s.src.ID, URI: o.res.URI, Key: o.res.Key, Length: -1,
			Reason: "was in the way of " + o.res.URI, At: now})
	}
	total(sums, o.res.Wants, &o.res.Have, wants, have)
	c.Resources = append(c.Resources, rc)
}

// decided writes the Source's own answer into the want that asked for it, or the policy's refusal.
func (r *reconciler) decided(o *outcome, wants []store.Want) ([]store.Want, *store.Want) {
	next := Settle(*o.want, o.verdict == verdictFetched, o.asked)
	next.Listed = nil
	switch l := o.want.Listed; {
	case o.verdict == verdictRefused:
		next = *o.want
		next.Refused = o.failure.reason
	case o.verdict == verdictGone && !o.want.Pushed && l != nil && l.State == store.WantPresent:
		next = *l // the Source does not have what was pushed, and its documents never took back what they say (P5)
	case o.want.Pushed:
		next.Listed = l
	}
	return replaced(wants, &next), &next
}

// replaced is a copy of wants with that of one set.
func replaced(wants []store.Want, next *store.Want) []store.Want {
	out := append([]store.Want(nil), wants...)
	for i := range out {
		if out[i].SetID == next.SetID {
			out[i] = *next
		}
	}
	return out
}

// stays takes back a pushed deletion of a resource that the Source still serves: what its documents say counts again, or,
// where that is older than the file, what we have. An answer to the question whether it is there vouches for no body: it may be
// an error page with status 200. If the deletion is true, the next pull tells (P5).
func (r *reconciler) stays(o *outcome, wants []store.Want, have *store.Have) ([]store.Want, *store.Want) {
	next := *o.want
	switch l := o.want.Listed; {
	case l != nil && l.State != store.WantNone && l.State != store.WantAbsent && !pushedSince(have, l):
		next = *l
	case have.State == store.HavePresent && have.Version.Until.Known():
		next.State, next.Digests, next.Length, next.LastMod = store.WantPresent, digestOf(have), have.Length, store.NoTime
		next.Version = have.Version
	default: // no file, or one of which nobody knows where it came from
		next.State, next.Digests, next.Length, next.LastMod = store.WantAsk, "", -1, store.NoTime
		next.Version.From--
		next.Version.Until = next.Version.From
	}
	return replaced(wants, &next), &next
}

// pushedSince tells a file that a push brought after what the documents say.
func pushedSince(h *store.Have, listed *store.Want) bool {
	return h.State == store.HavePresent && listed.State == store.WantPresent && Satisfied(listed, h) != Yes &&
		Relate(h.Version, listed.Version) == Newer
}

func removes(rc store.ResourceChange) bool {
	return rc.Work != nil && rc.Work.Action == store.ActionRemove
}

// tell passes on to a Follower what became of one row. One whose want changed meanwhile is worked on again.
func (r *reconciler) tell(o *outcome, touched bool) {
	if r.hot == nil {
		return
	}
	if o.verdict == verdictThere && r.s.hint != nil {
		r.s.hint(o.want.SetID)
	}
	if touched {
		r.hot.add([]int64{o.res.ID})
		r.poke()
		return
	}
	if o.verdict == verdictFailed && o.failure.stale && o.res.Work.Attempts < staleAsks && o.want != nil {
		r.s.hint(o.want.SetID)
	}
	if o.verdict == verdictGone && o.want != nil && o.want.State == store.WantAbsent {
		return // it lands when it is removed
	}
	r.hot.landed(o.res.ID, o.verdict == verdictFailed)
}

// remember puts the version that a newer one replaces into the history; the one on disk is told by its row.
func (r *reconciler) remember(c *store.Commit, res *store.Resource) {
	c.Events = append(c.Events, store.Event{SourceID: r.s.src.ID, URI: res.URI, At: res.Have.Fetched, What: "fetched",
		Version: res.Have.Version, Detail: digestOf(&res.Have)})
}

// reschedule writes a failure into the ledger.
func (r *reconciler) reschedule(o *outcome, now store.Micros) store.Work {
	w := o.res.Work
	w.Action = store.ActionFetch
	if !o.failure.unasked {
		w.Attempts++
	}
	w.Class, w.Reason = o.failure.class, clip(o.failure.reason, 500)
	if !w.Since.Known() || w.Since == 0 || w.Attempts <= 1 {
		w.Since = now
	}
	w.Due = now + store.Micros(backoff(w.Attempts, o.failure)/time.Microsecond)
	return w
}

func backoff(attempts int, f failure) time.Duration {
	d := retryCap
	switch {
	case f.class == classDisk: // the disk is tried by itself; what it held up goes on soon after (F6)
		d = diskRetry
	case !f.lasts && attempts < 16:
		n := max(attempts-1, 0)
		if d = min(retryFirst<<n, retryCap); f.wrong {
			d = min(retryWrong<<(2*n), d)
		}
	}
	d -= time.Duration(rand.Int64N(int64(d)/4 + 1))
	return max(d, f.wait)
}

// count adds a recorded outcome to what the run shows. A cut run's failures are nobody's fault.
func (r *reconciler) count(o *outcome, p *Progress) {
	p.Bytes += o.bytes
	if o.verdict == verdictFailed {
		p.Failed++
	} else {
		p.Done++
	}
	r.tally.add(func(t *tally) {
		switch t.end(o.res.ID, o.foundRight()); o.verdict {
		case verdictFetched:
			t.fetched++
		case verdictFailed:
			r.failing.add(o.res.ID)
			r.stale = r.stale || o.failure.stale // a newer list may explain it (F48)
			return
		}
		r.failing.remove(o.res.ID)
	})
}

// foundRight: what was on disk is what is wanted.
func (o *outcome) foundRight() bool {
	return (o.verdict == verdictCleared || o.verdict == verdictAdopted) && o.want != nil && o.want.State != store.WantAbsent
}

// untried leaves out what failed in this pass already: even one that takes everything for due asks each resource once, not
// once per page of wants that came in meanwhile (F48), nor again at its end while nothing else is left to do. A new want makes
// it due at once. A Follower's pass never ends, so there it is what is not due before its time.
func (r *reconciler) untried(rs []*store.Resource) []*store.Resource {
	now := r.s.localNow()
	due := now
	if r.hot == nil {
		due = r.began
	}
	out := rs[:0]
	r.tally.add(func(*tally) {
		for _, res := range rs {
			if w := &res.Work; !r.failing.has(res.ID) || w.Due <= due || w.Attempts == 0 && w.Due <= now {
				out = append(out, res)
			}
		}
	})
	return out
}

// total adds the difference that a resource makes to its sets' totals.
func total(sums map[int64]*store.SetChange, before []store.Want, was *store.Have, after []store.Want, is *store.Have) {
	for i := range before {
		b := counted(&before[i], was)
		a := counted(&after[i], is)
		if a == b {
			continue
		}
		s := sums[before[i].SetID]
		if s == nil {
			s = &store.SetChange{ID: before[i].SetID}
			sums[before[i].SetID] = s
		}
		s.Resources += delta(b, a)
		s.Bytes += deltaBytes(b, a)
	}
}

// clip shortens a text for people, never inside a character.
func clip(s string, n int) string {
	if len(s) > n {
		return strings.ToValidUTF8(s[:n], "") + "…"
	}
	return s
}

// isHalted tells whether the disk stopped the run. The placer may learn it while the conductor asks.
func (r *reconciler) isHalted() (halted bool) {
	r.tally.add(func(*tally) { halted = r.halted != nil })
	return halted
}

// errHalted is told when the disk stopped a run.
func (r *reconciler) errHalted() error {
	var err error
	r.tally.add(func(*tally) { err = r.halted })
	if err == nil {
		return nil
	}
	return fmt.Errorf("the mirror's disk failed or is full, free it and run again: %w", err)
}
