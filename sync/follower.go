package sync

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"resyncd/destination"
	"resyncd/store"
	"resyncd/sync/transfer"
)

// Follower keeps one Source in step under its claim. Inputs only write wants and coverage in slices (Do), and one
// reconciler fetches (Run).
type Follower struct {
	s   *session
	o   FollowOptions
	rec *transfer.Reconciler

	// The holder of the turn owns these fields.
	offers   map[int64]*destination.SetOffer
	channels map[int64][]destination.Channel // of each set, when it was last read
	sets     map[int64]*following
	pulls    []*pulling
	looked   bool
	scrubbed int64
	begun    bool
	tried    time.Time // the last pull
	framed   time.Time

	turn      turn
	asks      asks
	unsettled atomic.Int32
	marred    atomic.Bool // a set shows a disk failure until the next pull

	once bool // a one-shot run, which ends after one pull
	news chan struct{}
}

type following struct {
	due    time.Time
	delay  time.Duration
	pulled time.Time // the last pull
	filled time.Time
	listed time.Time

	// For a topic: expects is a pushed document not answered yet, looks the questions, read the last of them.
	expects *[32]byte
	looks   int
	read    time.Time
	signed  bool
}

// Follow begins to follow a Source. The error is a *store.HeldError, ErrStopped, or one of the store.
func (e *Engine) Follow(ctx context.Context, t Target, o FollowOptions) (*Follower, error) {
	f := &Follower{o: o}
	if err := f.begin(ctx, e, t, RunOptions{Progress: f.progress}); err != nil {
		return nil, err
	}
	if err := f.s.Begun(ctx, nil); err != nil {
		return nil, errors.Join(err, f.s.release())
	}
	f.s.Follows = true
	return f, nil
}

func (f *Follower) begin(ctx context.Context, e *Engine, t Target, run RunOptions) error {
	s, err := e.begin(ctx, t, run, f.o.Observe)
	if err != nil {
		return err
	}
	f.offers, f.channels = map[int64]*destination.SetOffer{}, map[int64][]destination.Channel{}
	f.sets = map[int64]*following{}
	f.turn.heard = make(chan struct{}, 1)
	f.s, s.Await, s.Keep = s, f.await, f.turn.keep
	if t.UsesDumps() {
		s.Hold() // or what a killed run left owed would be asked for before its packages are found
	}
	s.Hint, s.Notes.Done = f.Hint, f.mirrored
	if err := errors.Join(s.knowScopes(ctx), f.doubtVerdicts(ctx)); err != nil {
		return errors.Join(err, s.release())
	}
	s.noRule = "the set is unknown"
	f.rec = transfer.New(s.Site, f.rested)
	return nil
}

// SourceID is the Source's id in the store.
func (f *Follower) SourceID() int64 { return f.s.SourceID }

var errClosed = errors.New("the Source is not followed any more")

// Close gives the claim back and answers waiting callers. The Follower is unusable afterwards.
func (f *Follower) Close() error {
	f.asks.close()
	return f.s.release()
}

// Run fetches and removes until ctx ends, marks the end as orderly and returns nil. Any other error is one of the store
// or claim and needs a new Follower; a failing mirror disk is no error (F6).
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

// Do carries out one slice and must not run concurrently. The error is one of the store, the claim or ctx; the Source's
// faults are recorded and tried again.
func (f *Follower) Do(ctx context.Context, w Work) error {
	switch w {
	case WorkNotify:
		return f.notify(ctx)
	case WorkConclude:
		return f.conclude(ctx)
	case WorkScrub:
		return f.scrub(ctx)
	}
	reads := map[Work]func(context.Context) error{
		WorkGap: f.fillGaps, WorkFramework: f.framework, WorkPull: f.pull,
	}[w]
	if reads == nil {
		return errors.New("unknown work " + string(w))
	}
	if !f.once { // nothing is pushed to a one-shot run
		f.turn.slice = ctx
		defer func() { f.turn.slice = nil }()
	}
	return reads(ctx)
}

// RequestPull asks the next WorkPull slice for a pull. Done runs once, at the latest in Close.
func (f *Follower) RequestPull(r PullRequest) {
	r.work = WorkPull
	f.asks.request(&r)
}

// hintEvery is the least time between two pulls of a set for hints (P8).
const hintEvery = 5 * time.Second

// Hint asks for a pull of a set that may have changed. Any goroutine may call it.
func (f *Follower) Hint(setID int64) {
	f.asks.hint(setID)
	f.o.Later(WorkGap, f.s.Now())
}

