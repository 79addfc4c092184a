package transfer

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"resyncd/store"
)

const (
	// namedMost bounds how many rows are named; what a baseline brings is looked for in pages.
	namedMost = 10_000
	// urgentMost is how many rows may wait to be fetched while the commit that asks for them is written.
	urgentMost = 16
	// readyLow is how many written rows may still wait when a batch is handed on. It bounds their memory, and fetches do not
	// run dry before the next batch is compared.
	readyLow = 600
	// readyPatience is how long a planner waits for that. Fetches that take longer do not wait for the processor, and
	// reading rows back then costs nobody anything.
	readyPatience = 200 * time.Millisecond
)

// Workset is what is to be done for one Source, and what is being done. The planner, the conductor, whoever records what
// was fetched, and the removals share it. There are two locks, taken in this order:
//
//  1. Rows is held by who reads rows of the state and writes them back, from the first read to the end of the commit, which
//     takes as long as the disk does. A want that changed in between would be lost.
//  2. mu guards the fields below it. It is never held over a call of the store, the disk or the network.
//
// A resource that is being worked on is in flight. If its want changes meanwhile it stays owed when that work is recorded.
// All work is owed in the store too, so whatever is not handed over, or was when a run ended, is found there.
type Workset struct {
	Rows sync.Mutex

	mu     sync.Mutex
	flight map[int64]mark
	// Rows in flight that no worker has yet: urgent ones, whose commit is under way, and those that were just written.
	urgent []*store.Resource
	ready  []*store.Resource
	open   bool          // a conductor takes them
	room   chan struct{} // closed once there is room for ready ones; nil unless somebody waits for that
	// Rows in no flight with work: by id, or all, which are too many to name.
	named []int64
	all   bool
	// A removal may be due; removals are being carried out.
	remains, removing bool
	Notes             notes
	doubtful          map[int64]struct{} // rows whose file may be newer

	// Follows: new work is named, so that a push is fetched without a look at all that is owed.
	Follows bool
	wake    chan struct{} // for the conductor: anything above changed
	remove  chan struct{} // for the removals
}

// mark says of a resource in flight what happened since its flight began.
type mark uint8

const (
	touched mark = 1 << iota // its want changed
	void                     // the commit of the want that it is fetched for failed
)

// NewWorkset is an empty one, of a run that ends.
func NewWorkset() *Workset {
	return &Workset{
		flight: map[int64]mark{}, Notes: notes{rows: map[int64][]*Note{}}, doubtful: map[int64]struct{}{},
		wake: make(chan struct{}, 1), remove: make(chan struct{}, 1),
	}
}

// Begin puts resources in flight and returns those that were not. The caller holds Rows since before it read them, or work
// that was recorded meanwhile would be done again.
func (w *Workset) Begin(rs []*store.Resource) []*store.Resource {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.beginLocked(rs)
}

func (w *Workset) beginLocked(rs []*store.Resource) []*store.Resource {
	out := rs[:0]
	for _, r := range rs {
		if _, busy := w.flight[r.ID]; !busy {
			w.flight[r.ID] = 0
			out = append(out, r)
		}
	}
	return out
}

// Touch notes that the want of a resource changes. One in flight stays owed whatever is wanted now: its file may have its
// name before its row tells, and only work that is owed has the next run look, should this one be cut in between. The caller
// holds Rows.
func (w *Workset) Touch(rc *store.ResourceChange, now store.Micros) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m, busy := w.flight[rc.ID]; busy {
		w.flight[rc.ID] = m | touched
		rc.Work = &store.Work{Action: store.ActionFetch, Due: now}
	}
}

// Fail notes of resources in flight that the want failed which they are fetched for. Nothing comes of that work, and the rows
// are read anew when it ends.
func (w *Workset) Fail(ids []int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		if _, busy := w.flight[id]; busy {
			w.flight[id] = touched | void
		}
	}
}

// is tells whether a resource in flight has a mark.
func (w *Workset) is(id int64, m mark) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.flight[id]&m != 0
}

// Busy tells whether a resource is in flight.
func (w *Workset) Busy(id int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, busy := w.flight[id]
	return busy
}

// Idle leaves out the resources in flight. The caller holds Rows for as long as that must stay true.
func (w *Workset) Idle(rs []*store.Resource) []*store.Resource {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(rs, func(r *store.Resource) bool { _, busy := w.flight[r.ID]; return busy })
}

// InFlight are the ids of the resources in flight, sorted.
func (w *Workset) InFlight() []int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.flight))
}

// end ends the flight of resources.
func (w *Workset) end(rs ...*store.Resource) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.endLocked(rs)
}

func (w *Workset) endLocked(rs []*store.Resource) {
	for _, r := range rs {
		delete(w.flight, r.ID)
	}
}

// Take has a conductor take rows from now on, until clear.
func (w *Workset) Take() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open = true
}

// Clear forgets what is in flight, at the end of a run.
func (w *Workset) Clear() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dropLocked()
	w.open = false
	clear(w.flight)
}

