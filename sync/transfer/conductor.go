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

// A group becomes durable with one sync and one commit (performance.md 7.5). It is closed at once when nothing is being
// fetched, so that a single change never waits.
const (
	duePage    = 1000
	queueLow   = duePage / 2
	groupFiles = 2000
	groupBytes = 64 << 20
	groupAge   = time.Second
	// groupAgeFirst lets a run that is killed again and again get further each time.
	groupAgeFirst = 50 * time.Millisecond
	halfFiles     = 50
)

// Reconciler compares want with have and acts: the only place where a mirror changes. It works for as long as its
// context lives.
type Reconciler struct {
	s       *Site
	workers int
	scope   func(uri string) (refused string)
	tally   tally
	under   transfers
	hasher  hasher
	// reading: more wants may come at any moment.
	reading atomic.Bool
	// resting: nothing is in flight and nothing due. rested is called when that begins.
	resting atomic.Bool
	rested  func()
}

// Options say how a reconciler works.
type Options struct {
	Workers int
	// Scope is the rule for URIs of sets without one.
	Scope func(uri string) (refused string)
	// Rested is called whenever nothing is in flight and nothing due.
	Rested func()
}

// New is a reconciler of a site.
func New(s *Site, o Options) *Reconciler {
	return &Reconciler{
		s: s, workers: o.Workers, scope: o.Scope, rested: o.Rested, tally: tally{failing: spill.NewBitmap()},
	}
}

// While fetches and removes files for as long as do runs, and returns the first failure. Only do reports a ctx that
// ends.
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

// Retry has failures tried again until end, zero for ever. Failures stay owed after that.
func (r *Reconciler) Retry(end time.Time) {
	r.tally.add(func(t *tally) { t.until = end })
	r.s.Poke()
}

// Rests tells whether nothing is in flight and nothing due.
func (r *Reconciler) Rests() bool { return r.resting.Load() }

// Stir ends a rest, so that the next one is reported.
func (r *Reconciler) Stir() {
	r.resting.Store(false)
	r.s.Poke()
}

// fetchAll runs the conductor, its workers, and the goroutine that makes groups durable. A ctx that ends is no error.
func (r *Reconciler) fetchAll(ctx context.Context) error {
	outer := ctx
	ctx, cancel := context.WithCancel(outer)
	defer cancel()
	kept, release := lingering(outer)
	defer release()
	jobs := make(chan job, r.workers) // buffered, so that handing out never blocks
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
				r.s.Mirror.Spare(ctx)
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
	// An orderly end places the last outcomes: their transfers need not be repeated.
	if last := c.batch.outcomes; errors.Is(err, context.Canceled) && orderly(outer) {
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

// conductor is the state of one fetchAll, for its goroutine only.
type conductor struct {
	r        *Reconciler
	jobs     chan<- job
	outcomes <-chan *outcome
	groups   chan<- []*outcome
	placed   <-chan error
	fed      bool // more handed-over rows wait

	queue  []*store.Resource
	after  int64
	dry    bool // nothing is due above after
	again  bool // rows below after may be due too
	active int
	// slow are resources that hang, tried after the others.
	slow       []*store.Resource
	slowActive int
	batch      group
	placing    bool

	left  time.Time // the end of retries at the last leave
	named []int64
	look  look
}

type group struct {
	outcomes []*outcome
	bytes    int64
	opened   time.Time
	age      time.Duration
	ripens   *time.Timer
}

type look struct {
	timer *time.Timer
	armed bool
	last  time.Time
	relax time.Duration
}

func (c *conductor) run(ctx context.Context) error {
	c.batch.age = groupAgeFirst
	c.batch.ripens = time.NewTimer(forEver)
	defer c.batch.ripens.Stop()
	c.look.timer = time.NewTimer(forEver)
	defer c.look.timer.Stop()
	look, looks := time.NewTimer(forEver), false // for silent transfers
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
			continue
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
			c.lookAgain(ctx)
		case <-c.batch.ripens.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

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

// endedToo takes all other finished outcomes: one round of run for each costs more than the hash of a small file.
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

// page fills the queue. At the end of the rows it begins anew if wants came in meanwhile.
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
	for first := true; len(c.named) > 0 && (first || len(c.queue) == 0); first = false {
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
		return nil // Rows is held for as long as the disk takes, and the workers still have work
	}
	defer w.Rows.Unlock()
	if c.takeReady(); len(c.queue) > queueLow {
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

func (c *conductor) ripe() bool {
	if len(c.batch.outcomes) == 0 || c.placing {
		return false
	}
	if c.r.s.Follows && len(c.queue) == 0 && len(c.named) == 0 && time.Since(c.batch.opened) >= eagerAge {
		return true // transfers under way must not hold back a finished change
	}
	return len(c.batch.outcomes) >= groupFiles || c.batch.bytes >= groupBytes ||
		c.active == 0 && len(c.queue) == 0 ||
		time.Since(c.batch.opened) >= c.batch.age || c.halves()
}

// halves tells whether the group is as large as the rest of the pass: with ever smaller groups little waits for the
// disk at the end.
func (c *conductor) halves() bool {
	return c.dry && !c.r.reading.Load() && len(c.slow) == 0 &&
		len(c.batch.outcomes) >= max(halfFiles, c.active+len(c.queue))
}

func (c *conductor) collect(o *outcome) {
	if len(c.batch.outcomes) == 0 {
		c.batch.opened = time.Now()
		if c.r.s.Follows && len(c.queue) == 0 {
			c.batch.age = eagerAge
		}
		// The timer is set once: resetting it in each round keeps a core busy while a disk syncs.
		c.batch.ripens.Reset(c.batch.age)
	}
	c.batch.outcomes = append(c.batch.outcomes, o)
	if o.disk != nil {
		c.r.halt(o.disk)
	}
	if o.stage != nil {
		c.batch.bytes += o.have.Length
	}
}

// Workers is the number of workers for a concurrency. Some hold no place, because they wait to ask again or check a
// body.
func Workers(concurrency int) int {
	n := max(concurrency, 1)
	return n + (n+3)/4
}
