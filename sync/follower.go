package sync

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"resyncd/destination"
	"resyncd/store"
	"resyncd/sync/pull"
	"resyncd/sync/transfer"
)

// Follower keeps one Source in step for as long as it runs. It holds the Source's claim, so that no other process works on
// it. Whatever comes in only writes wants and coverage, slice by slice (Do); one reconciler beside it fetches (Run).
//
// All that matters is in the store: a Follower that is killed and begun anew goes on where the last one was.
type Follower struct {
	s   *session
	o   FollowOptions
	rec *transfer.Reconciler

	// The fields below belong to whoever has the turn.
	offers   map[int64]*destination.SetOffer
	channels map[int64]*offered
	sets     map[int64]*following
	pulls    []*pulling
	looked   bool // the trash of an unclean end was looked through
	scrubbed int64
	begun    bool      // the first slice was run
	tried    time.Time // the last pull
	framed   time.Time // the last time that Framework Notifications were carried out

	turn      *turn
	asks      asks
	unsettled atomic.Int32 // pulls that are not concluded
	marred    atomic.Bool  // the state says of a set that the disk failed, until the next pull

	once bool          // a one-shot run: it is asked for one pull, and ends when that is concluded
	news chan struct{} // of a one-shot run: its reconciler rests, say
}

// following is what a Follower remembers of a set between slices.
type following struct {
	due    time.Time     // when open holes are asked about again
	delay  time.Duration // the back-off of a lagging list
	pulled time.Time     // the last pull
	filled time.Time     // the last time that lists were read for holes or hints
	listed time.Time     // the last re-read of a Resource List that a notification named

	// Of a topic: expects is the document that a signed push brought and that the topic's own answer has not been since, looks
	// how often it was asked, read when it was last, and signed that the hub asks for it by its secret.
	expects *[32]byte
	looks   int
	read    time.Time
	signed  bool
}

// Follow begins to follow a Source. The error is a *store.HeldError, ErrStopped for a paused Source, or one of the store.
func (e *Engine) Follow(ctx context.Context, t Target, o FollowOptions) (*Follower, error) {
	f := newFollower(o)
	if err := f.begin(ctx, e, t, RunOptions{From: store.NoTime, Progress: f.progress}); err != nil {
		return nil, err
	}
	if err := f.s.Site.Begun(ctx, nil); err != nil { // it is there to change files
		return nil, errors.Join(err, f.s.release())
	}
	f.s.Site.Follows = true
	return f, nil
}

func newFollower(o FollowOptions) *Follower {
	return &Follower{
		o: o, offers: map[int64]*destination.SetOffer{}, channels: map[int64]*offered{}, sets: map[int64]*following{},
		asks: asks{hints: map[int64]bool{}}, turn: &turn{heard: make(chan struct{}, 1)},
	}
}

// begin takes the claim of the Source.
func (f *Follower) begin(ctx context.Context, e *Engine, t Target, run RunOptions) error {
	s, err := e.begin(ctx, t, run)
	if err != nil {
		return err
	}
	o := &f.o
	f.s, s.Others, s.Kept = s, f.turn.await, f.turn.keep
	s.Site.Hint, s.Site.Notes.Done = f.Hint, f.mirrored
	s.observe = o.Observe
	s.Told = pull.Readings{Skipped: o.Observe.Skipped, Rotten: o.Observe.Rotten, Held: o.Observe.Held, Gap: f.gap}
	s.Site.Observe = transfer.Observer{Fetched: o.Observe.Fetched, Settled: o.Observe.Settled, Removed: o.Observe.Removed, Halted: o.Observe.Halted}
	if err := errors.Join(s.knowScopes(ctx), f.doubtVerdicts(ctx)); err != nil {
		return errors.Join(err, s.release())
	}
	f.rec = transfer.New(s.Site, transfer.Options{Workers: transfer.Workers(t.Concurrency), Scope: outsideAll, Rested: f.rested})
	return nil
}

// outsideAll is the scope of a set that nothing is known of.
func outsideAll(string) string { return "the set is unknown" }

// SourceID is the Source's id in the store.
func (f *Follower) SourceID() int64 { return f.s.src.ID }

// errClosed is told whoever still waits when a Follower ends.
var errClosed = errors.New("the Source is not followed any more")

// Close gives the claim back and answers whoever still waits. The Follower is of no use afterwards.
func (f *Follower) Close() error {
	f.asks.close()
	return f.s.release()
}

