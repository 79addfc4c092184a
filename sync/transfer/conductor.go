package transfer

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"resyncd/store"
	"resyncd/sync/spill"
)

// How work is grouped (performance.md 7.5): a group becomes durable with one sync of the file system and one commit. It is
// closed when it is large, when it is old, or at once when nothing is being fetched, so that a single change never waits.
const (
	duePage    = 1000
	queueLow   = duePage / 2
	groupFiles = 2000
	groupBytes = 64 << 20
	groupAge   = time.Second
	// The first groups of a pass are closed early, the next ones later: a run that is killed again and again after a short
	// while gets further each time.
	groupAgeFirst = 50 * time.Millisecond
	// Towards the end of a pass a group of so many is closed once no more is left than it has.
	halfFiles = 50
)

// Reconciler compares want with have and acts: the only place where a mirror changes.
type Reconciler struct {
	s       *Site
	workers int

	// planned is closed when no more wants will come in this pass.
	planned <-chan struct{}

	scope   func(uri string) (refused string)
	failing *spill.Bitmap // what failed last when it was tried in this run
	began   store.Micros  // the pass
	until   time.Time     // the end of the time for retries, zero: this is none
	tally   tally
	under   transfers
	hasher  hasher
	// stale: something failed in a way that a newer list may explain (F48).
	stale bool
	// resting: nothing is in flight and nothing due. rested is told whenever that begins. It makes this the reconciler of a
	// Follower, which works on for as long as its context lives.
	resting atomic.Bool
	rested  func()
	// halted is a failure of the disk: nothing more is fetched in this run.
	halted error
}

// Pass works through everything that is due at now, fetches first and removals after, until planned is closed and nothing
// is left. Failures are rescheduled, not repeated here, but for those of a full disk on which removals made room.
func (r *Reconciler) Pass(ctx context.Context, now func() store.Micros) error {
	r.began = r.s.LocalNow()
	for {
		if err := r.FetchAll(ctx, now); err != nil {
			return err
		}
		select {
		case <-r.planned: // for which fetchAll does not wait when the disk failed
		case <-ctx.Done():
			return ctx.Err()
		}
		if room, err := r.makeRoom(ctx, now); !room {
			return err
		}
	}
}

// Options say how a reconciler works.
type Options struct {
	Workers int
	// Planned is closed when no more wants will come in this pass.
	Planned <-chan struct{}
	// Scope is the rule for URIs of sets that have none of their own.
	Scope func(uri string) (refused string)
	// Failing is what failed last when it was tried in this run; nil: nothing yet.
	Failing *spill.Bitmap
	// Rested is told whenever nothing is in flight and nothing due. It makes this the reconciler of a Follower, which works on
	// for as long as its context lives.
	Rested func()
}

// New is a reconciler of a site.
func New(s *Site, o Options) *Reconciler {
	if o.Failing == nil {
		o.Failing = spill.NewBitmap()
	}
	return &Reconciler{s: s, workers: o.Workers, planned: o.Planned, scope: o.Scope, failing: o.Failing, rested: o.Rested}
}

// Limit sets the end of the time for retries; zero means that there is none.
func (r *Reconciler) Limit(end time.Time) { r.until = end }

// TakeStale tells whether something failed since the last call in a way that a newer list may explain (F48).
func (r *Reconciler) TakeStale() (stale bool) {
	stale, r.stale = r.stale, false
	return stale
}

// Rests tells whether nothing is in flight and nothing due.
func (r *Reconciler) Rests() bool { return r.resting.Load() }

// Stir ends a rest, so that the next one is told.
func (r *Reconciler) Stir() {
	r.resting.Store(false)
	r.s.Poke()
}

// endless tells that this is the reconciler of a Follower.
func (r *Reconciler) endless() bool { return r.rested != nil }

// Late tells that the time for retries is over: what no worker has yet stays owed.
func (r *Reconciler) Late() bool { return !r.until.IsZero() && r.s.Now().After(r.until) }

