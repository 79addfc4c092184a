package sync

import (
	"context"
	"slices"
	"time"

	"resyncd/store"
)

// The reconciler of a Follower works on while wants come in, hour after hour: nothing is ever "planned", rows with new
// work are named to it (hotlist), and owed ones come up again when they are due.

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
	if c.r.hot == nil {
		c.dry, c.again = false, true // new rows have new ids, so the paging goes on where it is
		return
	}
	if early := c.r.hot.takeEarly(); len(early) > 0 {
		c.queue = append(c.apart(early), c.queue...)
	}
	ids, all := c.r.hot.take()
	if len(c.queue)+len(c.hot)+len(ids) > hotMost { // more than are fetched: what is owed is in the store
		ids, all = nil, true
	}
	c.hot = append(c.hot, ids...)
	if all {
		c.dry, c.again = false, true
		c.r.hot.removals() // some of them may be
	}
	if c.relax == 0 { // something may be due earlier, or the disk have failed; a look at that is not put off
		c.armed = false
	}
}

// mayRestart tells whether everything that is owed may be paged through anew. Rows in flight still look due; a one-shot
// run waits for them, or it would page in circles.
func (c *conductor) mayRestart() bool { return c.r.hot != nil || c.idle() }

// pageHot puts the named rows before all others.
func (c *conductor) pageHot(ctx context.Context) error {
	n := min(len(c.hot), duePage)
	ids := slices.Clone(c.hot[:n])
	c.hot = c.hot[n:]
	slices.Sort(ids)
	ids = slices.Compact(ids)
	f := c.r.s.flight
	f.mu.Lock()
	defer f.mu.Unlock()
	rs, err := c.r.s.Store.ByIDs(ctx, ids)
	if err != nil {
		return err
	}
	now := c.now()
	fetches := rs[:0]
	for _, r := range rs {
		switch {
		case r.Work.Action == store.ActionRemove:
			c.r.hot.removals()
		case r.Work.Action == store.ActionNone:
			c.r.hot.landed(r.ID, false)
		case r.Work.Due <= now:
			fetches = append(fetches, r)
		}
	}
	c.queue = append(c.apart(f.board(c.r.untried(fetches))), c.queue...)
	return nil
}

// arm plans the next look at what is owed. Rows in flight count as due all the while, so looks have a least distance. A
// resource that a worker is free to fetch goes first: to ask the store took a push as long as to hand its work over.
func (c *conductor) arm(ctx context.Context) error {
	if c.r.hot == nil || c.armed || !c.dry || c.fed || len(c.queue) > 0 && c.active < c.busy() {
		return nil
	}
	if c.r.isHalted() {
		c.relax = min(max(2*c.relax, relaxFirst), relaxMost)
		c.later.Reset(c.relax)
		c.armed = true
		return nil
	}
	next, err := c.r.s.Store.NextDue(ctx, c.r.s.src.ID)
	if err != nil {
		return err
	}
	wait := forEver
	if next.Known() {
		wait = time.Duration(max(next-c.now(), 0)) * time.Microsecond
		if next < 0 {
			wait = 0
		}
		wait = min(wait, 30*time.Second) // a clock that is set back must not hold work up for ever (F15)
		// Counted from the last look: what is pushed all the while must not put off what is owed.
		wait = max(wait, time.Until(c.looked.Add(lookAtLeast)))
	}
	c.later.Reset(wait)
	c.armed = true
	return nil
}

// lookAgain pages through what is due, and gives a disk that failed another try.
func (c *conductor) lookAgain(ctx context.Context) error {
	if c.r.isHalted() {
		if err := c.r.probe(ctx); err != nil {
			c.r.s.log.Warn("the mirror still cannot take files; it is tried again", "err", err)
			return nil
		}
		c.r.resume()
		c.relax = 0
		c.r.resting.Store(false) // that it rests is told again, whether or not anything is owed
	}
	c.r.hot.removals()
	c.looked = time.Now()
	c.dry, c.again, c.after = false, false, 0
	return nil
}

// probeBytes is what a disk must take before fetching goes on.
const probeBytes = 1 << 20

// probe finds out whether the mirror can take files again.
func (r *reconciler) probe(ctx context.Context) error {
	if err := r.s.t.Mirror.Check(ctx); err != nil {
		return err
	}
	stage, err := r.s.t.Mirror.NewStage(ctx)
	if err != nil {
		return err
	}
	_, err = stage.Write(make([]byte, probeBytes))
	if derr := stage.Discard(); err == nil {
		err = derr
	}
	return err
}

// resume ends a halt.
func (r *reconciler) resume() {
	r.tally.add(func(*tally) {
		r.halted = nil
		r.s.observe.halted(nil) // in here, as halt does: the placer may meet the next failure now, and the last word counts
	})
	r.s.log.Info("the mirror takes files again")
}

// poke wakes the conductor.
func (r *reconciler) poke() {
	select {
	case r.pokes <- struct{}{}:
	default:
	}
}

// removeLoop carries out removals as they become due, beside the fetches.
func (r *reconciler) removeLoop(ctx context.Context) error {
	for {
		select {
		case <-r.hot.remove:
		case <-ctx.Done():
			return ctx.Err()
		}
		if !r.isHalted() { // else lookAgain asks again
			if err := r.removeAll(ctx, r.s.localNow); err != nil {
				return err
			}
		}
		r.hot.removed()
		r.poke() // one that failed is due again later, or the disk failed
	}
}

// rest says when nothing is under way.
func (c *conductor) rest() {
	if c.r.hot == nil {
		return
	}
	if !c.idle() || !c.dry || len(c.hot) > 0 || c.r.hot.waits() {
		c.r.resting.Store(false)
	} else if c.r.restsNow() {
		c.r.rested()
	}
}

// restsNow begins a rest, unless work was handed over meanwhile, and tells whether it did. It looks and decides in one: whoever
// hands work over and then says that there is no rest (Follower.wake) would else be overtaken, and a pull concluded without it.
func (r *reconciler) restsNow() (begins bool) {
	f := r.s.flight
	f.mu.Lock()
	defer f.mu.Unlock()
	return r.hot.restWhere(len(f.hand.rows) == 0, &r.resting)
}
