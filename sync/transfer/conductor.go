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

const (
	duePage    = 1000
	queueLow   = duePage / 2
	groupFiles = 2000
	groupBytes = 64 << 20
	groupAge   = time.Second
	// A run that is killed again and again gets further each time.
	groupAgeFirst = 50 * time.Millisecond
	halfFiles     = 50
	eagerAge      = 2 * time.Millisecond // while nothing is queued
	// sparePlaced bounds the group after which a spare stage is made.
	sparePlaced = 4
	// waitingGroups bounds what waits for a slow disk, in groups (P8).
	waitingGroups = 2
	queueMost     = 2 * duePage
	lookAtLeast   = 500 * time.Millisecond // between two looks at owed rows
	// A failed disk is tried again within 30 s (F6).
	relaxFirst = 2 * time.Second
	relaxMost  = 15 * time.Second
	lingerFor  = 5 * time.Second // an ended run may still place files

	forEver = 1000 * time.Hour
)

// Reconciler compares want with have and acts: the only place where a mirror changes.
type Reconciler struct {
	s       *Site
	workers int
	rested  func()
	tally   tally
	reading atomic.Bool // more wants may come at any moment
	// patching is full while a patch is applied: all workers at once would take the memory of all.
	patching chan struct{}
}

// New is a reconciler of a site. rested is called whenever nothing is in flight and nothing due.
func New(s *Site, rested func()) *Reconciler {
	n := max(s.Means.Concurrency, 1)
	n += (n + 3) / 4 // some hold no place, while they pause or check a body
	return &Reconciler{s: s, workers: n, rested: rested, tally: tally{failing: spill.NewBitmap()},
		patching: make(chan struct{}, 1)}
}

// While fetches and removes files for as long as do runs, and returns the first failure. Only do reports a ctx that
// ends.
func (r *Reconciler) While(ctx context.Context, do func(context.Context) error) error {
	g, gctx := errgroup.WithContext(ctx)
	work, stop := context.WithCancel(gctx)
	r.s.Removals()
	g.Go(func() error { return r.conduct(work) })
	g.Go(func() error {
		defer stop()
		return do(gctx)
	})
	return g.Wait()
}

type conductor struct {
	r        *Reconciler
	jobs     chan *attempt
	outcomes chan *outcome
	disk     disk
	attempts attempts

	queue  []*store.Resource
	after  int64
	dry    bool // nothing is due above after
	again  bool // rows below after may be due too
	active int
	slow   []*store.Resource // those that hang, tried after the others
	batch  group
	look   look
	post   posts
}

type group struct {
	outcomes []*outcome
	bytes    int64
	opened   time.Time
	age      time.Duration
	ripens   *time.Timer
}

// disk is the step under way.
type disk struct {
	kept    context.Context // outlives an orderly end
	busy    bool
	done    chan func() error // what the conductor makes of a step
	steps   sync.WaitGroup
	placed  bool  // the last step was a group
	removes bool  // removals are under way
	after   int64 // the last row that was looked at for them
}

type look struct {
	timer *time.Timer
	armed bool
	last  time.Time
	relax time.Duration
}

// orderly tells whether a run was asked to end. Else another process may own the Source by now.
func orderly(ctx context.Context) bool { return errors.Is(context.Cause(ctx), context.Canceled) }

func lingering(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if orderly(ctx) {
			time.AfterFunc(lingerFor, end)
		} else {
			end()
		}
	})
	return longer, func() { stop(); end() }
}

func (r *Reconciler) conduct(outer context.Context) error {
	ctx, cancel := context.WithCancel(outer)
	defer cancel()
	kept, release := lingering(outer)
	defer release()
	c := conductor{
		// Buffered, so that handing out never blocks.
		r: r, jobs: make(chan *attempt, r.workers), outcomes: make(chan *outcome, r.workers),
		disk: disk{kept: kept, done: make(chan func() error, 1)},
	}
	var workers sync.WaitGroup
	for range r.workers {
		workers.Go(func() {
			for a := range c.jobs {
				c.outcomes <- r.work(ctx, a)
			}
		})
	}
	r.s.Take()
	defer r.s.Clear()
	err := c.run(ctx)
	cancel()
	close(c.jobs)
	go func() { workers.Wait(); close(c.outcomes) }()
	for o := range c.outcomes {
		c.ended(o)
	}
	var step, last error
	if c.disk.busy {
		step = unlessEnded((<-c.disk.done)())
	}
	// An orderly end places the last outcomes: their transfers need not be repeated.
	if errors.Is(err, context.Canceled) && orderly(outer) {
		last = r.settle(kept, came(outer, c.batch.outcomes))
	} else {
		discard(c.batch.outcomes)
	}
	c.disk.steps.Wait()
	if outer.Err() != nil {
		err, last = unlessEnded(err), unlessEnded(last)
	}
	return errors.Join(err, step, last)
}

