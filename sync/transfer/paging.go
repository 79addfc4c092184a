package transfer

import (
	"context"
	"slices"
	"time"

	"resyncd/store"
)

// page fills the queue: with what was handed over or named, then with what is due in the store. At the end of the rows
// it begins anew if wants came in meanwhile.
func (c *conductor) page(ctx context.Context) error {
	w := c.r.s
	if c.r.IsHalted() {
		w.drop()
		w.end(c.queue...)
		w.end(c.slow...)
		c.slow, c.queue, c.dry, c.again = nil, nil, true, false
		return nil
	}
	if err := c.hear(ctx); err != nil {
		return err
	}
	if c.takeReady(); !c.wants() {
		return nil
	}
	if len(c.queue) == 0 {
		w.Rows.Lock()
	} else if !w.Rows.TryLock() {
		return nil // Rows is held for as long as the disk takes, and the workers still have work
	}
	defer w.Rows.Unlock()
	c.takeReady()
	for had := len(c.queue); c.wants() && len(c.queue) <= had; {
		if c.dry {
			c.dry, c.again, c.after = false, false, 0
		}
		rs, err := w.Store.Due(ctx, store.DueQuery{
			SourceID: w.SourceID, Action: store.ActionFetch, Now: w.LocalNow(), After: c.after, Limit: duePage,
		})
		if err != nil {
			return err
		}
		if len(rs) == 0 {
			c.dry, c.again = true, c.again && c.after > 0
			continue
		}
		c.after = rs[len(rs)-1].ID
		c.queue = append(c.queue, c.apart(w.Begin(rs))...)
	}
	return nil
}

// wants tells whether to page. Rows in flight still look due, and a run that ends would page in circles.
func (c *conductor) wants() bool {
	return len(c.queue) <= queueLow && (!c.dry || c.again && (c.r.s.Follows || c.idle()))
}

// hear takes what was announced, as far as the queue has room: a fast hub must not fill it without bound.
func (c *conductor) hear(ctx context.Context) error {
	for len(c.queue) < queueMost {
		urgent, ids, all := c.r.s.Hear()
		if len(urgent) > 0 {
			c.queue = append(c.apart(urgent), c.queue...)
		}
		if all {
			c.dry, c.again = false, true // new rows have new ids: the paging goes on
		}
		if len(ids) == 0 {
			return nil
		}
		if err := c.pageNamed(ctx, ids); err != nil || len(c.queue) > 0 {
			return err
		}
	}
	return nil
}

func (c *conductor) pageNamed(ctx context.Context, ids []int64) error {
	slices.Sort(ids)
	w := c.r.s
	w.Rows.Lock()
	defer w.Rows.Unlock()
	rs, err := w.Store.ByIDs(ctx, slices.Compact(ids))
	if err != nil {
		return err
	}
	now := w.LocalNow()
	fetches := slices.DeleteFunc(rs, func(r *store.Resource) bool {
		switch r.Work.Action {
		case store.ActionRemove:
			w.Removals()
		case store.ActionNone:
			w.landed(r.ID, false)
		}
		return r.Work.Action != store.ActionFetch || !r.Work.IsDue(now)
	})
	c.queue = append(c.apart(w.Begin(fetches)), c.queue...)
	return nil
}

func (c *conductor) takeReady() {
	if len(c.queue) > queueLow {
		return
	}
	rows, again := c.r.s.TakeReady(duePage)
	if c.queue = append(c.queue, rows...); again {
		c.dry, c.again = false, true
	}
}

// arm plans the next look. Rows in flight count as due, so looks have a least distance.
func (c *conductor) arm(ctx context.Context) error {
	if c.look.armed || !c.dry {
		return nil
	}
	wait := forEver
	if c.r.IsHalted() {
		c.look.relax = min(max(2*c.look.relax, relaxFirst), relaxMost)
		wait = c.look.relax
	} else if next, err := c.r.s.Store.NextDue(ctx, c.r.s.SourceID); err != nil {
		return err
	} else if next.Known() {
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
