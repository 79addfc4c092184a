package transfer

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

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

// Reconciler compares want with have and acts: the only place where a mirror changes. It works on for as long as its
// context lives; rows with new work are named to it (Workset), and owed ones come up again when they are due.
type Reconciler struct {
	s       *Site
	workers int
	scope   func(uri string) (refused string)
	tally   tally
	under   transfers
	hasher  hasher
	// reading: documents are being read, so that more wants may come at any moment.
	reading atomic.Bool
	// resting: nothing is in flight and nothing due. rested is told whenever that begins.
	resting atomic.Bool
	rested  func()
}

// Options say how a reconciler works.
type Options struct {
	Workers int
	// Scope is the rule for URIs of sets that have none of their own.
	Scope func(uri string) (refused string)
	// Rested is told whenever nothing is in flight and nothing due.
	Rested func()
}

// New is a reconciler of a site.
func New(s *Site, o Options) *Reconciler {
	return &Reconciler{s: s, workers: o.Workers, scope: o.Scope, rested: o.Rested, tally: tally{failing: spill.NewBitmap()}}
}

// While fetches and removes what is wanted for as long as do runs, and returns the error of whichever fails first. A ctx
// that ends is none of the work's failures: only do tells of it.
func (r *Reconciler) While(ctx context.Context, do func(context.Context) error) error {
	g, gctx := errgroup.WithContext(ctx)
	work, stop := context.WithCancel(gctx)
	g.Go(func() error { return r.fetchAll(work) })
	g.Go(func() error { return r.removeLoop(work) })
	r.s.Poke()
	r.s.Removals()
	g.Go(func() error {
		defer stop()
		return do(gctx)
	})
	return g.Wait()
}

// Reading says whether documents are being read, from which more wants may come.
func (r *Reconciler) Reading(on bool) {
	r.reading.Store(on)
	r.s.Poke()
}

// Retry has what failed be tried again until end, when its time has come; the zero value sets no end. What has failed by
// then stays owed, and everything else is still tried once.
func (r *Reconciler) Retry(end time.Time) {
	r.tally.add(func(t *tally) { t.until = end })
	r.s.Poke()
}

// Rests tells whether nothing is in flight and nothing due.
func (r *Reconciler) Rests() bool { return r.resting.Load() }

// Stir ends a rest, so that the next one is told.
func (r *Reconciler) Stir() {
	r.resting.Store(false)
	r.s.Poke()
}

// fetchAll is the conductor: one goroutine that pages work out of the store, hands it to workers and collects outcomes
// into groups; a second makes groups durable meanwhile. That ctx ends is no error.
func (r *Reconciler) fetchAll(ctx context.Context) error {
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
			if r.s.Follows && len(g) <= sparePlaced {
				r.s.Mirror.Spare(ctx) // there is time until the next push
			}
		}
	})
	r.s.Take()
	c := conductor{r: r, jobs: jobs, outcomes: outcomes, groups: groups, placed: placed}
	err := c.run(ctx)
	cancel()
	close(jobs)
	go func() { workers.Wait(); close(outcomes) }()
	for o := range outcomes {
		c.ended(o)
	}
	if last := c.batch.outcomes; errors.Is(err, context.Canceled) && orderly(outer) { // what it cost to bring is not to be paid again
		groups <- last
	} else {
		for _, o := range last {
			o.discard()
		}
	}
	close(groups)
	go func() { placer.Wait(); close(placed) }()
	if outer.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil
	}
	for perr := range placed {
		err = errors.Join(err, perr)
	}
	r.s.Clear()
	return err
}

// conductor is the state of one fetchAll; only its goroutine touches it.
type conductor struct {
	r        *Reconciler
	jobs     chan<- job
	outcomes <-chan *outcome
	groups   chan<- []*outcome
	placed   <-chan error
	fed      bool // more rows that were handed over wait

	queue  []*store.Resource
	after  int64
	dry    bool // the last page was empty: nothing due above after
	again  bool // wants came in since the paging began: rows below after may be due too
	active int  // with workers
	// What hangs is tried after the others (aside.go).
	slow       []*store.Resource
	slowActive int
	batch      group
	placing    bool

	left time.Time // the end of the time for retries that the queue was cleared for
	// Rows that were named, and when to look for owed ones again.
	named []int64
	look  look
}

