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
	// namedMost bounds how many rows are named; more are looked for in pages.
	namedMost = 10_000
	// urgentMost is how many rows may wait for a fetch while the commit of their wants is written.
	urgentMost = 16
	// readyLow is how many written rows may still wait when a batch is handed on: few for their memory, enough to keep
	// fetches busy until the next batch.
	readyLow = 600
	// readyPatience is how long a planner waits for room. Slower fetches leave processor time to read rows back from
	// the store.
	readyPatience = 200 * time.Millisecond
)

// Workset is the work for one Source, pending and under way, shared by planner, conductor, recorder and removals. There
// are two locks, taken in this order:
//
//  1. Rows is held from reading rows of the state to the end of the commit that writes them back, as long as the disk
//     takes. A want that changed in between would be lost.
//  2. mu guards the fields below it. It is never held over a call of the store, the disk or the network.
//
// A resource that is being worked on is in flight; if its want changes meanwhile it stays owed. All work is owed in the
// store too, where rows that were not handed over are found.
type Workset struct {
	Rows sync.Mutex

	mu     sync.Mutex
	flight map[int64]mark
	// urgent and ready are rows in flight without a worker: urgent ones wait for their commit, ready ones were just
	// written.
	urgent []*store.Resource
	ready  []*store.Resource
	open   bool          // a conductor takes rows
	room   chan struct{} // closed once ready has room; nil unless a planner waits
	// named are rows with work that are not in flight; all says that they are too many to name.
	named []int64
	all   bool
	// remains: a removal may be due. removing: removals are being carried out.
	remains, removing bool
	Notes             notes
	doubtful          map[int64]struct{} // rows whose file may be newer

	// Follows: new work is named, so that a push is fetched without paging through all owed rows.
	Follows bool
	wake    chan struct{} // wakes the conductor after any change above
	remove  chan struct{} // wakes the removals
}

// mark says what happened to a resource since its flight began.
type mark uint8

const (
	touched mark = 1 << iota // its want changed
	void                     // the commit of the want that caused the fetch failed
)

// NewWorkset returns an empty Workset that does not follow.
func NewWorkset() *Workset {
	return &Workset{
		flight: map[int64]mark{}, Notes: notes{rows: map[int64][]*Note{}}, doubtful: map[int64]struct{}{},
		wake: make(chan struct{}, 1), remove: make(chan struct{}, 1),
	}
}

// Begin puts resources in flight and returns those that were not. The caller must hold Rows from before reading them,
// or work recorded meanwhile would be done again.
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

// Touch notes that the want of a resource changes. A resource in flight stays owed: its file may get its name before
// its row is written, and only owed work makes the run after a cut look. The caller holds Rows.
func (w *Workset) Touch(rc *store.ResourceChange, now store.Micros) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m, busy := w.flight[rc.ID]; busy {
		w.flight[rc.ID] = m | touched
		rc.Work = &store.Work{Action: store.ActionFetch, Due: now}
	}
}

// Fail notes that the commit of the wants failed which resources in flight are fetched for. Their work is void, and
// their rows are read anew.
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

// Idle drops the resources in flight. The caller holds Rows for as long as that must stay true.
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

// Take opens the workset for a conductor, until Clear.
func (w *Workset) Take() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open = true
}

// Clear forgets all flights, at the end of a run.
func (w *Workset) Clear() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dropLocked()
	w.open = false
	clear(w.flight)
}

// drop forgets rows that were handed over; the store has them.
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

// HandReady hands over rows that were just written, if there is room. The caller must have held Rows since before it
// wrote them.
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

// TakeReady returns up to n rows that were handed over, and whether there are more. Rows whose want changed since are
// left to the store; again reports them.
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

// AwaitRoom waits up to readyPatience for room for another batch. Only one planner at a time may wait.
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

// Name announces rows with new work. A workset that does not follow pages through all owed rows instead.
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

// NameAll announces that many rows have new work.
func (w *Workset) NameAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.named, w.all = nil, true
	w.Poke()
}

// Hear returns the news since the last call: urgent rows, and rows by id or all.
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

// Removals announces that a removal may be due. Without Follows removals come after the fetches.
func (w *Workset) Removals() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.remains = true; w.Follows {
		w.removeLocked()
	}
}

// fetched lets removals begin: nothing is left to fetch for now.
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

// beginRemovals notes that removals are being carried out.
func (w *Workset) beginRemovals() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remains, w.removing = false, true
}

// removed ends a round of removals and wakes the conductor: a failed removal is due again, or the disk failed.
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

// rest sets resting to whether nothing waits, and tells whether a rest begins. It holds Rows and mu: a pull must not be
// concluded without work that a planner hands over meanwhile.
func (w *Workset) rest(resting *atomic.Bool) (begins bool) {
	w.Rows.Lock()
	defer w.Rows.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	rests := !w.waitsLocked()
	return !resting.Swap(rests) && rests
}

// Due are the ids of rows of a commit that have work now.
func Due(c *store.Commit) []int64 {
	ids := make([]int64, 0, len(c.Resources))
	for i := range c.Resources {
		if w := c.Resources[i].Work; w != nil && w.Action != store.ActionNone {
			ids = append(ids, c.Resources[i].ID)
		}
	}
	return ids
}