// FetchAll is the conductor: one goroutine that pages work out of the store, hands it to workers and collects outcomes
// into groups; a second makes groups durable meanwhile.
func (r *Reconciler) FetchAll(ctx context.Context, now func() store.Micros) error {
	outer := ctx
	ctx, cancel := context.WithCancel(outer)
	defer cancel()
	kept, release := lingering(outer)
	defer release()
	jobs := make(chan job, r.workers) // one for each that is free, so handing one out waits for nobody
	outcomes := make(chan *outcome, r.workers)
	groups := make(chan []*outcome)
	placed := make(chan error, 1)

	var workers, placer sync.WaitGroup
	for range r.workers {
		workers.Go(func() {
			w := &worker{watch: r.under.watches(ctx)}
			for j := range jobs {
				outcomes <- r.work(ctx, w, j)
			}
		})
	}
	placer.Go(func() {
		for g := range groups {
			if g = came(outer, g); len(g) == 0 {
				placed <- nil
				continue
			}
			placed <- r.settle(kept, g)
			if r.endless() && len(g) <= sparePlaced {
				r.s.Mirror.Spare(ctx) // there is time until the next push
			}
		}
	})
	r.s.Take()
	c := conductor{r: r, now: now, jobs: jobs, outcomes: outcomes, groups: groups, placed: placed}
	err := c.run(ctx)
	cancel()
	close(jobs)
	go func() { workers.Wait(); close(outcomes) }()
	for o := range outcomes {
		c.ended(o)
	}
	if last := c.group; errors.Is(err, context.Canceled) && orderly(outer) { // what it cost to bring is not to be paid again
		groups <- last
	} else {
		for _, o := range last {
			o.discard()
		}
	}
	close(groups)
	go func() { placer.Wait(); close(placed) }()
	for perr := range placed {
		err = errors.Join(err, perr)
	}
	r.s.Clear()
	return err
}

// conductor is the state of one fetchAll; only its goroutine touches it.
type conductor struct {
	r        *Reconciler
	now      func() store.Micros
	jobs     chan<- job
	outcomes <-chan *outcome
	groups   chan<- []*outcome
	placed   <-chan error
	fed      bool // more rows that were handed over wait

	queue   []*store.Resource
	after   int64
	dry     bool // the last page was empty: nothing due above after
	again   bool // wants came in since the paging began: rows below after may be due too
	planned bool
	active  int // with workers
	// What hangs is tried after the others (aside.go).
	slow       []*store.Resource
	slowActive int
	group      []*outcome
	bytes      int64
	opened     time.Time
	age        time.Duration // at which the group is closed
	ripens     *time.Timer   // when it is that old
	placing    bool

	// In a Follower: rows that were named, and when to look for owed ones again.
	named  []int64
	later  *time.Timer
	armed  bool
	looked time.Time
	relax  time.Duration // until a disk that failed is tried again
}