// Rediscover reads the offer anew and returns after Offered was called. It waits for its turn, so a call from within Do
// would block for ever.
func (f *Follower) Rediscover(ctx context.Context) error {
	done := make(chan error, 1)
	f.asks.request(&PullRequest{work: WorkFramework, Done: func(err error) { done <- err }})
	f.o.Later(WorkFramework, f.s.Now())
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Approve carries out held removals as Engine.Approve does; call it like Do.
func (f *Follower) Approve(ctx context.Context, reject bool) (Approved, error) {
	return f.s.approve(ctx, reject)
}

// Restore brings back a trashed file as Engine.Restore does; call it like Do.
func (f *Follower) Restore(ctx context.Context, uri string) (store.Trashed, error) {
	return f.s.restore(ctx, uri)
}

// Idle reports whether no fetch is running.
func (f *Follower) Idle() bool { return f.rec.Rests() }

func (f *Follower) set(id int64) *following {
	if f.sets[id] == nil {
		f.sets[id] = &following{}
	}
	return f.sets[id]
}

func (f *Follower) known(ctx context.Context, id int64) (*store.Set, error) {
	sets, err := f.s.Store.Sets(ctx, f.s.SourceID)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(sets, func(s store.Set) bool { return s.ID == id }); i >= 0 {
		return &sets[i], nil
	}
	return nil, fmt.Errorf("set %d: %w", id, store.ErrNotFound)
}

func (f *Follower) offer(set *store.Set) (*destination.SetOffer, bool) {
	if o := f.offers[set.ID]; o != nil {
		return o, true
	}
	return &destination.SetOffer{ID: set.CapabilityList}, false
}

func (f *Follower) progress(p transfer.Progress) {
	for _, r := range f.asks.all() {
		if r.Progress != nil {
			r.Progress(p)
		}
	}
}

func (f *Follower) mirrored(n *transfer.Note) {
	f.s.observe.Mirrored(Mirrored{Note: *n, Took: f.s.Now().Sub(n.Received)})
}

func (f *Follower) rested() {
	if f.unsettled.Load() > 0 {
		f.o.Later(WorkConclude, f.s.Now())
	}
	f.judgeAnew()
}

// Work is a slice of a Follower's work. The caller runs one slice at a time for each Follower.
type Work string

// WorkNotify takes up the inbox; WorkGap reads the lists of open gaps; WorkFramework rediscovers; WorkPull pulls;
// WorkConclude records finished pulls; WorkScrub re-hashes a small part of the mirror.
const (
	WorkNotify    Work = "notify"
	WorkGap       Work = "gap"
	WorkFramework Work = "framework"
	WorkPull      Work = "pull"
	WorkConclude  Work = "conclude"
	WorkScrub     Work = "scrub"
)

// FollowOptions say how a Follower follows its Source.
type FollowOptions struct {
	// ReorderGrace is how long a hole waits for a late notification (F36).
	ReorderGrace time.Duration
	// Poll is the usual time between two pulls and the longest back-off of a lagging list.
	Poll time.Duration
	// Patience is how long a pull waits for its fetches.
	Patience time.Duration
	// Later asks for Do(w) at due, or earlier if already asked for. It must be quick and safe for concurrent use.
	Later func(w Work, due time.Time)
	// Offered receives the channels of a set. A missing channel is left out only after two reads agree (F71).
	Offered func(ctx context.Context, setID int64, channels []destination.Channel)
	// Subscribed reports since when a verified subscription to the set has been held, NoTime for none. Later changes
	// that only a list shows are push misses.
	Subscribed func(setID int64) store.Micros
	Observe    Observer
}

// PullRequest is a pull whose caller waits.
type PullRequest struct {
	Full bool
	// RetryFor bounds the retries before the request is answered.
	RetryFor time.Duration
	// Ended receives each set's result, Done the end, Progress the work. Each may be nil.
	Ended    func(Result)
	Done     func(error)
	Progress func(transfer.Progress)

	work  Work // the slice that answers it
	taken bool
}

// doubtVerdicts has problems judged anew after an unclean end: the disk's may be over.
func (f *Follower) doubtVerdicts(ctx context.Context) error {
	if !f.s.src.Unclean {
		return nil
	}
	sets, err := f.s.Store.Sets(ctx, f.s.SourceID)
	f.marred.Store(slices.ContainsFunc(sets, func(s store.Set) bool { return s.Problem != "" }))
	return err
}

// judgeAnew asks for a pull once the disk takes files again.
func (f *Follower) judgeAnew() {
	if !f.rec.IsHalted() && f.marred.CompareAndSwap(true, false) {
		f.o.Later(WorkPull, f.s.Now())
	}
}

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

const lookMost = 10_000

// uncertain reports whether files of owed resources may still differ from their rows (F1).
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

// asks holds the requests of other goroutines to a Follower.
type asks struct {
	mu     sync.Mutex
	open   []*PullRequest     // until they are answered
	hints  map[int64]struct{} // sets that may have changed
	closed bool
}

func (a *asks) locked(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
}

func (a *asks) request(r *PullRequest) {
	var closed bool
	a.locked(func() { a.open, closed = append(a.open, r), a.closed })
	if closed {
		a.answer([]*PullRequest{r}, errClosed)
	}
}

// take returns the requests for a slice that none has taken.
func (a *asks) take(w Work) (rs []*PullRequest) {
	a.locked(func() {
		for _, r := range a.open {
			if r.work == w && !r.taken {
				r.taken, rs = true, append(rs, r)
			}
		}
	})
	return rs
}

func (a *asks) all() (rs []*PullRequest) {
	a.locked(func() { rs = slices.Clone(a.open) })
	return rs
}

func (a *asks) answer(rs []*PullRequest, err error) {
	for _, r := range rs {
		had := 0
		a.locked(func() {
			had = len(a.open)
			a.open = slices.DeleteFunc(a.open, func(other *PullRequest) bool { return other == r })
			had -= len(a.open)
		})
		if had > 0 && r.Done != nil {
			r.Done(err)
		}
	}
}

func (a *asks) hint(set int64) {
	a.locked(func() {
		if a.hints == nil {
			a.hints = map[int64]struct{}{}
		}
		a.hints[set] = struct{}{}
	})
}

func (a *asks) takeHints() (hints map[int64]struct{}) {
	a.locked(func() { hints, a.hints = a.hints, nil })
	return hints
}

func (a *asks) hinted() (some bool) {
	a.locked(func() { some = len(a.hints) > 0 })
	return some
}

func (a *asks) close() {
	a.locked(func() { a.closed = true })
	a.answer(a.all(), errClosed)
}