// group are the outcomes that become durable next.
type group struct {
	outcomes []*outcome
	bytes    int64
	opened   time.Time
	age      time.Duration // at which it is closed
	ripens   *time.Timer   // when it is that old
}

// look is the next look at everything that is owed.
type look struct {
	timer *time.Timer
	armed bool
	last  time.Time
	relax time.Duration // until a disk that failed is tried again
}

func (c *conductor) run(ctx context.Context) error {
	c.batch.age = groupAgeFirst
	c.batch.ripens = time.NewTimer(forEver)
	defer c.batch.ripens.Stop()
	c.look.timer = time.NewTimer(forEver)
	defer c.look.timer.Stop()
	look, looks := time.NewTimer(forEver), false // for what is silent
	defer look.Stop()
	for {
		if err := c.page(ctx); err != nil {
			return err
		}
		if err := c.arm(ctx); err != nil {
			return err
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
		case groups <- c.batch.outcomes:
			c.batch.outcomes, c.batch.bytes, c.placing = nil, 0, true
			c.batch.age = min(2*c.batch.age, groupAge)
		case err := <-c.placed:
			c.placing, c.look.armed = false, false
			if err != nil {
				return err
			}
		case <-c.r.s.wake:
			c.hear()
		case <-c.look.timer.C:
			c.look.armed = false
			if err := c.lookAgain(ctx); err != nil {
				return err
			}
		case <-c.batch.ripens.C:
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
	if until, late := c.r.late(); late && !until.Equal(c.left) {
		c.left = until
		c.leave()
	}
	if c.r.IsHalted() {
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
			SourceID: c.r.s.SourceID, Action: store.ActionFetch, Now: w.LocalNow(), After: c.after, Limit: duePage,
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

// leave leaves owed what waits to be tried once more although the time for that is over.
func (c *conductor) leave() {
	w := c.r.s
	for _, rs := range []*[]*store.Resource{&c.queue, &c.slow} {
		had := *rs
		*rs = c.r.untried(slices.Clone(had))
		if len(*rs) < len(had) {
			w.end(slices.DeleteFunc(had, func(r *store.Resource) bool { return slices.Contains(*rs, r) })...)
		}
	}
}

func (c *conductor) idle() bool {
	return len(c.queue) == 0 && len(c.slow) == 0 && c.active == 0 && len(c.batch.outcomes) == 0 && !c.placing
}

// ripe tells when a group is closed. While one is being made durable the next one grows.
func (c *conductor) ripe() bool {
	if len(c.batch.outcomes) == 0 || c.placing {
		return false
	}
	if c.r.s.Follows && len(c.queue) == 0 && len(c.named) == 0 && time.Since(c.batch.opened) >= eagerAge {
		return true // whoever still transfers must not hold back a change that is here
	}
	return len(c.batch.outcomes) >= groupFiles || c.batch.bytes >= groupBytes || c.active == 0 && len(c.queue) == 0 ||
		time.Since(c.batch.opened) >= c.batch.age || c.halves()
}

// halves: no more is left of a pass than what is here. So each of the last groups is half as large as the one before, and little
// is still to be made durable when the last resource has come: with 500 resources of 4 KiB on ext4 that was a tenth of the time.
func (c *conductor) halves() bool {
	return c.dry && !c.r.reading.Load() && len(c.slow) == 0 && len(c.batch.outcomes) >= max(halfFiles, c.active+len(c.queue))
}

func (c *conductor) collect(o *outcome) {
	if len(c.batch.outcomes) == 0 {
		c.batch.opened = time.Now()
		if c.r.s.Follows && len(c.queue) == 0 {
			c.batch.age = eagerAge
		}
		c.batch.ripens.Reset(c.batch.age) // once: set anew in each round to a time that is past, it kept a core busy while a disk synced
	}
	c.batch.outcomes = append(c.batch.outcomes, o)
	if o.disk != nil {
		c.r.halt(o.disk)
	}
	if o.stage != nil {
		c.batch.bytes += o.have.Length
	}
}

// Workers are some more than there are places to ask a host: a place is free while its worker waits to ask again, and
// while it checks and hands over what came. With as many, ten of a thousand resources that always fail made the rest 1.2
// times slower.
func Workers(concurrency int) int {
	n := max(concurrency, 1)
	return n + (n+3)/4
}