func (c *conductor) run(ctx context.Context) error {
	c.age = groupAgeFirst
	c.ripens = time.NewTimer(forEver)
	defer c.ripens.Stop()
	c.later = time.NewTimer(forEver)
	defer c.later.Stop()
	look, looks := time.NewTimer(forEver), false // for what is silent
	defer look.Stop()
	planned := c.r.planned
	for {
		if err := c.page(ctx); err != nil {
			return err
		}
		if err := c.arm(ctx); err != nil {
			return err
		}
		if c.finished() {
			return nil
		}
		c.rest()
		if c.handOut() {
			continue // there may be more to page
		}
		if c.crowded() && !looks {
			look.Reset(asideLook)
			looks = true
		}
		var groups chan<- []*outcome
		if c.ripe() {
			groups = c.groups
		}
		select {
		case o := <-c.outcomes:
			c.ended(o)
			c.endedToo()
		case <-look.C:
			if looks = false; c.crowded() {
				c.r.under.setAside(c.r.workers)
			}
		case groups <- c.group:
			c.group, c.bytes, c.placing = nil, 0, true
			c.age = min(2*c.age, groupAge)
		case err := <-c.placed:
			c.placing, c.armed = false, false
			if err != nil {
				return err
			}
		case <-c.r.s.wake:
			c.hear()
		case <-c.later.C:
			c.armed = false
			if err := c.lookAgain(ctx); err != nil {
				return err
			}
		case <-planned:
			planned, c.planned, c.again = nil, true, true
		case <-c.ripens.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// handOut gives every free worker a job, as far as there are any, and reports whether it gave one.
func (c *conductor) handOut() (gave bool) {
	for c.active < c.busy() {
		next, ok := c.next()
		if !ok {
			break
		}
		c.jobs <- next
		c.begun(next)
		gave = true
	}
	return gave
}

// endedToo takes what else has ended by now: one by one through the select of run, with all the looks around it, the outcomes of
// small resources cost more than their hashes.
func (c *conductor) endedToo() {
	for {
		select {
		case o := <-c.outcomes:
			c.ended(o)
		default:
			return
		}
	}
}

// page keeps the queue filled, before it is empty if it can. When the end is reached and everything in flight is recorded,
// it starts anew if wants came in meanwhile, for the rows that were there before.
func (c *conductor) page(ctx context.Context) error {
	w := c.r.s
	if c.r.IsHalted() || c.r.Late() {
		w.drop()
		w.end(c.queue...)
		w.end(c.slow...)
		c.slow, c.queue, c.named, c.fed, c.dry, c.again = nil, nil, nil, false, true, false
		return nil
	}
	for first := true; len(c.named) > 0 && (first || len(c.queue) == 0); first = false { // some may need no fetch
		if err := c.pageNamed(ctx); err != nil {
			return err
		}
	}
	if c.takeReady(); len(c.queue) > queueLow || c.dry && !(c.again && c.mayRestart()) {
		return nil
	}
	if len(c.queue) == 0 {
		w.Rows.Lock()
	} else if !w.Rows.TryLock() {
		return nil // who plans or records has it, for as long as the disk takes: the workers need not wait for that
	}
	defer w.Rows.Unlock()
	if c.takeReady(); len(c.queue) > queueLow { // what its last holder wrote need not be read
		return nil
	}
	if c.dry {
		if !c.again || !c.mayRestart() {
			return nil
		}
		c.dry, c.again, c.after = false, false, 0
	}
	for had := len(c.queue); len(c.queue) == had; {
		rs, err := c.r.s.Store.Due(ctx, store.DueQuery{
			SourceID: c.r.s.SourceID, Action: store.ActionFetch, Now: c.now(), After: c.after, Limit: duePage,
		})
		if err != nil {
			return err
		}
		if len(rs) == 0 {
			c.dry = true
			if c.again && c.mayRestart() {
				c.dry, c.again, c.after = c.after == 0, false, 0
			}
			if c.dry {
				return nil
			}
			continue
		}
		c.after = rs[len(rs)-1].ID
		c.queue = append(c.queue, c.apart(w.Begin(c.r.untried(rs)))...)
	}
	return nil
}

// takeReady puts rows that were handed over behind the others, if few are left.
func (c *conductor) takeReady() {
	if len(c.queue) > queueLow {
		return
	}
	rows, more, again := c.r.s.TakeReady(duePage)
	c.queue, c.fed = append(c.queue, rows...), more
	if again {
		c.dry, c.again = false, true
	}
}

// finished: everything planned was worked on and recorded. A Follower's work never ends.
func (c *conductor) finished() bool {
	return !c.r.endless() && c.idle() && c.dry && !c.again && (c.planned || c.r.IsHalted())
}

func (c *conductor) idle() bool {
	return len(c.queue) == 0 && len(c.slow) == 0 && c.active == 0 && len(c.group) == 0 && !c.placing
}

// ripe tells when a group is closed. While one is being made durable the next one grows.
func (c *conductor) ripe() bool {
	if len(c.group) == 0 || c.placing {
		return false
	}
	if c.r.endless() && len(c.queue) == 0 && len(c.named) == 0 && time.Since(c.opened) >= eagerAge {
		return true // whoever still transfers must not hold back a change that is here
	}
	return len(c.group) >= groupFiles || c.bytes >= groupBytes || c.active == 0 && len(c.queue) == 0 ||
		time.Since(c.opened) >= c.age || c.halves()
}

// halves: no more is left of a pass than what is here. So each of the last groups is half as large as the one before, and little
// is still to be made durable when the last resource has come: with 500 resources of 4 KiB on ext4 that was a tenth of the time.
func (c *conductor) halves() bool {
	return c.planned && c.dry && !c.r.endless() && len(c.slow) == 0 && len(c.group) >= max(halfFiles, c.active+len(c.queue))
}

func (c *conductor) collect(o *outcome) {
	if len(c.group) == 0 {
		c.opened = time.Now()
		if c.r.endless() && len(c.queue) == 0 {
			c.age = eagerAge
		}
		c.ripens.Reset(c.age) // once: set anew in each round to a time that is past, it kept a core busy while a disk synced
	}
	c.group = append(c.group, o)
	if o.disk != nil {
		c.r.halt(o.disk)
	}
	if o.stage != nil {
		c.bytes += o.have.Length
	}
}

// Workers are some more than there are places to ask a host: a place is free while its worker waits to ask again, and
// while it checks and hands over what came. With as many, ten of a thousand resources that always fail made the rest 1.2
// times slower.
func Workers(concurrency int) int {
	n := max(concurrency, 1)
	return n + (n+3)/4
}