// Run fetches and removes what is wanted until ctx ends, then marks the end as orderly and returns nil. Any other error is
// one of the store or of the claim: close the Follower and begin another one. A full or failing mirror disk is none: work
// resumes by itself (F6).
func (f *Follower) Run(ctx context.Context) error {
	err := f.rec.While(ctx, func(ctx context.Context) error {
		<-ctx.Done()
		return nil
	})
	if err != nil {
		return err
	}
	return f.end(context.WithoutCancel(ctx))
}

// Do carries out one slice. The error is one of the store, the claim or ctx; what the Source does wrong is recorded and
// shown, and tried again in its time. It must not be called from several goroutines at once. A slice that waits for a
// document takes up meanwhile what Heard told of.
func (f *Follower) Do(ctx context.Context, w Work) error {
	switch w {
	case WorkNotify:
		return f.alone(ctx, f.notify)
	case WorkGap:
		return f.hearing(ctx, f.fillGaps)
	case WorkFramework:
		return f.hearing(ctx, f.framework)
	case WorkPull:
		return f.hearing(ctx, f.pull)
	case WorkConclude:
		return f.alone(ctx, func(ctx context.Context) error { return f.conclude(ctx, false) })
	case WorkScrub:
		return f.alone(ctx, f.scrub)
	}
	return errors.New("unknown work " + string(w))
}

// RequestPull has the next WorkPull slice pull for somebody who waits. Done is told once, at the latest by Close.
func (f *Follower) RequestPull(r PullRequest) {
	if f.asks.request(&r) {
		f.asks.answer([]*PullRequest{&r}, errClosed)
	}
}

// hintEvery is the least time between two pulls of a set that hints ask for: whoever can send them must not be able to
// make us ask the Source without end (P8).
const hintEvery = 5 * time.Second

// Hint asks for a pull of a set soon: something may have changed, and nobody can prove what. It may be called from any
// goroutine.
func (f *Follower) Hint(setID int64) {
	f.asks.hint(setID)
	f.o.Later(WorkGap, f.s.Now())
}

// Rediscover reads anew what the Source offers and tells Offered, and returns when that is done. It waits for its turn, so
// it must not be called from within Do.
func (f *Follower) Rediscover(ctx context.Context) error {
	done := make(chan error, 1)
	f.asks.framework(done)
	f.o.Later(WorkFramework, f.s.Now())
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Approve carries out held removals, as Engine.Approve does; call it like Do.
func (f *Follower) Approve(ctx context.Context, reject bool) (Approved, error) {
	return f.s.approve(ctx, reject)
}

// Restore brings a file back from the trash, as Engine.Restore does; call it like Do.
func (f *Follower) Restore(ctx context.Context, uri string) (store.Trashed, error) {
	return f.s.restore(ctx, uri)
}

// Idle reports whether nothing is being fetched right now.
func (f *Follower) Idle() bool { return f.rec.Rests() }

func (f *Follower) set(id int64) *following {
	if f.sets[id] == nil {
		f.sets[id] = &following{}
	}
	return f.sets[id]
}

// known returns the set of that id, nil if the Source has none.
func (f *Follower) known(ctx context.Context, id int64) (*store.Set, error) {
	sets, err := f.s.Store.Sets(ctx, f.s.src.ID)
	if i := slices.IndexFunc(sets, func(s store.Set) bool { return s.ID == id }); i >= 0 {
		return &sets[i], err
	}
	return nil, err
}

// offer is what the set offers, as far as discovery told.
func (f *Follower) offer(set *store.Set) (*destination.SetOffer, bool) {
	if o := f.offers[set.ID]; o != nil {
		return o, true
	}
	return &destination.SetOffer{ID: set.CapabilityList}, false
}

func (f *Follower) progress(p transfer.Progress) {
	for _, r := range f.asks.unanswered() {
		if r.Progress != nil {
			r.Progress(p)
		}
	}
}

func (f *Follower) mirrored(n *transfer.Note) {
	if o := f.o.Observe.Mirrored; o != nil {
		o(Mirrored{
			SetID: n.SetID, From: n.From, Until: n.Until, Changes: n.Changes, Owed: n.Owed, Received: n.Received,
			Took: f.s.Now().Sub(n.Received),
		})
	}
}

func (f *Follower) gap(g store.Gap) {
	if o := f.o.Observe.Gap; o != nil {
		o(g)
	}
}

// rested is told by the reconciler whenever it comes to rest.
func (f *Follower) rested() {
	if f.unsettled.Load() > 0 {
		f.o.Later(WorkConclude, f.s.Now())
	}
	f.judgeAnew()
}
