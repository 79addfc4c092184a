package sync

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"resyncd/destination"
	"resyncd/destination/safe"
	"resyncd/store"
	"resyncd/sync/coverage"
	"resyncd/sync/parsed"
	"resyncd/sync/pull"
)

// baselineEvery is the least time between two pulls that pushes request for a set without a baseline.
const baselineEvery = 30 * time.Second

const (
	inboxPage  = 500
	inboxBytes = 32 << 20
)

// inbox pages through the deliveries that are not recorded yet.
func (f *Follower) inbox(ctx context.Context) iter.Seq2[[]store.Delivery, error] {
	return func(yield func([]store.Delivery, error) bool) {
		for q := (store.InboxQuery{SourceID: f.s.SourceID, Limit: inboxPage, MaxBytes: inboxBytes}); ; {
			ds, err := f.s.Store.Deliveries(ctx, q)
			if err != nil || len(ds) == 0 {
				if err != nil {
					yield(nil, err)
				}
				return
			}
			size := 0
			for i := range ds {
				size += len(ds[i].Body)
			}
			full := len(ds) == inboxPage || size >= inboxBytes/2
			if q.After = ds[len(ds)-1].ID; !yield(ds, nil) || !full {
				return
			}
		}
	}
}

// notify takes up the inbox. Deliveries of sets without a baseline and Framework Notifications stay for later slices.
func (f *Follower) notify(ctx context.Context) error {
	if !f.begun {
		f.begun = true
		f.o.Later(WorkGap, f.s.Now())
	}
	for ds, err := range f.inbox(ctx) {
		if err != nil {
			return err
		}
		bySet := map[int64][]*store.Delivery{}
		for i := range ds {
			bySet[ds[i].SetID] = append(bySet[ds[i].SetID], &ds[i])
		}
		for _, id := range slices.Sorted(maps.Keys(bySet)) {
			if err := f.notifySet(ctx, id, bySet[id]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *Follower) notifySet(ctx context.Context, id int64, ds []*store.Delivery) error {
	set, err := f.known(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return f.drop(ctx, ds)
	}
	if err != nil {
		return err
	}
	ofFeed := ds[0].Kind == store.ChannelFeed
	if f.turn.between && (ofFeed || !set.Floor.Known()) {
		// The next WorkNotify takes these up, because pushes are compared with the topic's own answer.
		return nil
	}
	if !ofFeed {
		ds = f.withoutNamed(id, ds)
	}
	if len(ds) == 0 {
		return nil
	}
	if !ofFeed && !set.Floor.Known() {
		// The pull with the baseline takes these up. A Source without one is not asked at every push.
		due := f.s.Now()
		for _, last := range []time.Time{f.tried, f.set(id).pulled} {
			if again := last.Add(baselineEvery); again.After(due) {
				due = again
			}
		}
		f.o.Later(WorkPull, due)
		return nil
	}
	offer, _ := f.offer(set)
	if ofFeed && offer.Topic == nil {
		offer = &destination.SetOffer{ID: set.CapabilityList, Topic: &destination.Topic{URL: set.CapabilityList}}
	}
	p, err := f.s.NewPuller(set, offer)
	if err != nil {
		return err
	}
	v := &pull.PushReader{Puller: p, Now: f.s.SourceNow() + pull.ClockError, Commit: &store.Commit{Claim: f.s.Claim}}
	if ofFeed {
		if err := v.Hear(ctx, ds); err != nil {
			return err
		}
	}
	reads := f.turn.reading
	if reads != nil && reads.Set.ID != id {
		reads = nil
	}
	before := p.Cover.Clone()
	for _, d := range ds {
		if err := v.Take(ctx, d); err != nil {
			return err
		}
	}
	if !ofFeed {
		if err := f.findGaps(ctx, v, &before); err != nil {
			return err
		}
		// The deliveries are durable until this commit ends them, and every file change syncs first.
		v.Commit.Repeatable = true
		v.Commit.Sets = append(v.Commit.Sets, p.SetCommit().Sets...)
	}
	if err := p.Plan.FlushWith(ctx, v.Commit); err != nil {
		return err
	}
	// The pull may know the push only once it is recorded, or it would record coverage without wants (P3).
	if reads != nil {
		reads.Pushed(v)
	}
	for _, verdict := range v.Verdicts {
		f.s.observe.Notified(verdict, 1)
	}
	for _, g := range v.Commit.Gaps {
		f.s.observe.Gap(*g)
	}
	for _, n := range v.Notes {
		f.s.Seal(n)
	}
	f.countOf(p)
	if ofFeed && (v.Hint || len(p.Plan.Topic.Contested) > 0 || v.Feed.Busy()) {
		f.set(id).expect(v)
		v.Hint = true
	}
	if v.Hint {
		f.Hint(id)
	}
	return nil
}

func (f *Follower) withoutNamed(id int64, ds []*store.Delivery) []*store.Delivery {
	return slices.DeleteFunc(ds, func(d *store.Delivery) bool {
		named := parsed.NamesDocuments(d)
		if named && d.Kind != store.ChannelFramework {
			f.Hint(id) // here it may mean changes
		}
		if named {
			f.o.Later(WorkFramework, f.s.Now())
		}
		return named
	})
}

// drop ends deliveries without further work.
func (f *Follower) drop(ctx context.Context, ds []*store.Delivery) error {
	c := &store.Commit{Claim: f.s.Claim}
	for _, d := range ds {
		c.Inbox = append(c.Inbox, store.InboxChange{ID: d.ID})
	}
	err := f.s.Store.Commit(ctx, c)
	if err == nil {
		f.s.observe.Notified(coverage.Unknown, len(ds))
	}
	return err
}

// findGaps records the holes that notifications made or filled, and keeps the notification behind a hole.
func (f *Follower) findGaps(ctx context.Context, v *pull.PushReader, before *coverage.Coverage) error {
	s, holes, were := f.set(v.Set.ID), v.Cover.Unheard(), before.Unheard()
	if len(holes) == 0 {
		s.due, s.delay = time.Time{}, 0
	}
	if len(holes) == 0 && len(were) == 0 {
		return nil
	}
	gaps, err := f.s.Store.Gaps(ctx, v.Set.ID)
	if err != nil {
		return err
	}
	now := f.s.LocalNow()
	isHole := func(list []store.Interval, until store.Micros) bool {
		return slices.ContainsFunc(list, func(h store.Interval) bool { return h.Until == until })
	}
	for i := range gaps {
		g := &gaps[i]
		if g.State.Open() && isHole(were, g.Until) && !isHole(holes, g.Until) {
			g.State, g.ClosedBy, g.Ended = store.GapClosed, coverage.ByNotification, now
			v.Commit.Gaps = append(v.Commit.Gaps, g)
		}
	}
	for _, h := range holes {
		known := slices.IndexFunc(gaps, func(g store.Gap) bool { return g.State.Open() && g.Until == h.Until })
		switch {
		case known >= 0 && gaps[known].From != h.From:
			gaps[known].From = h.From
			v.Commit.Gaps = append(v.Commit.Gaps, &gaps[known])
		case known < 0 && !isHole(were, h.Until):
			v.Commit.Gaps = append(v.Commit.Gaps, &store.Gap{
				SetID: v.Set.ID, From: h.From, Until: h.Until, State: store.GapWaiting,
				Found: now, Ended: store.NoTime,
			})
		}
		for _, k := range v.Kept {
			if k.Interval.From == h.Until {
				v.Keep(k.ID)
			}
		}
	}
	if len(holes) > 0 {
		if wait := f.s.Now().Add(f.o.ReorderGrace); s.due.IsZero() {
			s.due = wait
		}
		f.o.Later(WorkGap, s.due)
	}
	return nil
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// turn is whose turn it is to change what a Follower knows. A slice has it from start to end, except while it waits for
// a document of the Source: then pushes are taken up, so that a document that hangs holds up only its own pull (P11).
//
// A pull trusts nothing over a wait but the store and its own coverage, which is told of the pushes (Puller.Pushed). A
// hole that comes up meanwhile waits for the next pull.
type turn struct {
	slice context.Context // of the slice that gives it away in waits, nil for none
	kept  int             // reasons to keep it over waits
	// reading is whose documents are being read; between: notifications are being taken up in a wait of a slice.
	reading *pull.Puller
	between bool
	heard   chan struct{} // something came into the inbox
}

// keep has the turn kept over waits, because a new history overrides a push that comes in its midst.
func (t *turn) keep() (release func()) {
	t.kept++
	return func() { t.kept-- }
}

// await has pushes taken up until resume.
func (f *Follower) await() (resume func()) {
	if t := &f.turn; t.slice == nil || t.kept > 0 || t.between {
		return func() {}
	}
	stop := make(chan struct{})
	var listener sync.WaitGroup
	listener.Go(func() { f.listen(stop) })
	return func() {
		close(stop)
		listener.Wait()
	}
}

// Heard has a slice that waits for a document take up the inbox at once. Any goroutine may call it.
func (f *Follower) Heard() { tell(f.turn.heard) }

// listen takes up the inbox until stop. After a failure deliveries stay for WorkNotify.
func (f *Follower) listen(stop <-chan struct{}) {
	t := &f.turn
	for t.slice != nil {
		select {
		case <-t.heard:
		case <-stop:
			return
		}
		if t.slice.Err() != nil {
			return
		}
		if err := f.hear(t.slice); err != nil {
			t.slice = nil
			f.s.Log.Warn(
				"a notification could not be taken up while a document is waited for; it is when that has come",
				"err", err)
		}
	}
}

func (f *Follower) hear(ctx context.Context) error {
	f.turn.between = true
	defer func() { f.turn.between = false }()
	err := safe.Do(func() error { return f.notify(ctx) }) // as the queue does for a slice; here nobody else would
	if bug, ok := errors.AsType[*safe.PanicError](err); ok {
		f.s.Log.Error("panic while a notification is taken up", "panic", bug.Value, "stack", string(bug.Stack))
	}
	return err
}