// drop leaves all rows that were handed over, and all that were named, to be read from the store.
func (w *Workset) drop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dropLocked()
}

func (w *Workset) dropLocked() {
	w.endLocked(w.urgent)
	w.endLocked(w.ready)
	w.urgent, w.ready = nil, nil
	w.makeRoom()
}

// HandUrgent hands over rows in flight, to be fetched before all others.
func (w *Workset) HandUrgent(rs []*store.Resource) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.urgent = append(w.urgent, rs...)
	w.Poke()
}

// UrgentRoom is how many more urgent rows may wait.
func (w *Workset) UrgentRoom() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return urgentMost - len(w.urgent)
}

// HandReady hands over rows that were written a moment ago, if there is room for them. The caller has held Rows since before
// it wrote them.
func (w *Workset) HandReady(rs []*store.Resource) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.open || len(w.ready) > readyLow {
		return false
	}
	w.ready = append(w.ready, w.beginLocked(rs)...)
	w.Poke()
	return true
}

// TakeReady returns up to n rows that were handed over, and whether there are more. One whose want changed since is left to be
// read from the store, where it is owed: again tells of that.
func (w *Workset) TakeReady(n int) (rs []*store.Resource, more, again bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n = min(n, len(w.ready))
	for _, r := range w.ready[:n] {
		if w.flight[r.ID] != 0 {
			delete(w.flight, r.ID)
			again = true
		} else {
			rs = append(rs, r)
		}
	}
	clear(w.ready[:n])
	if w.ready = w.ready[n:]; len(w.ready) == 0 {
		w.ready = nil
	}
	if len(w.ready) <= readyLow {
		w.makeRoom()
	}
	return rs, len(w.ready) > 0, again
}

func (w *Workset) makeRoom() {
	if w.room != nil {
		close(w.room)
		w.room = nil
	}
}

// AwaitRoom waits for room for another batch, not for long. Only one planner at a time reads a baseline.
func (w *Workset) AwaitRoom(ctx context.Context) {
	w.mu.Lock()
	if !w.open || len(w.ready) <= readyLow {
		w.mu.Unlock()
		return
	}
	if w.room == nil {
		w.room = make(chan struct{})
	}
	room := w.room
	w.mu.Unlock()
	timer := time.NewTimer(readyPatience)
	defer timer.Stop()
	select {
	case <-room:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Name says which rows have new work. A run that ends looks for all that is owed, in pages.
func (w *Workset) Name(ids []int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.Follows || len(w.named)+len(ids) > namedMost {
		w.named, w.all = nil, true
	} else if !w.all {
		w.named = append(w.named, ids...)
	}
	w.Poke()
}

// NameAll says that many rows have new work.
func (w *Workset) NameAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.named, w.all = nil, true
	w.Poke()
}

// Hear returns what came since the last call: urgent rows, and rows by id or all.
func (w *Workset) Hear() (urgent []*store.Resource, ids []int64, all bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	urgent, ids, all = w.urgent, w.named, w.all
	w.urgent, w.named, w.all = nil, nil, false
	return urgent, ids, all
}

// Poke wakes the conductor.
func (w *Workset) Poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Removals says that a removal may be due. In a run that ends they come after the fetches.
func (w *Workset) Removals() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.remains = true; w.Follows {
		w.removeLocked()
	}
}

// fetched says that nothing is left to be fetched for now: what is to be removed has its turn.
func (w *Workset) fetched() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.remains {
		w.removeLocked()
	}
}

func (w *Workset) removeLocked() {
	select {
	case w.remove <- struct{}{}:
	default:
	}
}

// beginRemovals says that removals are being carried out.
func (w *Workset) beginRemovals() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remains, w.removing = false, true
}

// removed says that what removals told of was carried out, or is owed, and wakes the conductor: a removal that failed is due
// again, or the disk failed.
func (w *Workset) removed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.removing = false
	w.Poke()
}

// waits tells whether there is work that the conductor does not know of, or a removal under way.
func (w *Workset) waits() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.waitsLocked()
}

func (w *Workset) waitsLocked() bool {
	return len(w.urgent)+len(w.ready)+len(w.named) > 0 || w.all || w.remains || w.removing
}

// rest sets resting to whether nothing waits, and tells whether that was not so before. It looks and decides in one, after
// whoever is planning: work that is handed over meanwhile would be overtaken, and a pull concluded without it.
func (w *Workset) rest(resting *atomic.Bool) (begins bool) {
	w.Rows.Lock()
	defer w.Rows.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	rests := !w.waitsLocked()
	return !resting.Swap(rests) && rests
}

// Due are the rows of a commit that have work now.
func Due(c *store.Commit) []int64 {
	ids := make([]int64, 0, len(c.Resources))
	for i := range c.Resources {
		if w := c.Resources[i].Work; w != nil && w.Action != store.ActionNone {
			ids = append(ids, c.Resources[i].ID)
		}
	}
	return ids
}
