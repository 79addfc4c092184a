package sync

import (
	"context"
	"time"

	"resyncd/store"
)

// A resource that nobody knew before goes from the planner to the reconciler as it was written, without being read back: that
// was a quarter of what the state costs in a first catch-up. It is owed in the store all the same, so whatever is not handed
// on, or was when a run ended, is found there.
const (
	// handLow is how many rows may still wait to be taken when a batch is handed on: it bounds their memory, and fetches do
	// not run dry before the next batch is compared. Where each sync of the state takes 30 ms, half as many cost some
	// hundredths more time.
	handLow = 600
	// handPatience is how long a planner waits for that. Fetches that take longer do not wait for the processor, and then
	// reading rows back costs nobody anything.
	handPatience = 200 * time.Millisecond
)

// handover are the rows on their way, part of a flight and under its lock.
type handover struct {
	rows  []*store.Resource
	open  bool          // a reconciler is there to take them
	came  chan struct{} // told of rows
	spare chan struct{} // closed once there is room; nil unless someone waits for that
}

// receive lets the planner hand on rows from now on, until clear. What it returns is told of them.
func (f *flight) receive() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hand.open, f.hand.came = true, make(chan struct{}, 1)
	return f.hand.came
}

// handOn boards rows that were written a moment ago, if there is room for them. The caller has held the lock since before it
// wrote them.
func (f *flight) handOn(rows []*store.Resource) bool {
	h := &f.hand
	if !h.open || len(h.rows) > handLow {
		return false
	}
	h.rows = append(h.rows, f.board(rows)...)
	select {
	case h.came <- struct{}{}:
	default:
	}
	return true
}

// take returns up to n rows that were handed on, and whether there are more. One whose want changed since is left to be read
// from the store, where it is owed: again tells of that. The caller holds the lock.
func (f *flight) take(n int) (rows []*store.Resource, more, again bool) {
	h := &f.hand
	n = min(n, len(h.rows))
	for _, r := range h.rows[:n] {
		if f.touched(r.ID) {
			f.land(r.ID)
			again = true
		} else {
			rows = append(rows, r)
		}
	}
	clear(h.rows[:n])
	if h.rows = h.rows[n:]; len(h.rows) == 0 {
		h.rows = nil
	}
	if len(h.rows) <= handLow {
		h.room()
	}
	return rows, len(h.rows) > 0, again
}

// drop leaves all that was handed on to be read from the store. The caller holds the lock.
func (f *flight) drop() {
	for _, r := range f.hand.rows {
		f.land(r.ID)
	}
	f.hand.rows = nil
	f.hand.room()
}

func (h *handover) room() {
	if h.spare != nil {
		close(h.spare)
		h.spare = nil
	}
}

// awaitRoom waits for room for another batch, not for long. Only one planner at a time reads a baseline.
func (f *flight) awaitRoom(ctx context.Context) {
	f.mu.Lock()
	h := &f.hand
	if !h.open || len(h.rows) <= handLow {
		f.mu.Unlock()
		return
	}
	if h.spare == nil {
		h.spare = make(chan struct{})
	}
	spare := h.spare
	f.mu.Unlock()
	timer := time.NewTimer(handPatience)
	defer timer.Stop()
	select {
	case <-spare:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// newcomer is a resource that a commit brings, and its place in it.
type newcomer struct {
	res *store.Resource
	at  int
}

// handOn hands on what a commit brought that is to be fetched; all tells that it asked for no other work.
func (p *planner) handOn(c *store.Commit, works int) (all bool) {
	rows := make([]*store.Resource, 0, len(p.newcomers))
	wants := make([]store.Want, len(p.newcomers)) // not those of the batch, which would be kept with them
	for i, n := range p.newcomers {
		rc := &c.Resources[n.at]
		if rc.Work.Action != store.ActionFetch || rc.Want == nil || rc.Want.Inline || p.notes[n.at] != nil {
			continue
		}
		wants[i] = *rc.Want
		n.res.ID, n.res.Key, n.res.Work, n.res.Wants = rc.ID, rc.Key, *rc.Work, wants[i:i+1:i+1]
		rows = append(rows, n.res)
	}
	return len(rows) > 0 && p.s.flight.handOn(rows) && len(rows) == works
}