func unlessEnded(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// came drops failures from a group once ctx has ended, which caused most of them.
func came(ctx context.Context, group []*outcome) []*outcome {
	if ctx.Err() == nil {
		return group
	}
	return slices.DeleteFunc(group, func(o *outcome) bool { return o.verdict == verdictFailed })
}

func (c *conductor) run(ctx context.Context) error {
	c.batch.age = groupAgeFirst
	c.batch.ripens = time.NewTimer(forEver)
	defer c.batch.ripens.Stop()
	c.look.timer = time.NewTimer(forEver)
	defer c.look.timer.Stop()
	looks := time.NewTicker(asideLook)
	defer looks.Stop()
	for {
		if err := c.page(ctx); err != nil {
			return err
		}
		if c.handOut(ctx) {
			continue
		}
		c.step(ctx)
		if err := c.arm(ctx); err != nil {
			return err
		}
		if c.r.rest(c.idle() && c.dry && !c.disk.removes) {
			c.r.rested()
		}
		var silent <-chan time.Time
		if c.crowded() {
			silent = looks.C
		}
		select {
		case o := <-c.outcomes:
			c.ended(o)
		case <-silent:
			c.attempts.setAside(c.r.workers)
		case end := <-c.disk.done:
			c.disk.busy = false
			if err := end(); err != nil {
				return err
			}
			c.stir()
		case <-c.r.s.wake:
			c.stir()
		case <-c.look.timer.C:
			c.look.armed = false
			c.lookAgain(ctx)
		case <-c.batch.ripens.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// handOut tells whether anything left the queue.
func (c *conductor) handOut(ctx context.Context) bool {
	had := len(c.queue) + len(c.slow)
	for c.active < c.r.workers {
		a := c.next(ctx)
		if a == nil {
			break
		}
		c.jobs <- a
	}
	return len(c.queue)+len(c.slow) < had
}

// step begins the next step at the disk. Groups and pages of removals take turns, so that neither waits for long.
func (c *conductor) step(ctx context.Context) {
	d := &c.disk
	if d.busy {
		return
	}
	if !d.removes && c.r.s.takeRemovals(c.idle() && c.dry) {
		d.removes, d.after = c.r.mayRemove(), 0
	}
	switch {
	case c.ripe() && !(d.removes && d.placed):
		group := c.batch.outcomes
		c.batch.outcomes, c.batch.bytes, c.batch.age = nil, 0, min(2*c.batch.age, groupAge)
		d.busy, d.placed = true, true
		d.steps.Go(func() {
			err := c.r.settle(d.kept, came(ctx, group))
			d.done <- func() error { return err }
			if c.r.s.Follows && len(group) <= sparePlaced {
				c.r.s.Mirror.Spare(ctx)
			}
		})
	case d.removes:
		after := d.after
		d.busy, d.placed = true, false
		d.steps.Go(func() {
			next, more, err := c.r.removeSome(ctx, c.r.s.LocalNow(), after)
			d.done <- func() error {
				if d.after, d.removes = next, more; !more && err == nil {
					c.r.useRoom()
				}
				return err
			}
		})
	}
}

// stir plans the next look anew, because work may be due earlier. A look at a halted disk is not put off.
func (c *conductor) stir() {
	if c.look.relax == 0 || !c.r.IsHalted() {
		c.look.relax, c.look.armed = 0, false
	}
}

func (c *conductor) idle() bool {
	return len(c.queue) == 0 && len(c.slow) == 0 && c.active == 0 && len(c.batch.outcomes) == 0 && !c.disk.busy
}

func (c *conductor) choked() bool {
	return c.disk.busy &&
		(len(c.batch.outcomes) >= waitingGroups*groupFiles || c.batch.bytes >= waitingGroups*groupBytes)
}

func (c *conductor) ripe() bool {
	if len(c.batch.outcomes) == 0 || c.disk.busy {
		return false
	}
	if c.r.s.Follows && len(c.queue) == 0 && time.Since(c.batch.opened) >= eagerAge {
		return true // transfers under way must not hold back a finished change
	}
	return len(c.batch.outcomes) >= groupFiles || c.batch.bytes >= groupBytes ||
		c.active == 0 && len(c.queue) == 0 ||
		time.Since(c.batch.opened) >= c.batch.age || c.halves()
}

// halves tells whether the group is as large as the rest, so that little waits for the disk at the end.
func (c *conductor) halves() bool {
	return c.dry && len(c.slow) == 0 && len(c.batch.outcomes) >= max(halfFiles, c.active+len(c.queue)) &&
		!c.r.reading.Load()
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
