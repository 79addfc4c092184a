package transfer

import (
	"context"
	"errors"
	"slices"
	"time"

	"resyncd/store"
)

const (
	// eagerAge is how long a finished change waits for others to share its group with, while nothing more is queued.
	eagerAge = 2 * time.Millisecond
	// sparePlaced is how many files are so few that a spare stage is of use for the next ones.
	sparePlaced = 4
	// lookAtLeast is the least time between two looks at everything that is owed.
	lookAtLeast = 500 * time.Millisecond
	// A disk that failed is tried again after relaxFirst, doubling to relaxMost (F6: it resumes within 30 s).
	relaxFirst = 2 * time.Second
	relaxMost  = 15 * time.Second

	forEver = 1000 * time.Hour
)

// hear takes up what the planner or an outcome told.
func (c *conductor) hear() {
	w := c.r.s
	urgent, ids, all := w.Hear()
	if len(urgent) > 0 {
		c.queue = append(c.apart(urgent), c.queue...)
	}
	if len(c.queue)+len(c.named)+len(ids) > namedMost { // more than are fetched: what is owed is in the store
		ids, all = nil, true
	}
	c.named = append(c.named, ids...)
	if all {
		c.dry, c.again = false, true // new rows have new ids, so the paging goes on where it is
		w.Removals()                 // some of them may be
	}
	if c.look.relax == 0 || !c.r.IsHalted() { // something may be due earlier, or the disk have failed or got room; a look at that is not put off
		c.look.relax, c.look.armed = 0, false
	}
}

// mayRestart tells whether everything that is owed may be paged through anew. Rows in flight still look due: where work is not
// named, what was told of it all the while would have it page in circles.
func (c *conductor) mayRestart() bool { return c.r.s.Follows || c.idle() }

// pageNamed puts the named rows before all others.
func (c *conductor) pageNamed(ctx context.Context) error {
	n := min(len(c.named), duePage)
	ids := slices.Clone(c.named[:n])
	c.named = c.named[n:]
	slices.Sort(ids)
	ids = slices.Compact(ids)
	w := c.r.s
	w.Rows.Lock()
	defer w.Rows.Unlock()
	rs, err := c.r.s.Store.ByIDs(ctx, ids)
	if err != nil {
		return err
	}
	now := w.LocalNow()
	fetches := rs[:0]
	for _, r := range rs {
		switch {
		case r.Work.Action == store.ActionRemove:
			w.Removals()
		case r.Work.Action == store.ActionNone:
			w.landed(r.ID, false)
		case r.Work.IsDue(now):
			fetches = append(fetches, r)
		}
	}
	c.queue = append(c.apart(w.Begin(c.r.untried(fetches))), c.queue...)
	return nil
}

// arm plans the next look at what is owed. Rows in flight count as due all the while, so looks have a least distance. A
// resource that a worker is free to fetch goes first: to ask the store took a push as long as to hand its work over.
func (c *conductor) arm(ctx context.Context) error {
	if c.look.armed || !c.dry || c.fed || len(c.queue) > 0 && c.active < c.busy() {
		return nil
	}
	if c.r.IsHalted() {
		c.look.relax = min(max(2*c.look.relax, relaxFirst), relaxMost)
		c.look.timer.Reset(c.look.relax)
		c.look.armed = true
		return nil
	}
	next, err := c.r.s.Store.NextDue(ctx, c.r.s.SourceID)
	if err != nil {
		return err
	}
	wait := forEver
	if next.Known() {
		now, first := c.r.s.LocalNow(), store.Work{Due: next}
		wait = min(time.Duration(next-now)*time.Microsecond, 30*time.Second) // a clock that is set back must not hold work up for ever (F15)
		if first.IsDue(now) {
			wait = 0
		}
		// Counted from the last look: what is pushed all the while must not put off what is owed.
		wait = max(wait, time.Until(c.look.last.Add(lookAtLeast)))
	}
	c.look.timer.Reset(wait)
	c.look.armed = true
	return nil
}

// lookAgain pages through what is due, and gives a disk that failed another try. A full one may be waiting for removals.
func (c *conductor) lookAgain(ctx context.Context) error {
	c.r.s.Removals()
	if c.r.IsHalted() {
		if err := c.r.probe(ctx); err != nil {
			c.r.s.Log.Warn("the mirror still cannot take files; it is tried again", "err", err)
			return nil
		}
		c.r.resume()
	}
	c.look.relax = 0
	c.look.last = time.Now()
	c.dry, c.again, c.after = false, false, 0
	return nil
}

// removeLoop carries out removals as they become due, beside the fetches. That ctx ends is no error.
func (r *Reconciler) removeLoop(ctx context.Context) error {
	for {
		select {
		case <-r.s.remove:
		case <-ctx.Done():
			return nil
		}
		r.s.beginRemovals()
		if err := r.makeRoom(ctx); err != nil {
			if ctx.Err() != nil && errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		}
		r.s.removed()
	}
}

// rest says when nothing is under way.
func (c *conductor) rest() {
	w := c.r.s
	busy := !c.idle() || !c.dry || len(c.named) > 0
	if !busy {
		w.fetched()
	}
	if busy || w.waits() {
		c.r.resting.Store(false)
	} else if w.rest(&c.r.resting) {
		c.r.rested()
	}
}
