package transfer

import (
	"context"
	"errors"
	"slices"
	"time"

	"resyncd/store"
)

const (
	// eagerAge is how long a finished change waits for others while nothing is queued.
	eagerAge = 2 * time.Millisecond
	// sparePlaced bounds the group after which a spare stage is made.
	sparePlaced = 4
	// lookAtLeast is the least time between two looks at owed rows.
	lookAtLeast = 500 * time.Millisecond
	// A failed disk is tried again after relaxFirst, doubling to relaxMost (F6: within 30 s).
	relaxFirst = 2 * time.Second
	relaxMost  = 15 * time.Second

	forEver = 1000 * time.Hour
)

func (c *conductor) hear() {
	w := c.r.s
	urgent, ids, all := w.Hear()
	if len(urgent) > 0 {
		c.queue = append(c.apart(urgent), c.queue...)
	}
	if len(c.queue)+len(c.named)+len(ids) > namedMost { // the store has the rest
		ids, all = nil, true
	}
	c.named = append(c.named, ids...)
	if all {
		c.dry, c.again = false, true // new rows have new ids: the paging goes on
		w.Removals()
	}
	// Work may be due earlier, or the disk have room. A look at a halted disk is not put off.
	if c.look.relax == 0 || !c.r.IsHalted() {
		c.look.relax, c.look.armed = 0, false
	}
}

// mayRestart tells whether paging may begin anew. Rows in flight still look due, and a run that ends would page in
// circles.
func (c *conductor) mayRestart() bool { return c.r.s.Follows || c.idle() }

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

// arm plans the next look. Rows in flight count as due, so looks have a least distance; free workers go first, because
// the query costs as much as a job.
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
		// A clock that is set back must not hold work up for ever (F15).
		wait = min(time.Duration(next-now)*time.Microsecond, 30*time.Second)
		if first.IsDue(now) {
			wait = 0
		}
		// Counted from the last look, or pushes would put off owed work.
		wait = max(wait, time.Until(c.look.last.Add(lookAtLeast)))
	}
	c.look.timer.Reset(wait)
	c.look.armed = true
	return nil
}

// lookAgain pages through due rows, and probes a failed disk. A full disk may wait for removals.
func (c *conductor) lookAgain(ctx context.Context) {
	c.r.s.Removals()
	if c.r.IsHalted() {
		if err := c.r.probe(ctx); err != nil {
			c.r.s.Log.Warn("the mirror still cannot take files; it is tried again", "err", err)
			return
		}
		c.r.resume()
	}
	c.look.relax = 0
	c.look.last = time.Now()
	c.dry, c.again, c.after = false, false, 0
}

// removeLoop carries out due removals. A ctx that ends is no error.
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
