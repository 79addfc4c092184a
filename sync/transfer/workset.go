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
	// namedMost bounds the named rows; more are paged.
	namedMost  = 10_000
	urgentMost = 16
	// readyLow bounds the memory of written rows, and keeps fetches busy until the next batch.
	readyLow = 600
	// readyPatience bounds a planner's wait for room; rows can be read back later.
	readyPatience = 200 * time.Millisecond
)

// Workset is the work for one Source. It has two locks, taken in this order:
//
//  1. Rows is held from reading rows to the end of the commit that writes them back. A want that changed
//     in between would be lost.
//  2. mu guards the fields below it, and is never held over a call of the store, the disk or the network.
//
// A resource that is being worked on is in flight; if its want changes it stays owed. The store has all owed work,
// handed over or not.
type Workset struct {
	Rows sync.Mutex

	mu     sync.Mutex
	flight map[int64]mark
	// Rows in flight without a worker: urgent ones wait for their commit, ready ones are written.
	urgent []*store.Resource
	ready  []*store.Resource
	open   bool
	room   chan struct{} // closed once ready has room; may be nil
	named  []int64
	all    bool
	// A removal may be due; removals are under way.
	remains, removing bool
	Notes             notes
	doubtful          map[int64]struct{}

	// Follows: new work is named, so that a push needs no paging.
	Follows bool
	wake    chan struct{}
	remove  chan struct{}
}

type mark uint8

const (
	touched mark = 1 << iota // its want changed
	void                     // the commit of its want failed
)

// NewWorkset returns an empty Workset.
func NewWorkset() *Workset {
	return &Workset{
		flight: map[int64]mark{}, Notes: notes{rows: map[int64][]*Note{}}, doubtful: map[int64]struct{}{},
		wake: make(chan struct{}, 1), remove: make(chan struct{}, 1),
	}
}

// Begin puts resources in flight and returns the new ones. The caller holds Rows since before reading them, or recorded
// work would be done again.
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

// Touch keeps a resource in flight owed after its want changed: only owed work makes the next run look after a cut. The
// caller holds Rows.
func (w *Workset) Touch(rc *store.ResourceChange, now store.Micros) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m, busy := w.flight[rc.ID]; busy {
		w.flight[rc.ID] = m | touched
		rc.Work = &store.Work{Action: store.ActionFetch, Due: now}
	}
}

// Fail voids the flights whose want could not be committed; their rows are read anew.
func (w *Workset) Fail(ids []int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		if _, busy := w.flight[id]; busy {
			w.flight[id] = touched | void
		}
	}
}

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

// Idle drops the resources in flight. The caller holds Rows while that must stay true.
func (w *Workset) Idle(rs []*store.Resource) []*store.Resource {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(rs, func(r *store.Resource) bool { _, busy := w.flight[r.ID]; return busy })
}

// InFlight returns the ids in flight, sorted.
func (w *Workset) InFlight() []int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.flight))
}

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

// Take opens the workset until Clear.
func (w *Workset) Take() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open = true
}

// Clear forgets all flights.
func (w *Workset) Clear() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dropLocked()
	w.open = false
	clear(w.flight)
}

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

// HandUrgent hands over rows in flight, fetched before all others.
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

// HandReady hands over written rows if there is room. The caller holds Rows since before the write.
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

// TakeReady returns up to n rows that were handed over, and whether more wait. again: rows whose want changed are left
// to the store.
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

// AwaitRoom waits for room, up to readyPatience, for one planner at a time.
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

// Name announces rows with new work. A run that ends pages instead.
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

// NameAll announces many rows with new work.
func (w *Workset) NameAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.named, w.all = nil, true
	w.Poke()
}

// Hear returns the news since the last call.
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

// Removals announces a due removal. A run that ends removes after the fetches.
func (w *Workset) Removals() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.remains = true; w.Follows {
		w.removeLocked()
	}
}

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

func (w *Workset) beginRemovals() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remains, w.removing = false, true
}

// removed wakes the conductor: a failed removal is due again, or the disk failed.
func (w *Workset) removed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.removing = false
	w.Poke()
}

func (w *Workset) waits() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.waitsLocked()
}

func (w *Workset) waitsLocked() bool {
	return len(w.urgent)+len(w.ready)+len(w.named) > 0 || w.all || w.remains || w.removing
}

// rest tells whether a rest begins. It holds Rows and mu, or a pull could be concluded without work handed over
// meanwhile.
func (w *Workset) rest(resting *atomic.Bool) (begins bool) {
	w.Rows.Lock()
	defer w.Rows.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	rests := !w.waitsLocked()
	return !resting.Swap(rests) && rests
}

// Due are the rows of a commit with work.
func Due(c *store.Commit) []int64 {
	ids := make([]int64, 0, len(c.Resources))
	for i := range c.Resources {
		if w := c.Resources[i].Work; w != nil && w.Action != store.ActionNone {
			ids = append(ids, c.Resources[i].ID)
		}
	}
	return ids
}

// noteMost bounds how many rows are watched for the latency of notifications (P8).
const noteMost = 100_000

// notes are the notifications under way, guarded by the lock of their workset.
type notes struct {
	rows    map[int64][]*Note
	waiting int         // pairs of note and row
	Done    func(*Note) // called when a notification is carried out
}

// Note is a notification on its way to the mirror.
type Note struct {
	SetID       int64
	From, Until store.Micros
	Received    time.Time
	Changes     int // entries with new work
	left, Owed  int
	sealed      bool // all its entries are planned
}

// Expect makes a note wait for a row.
func (w *Workset) Expect(id int64, n *Note) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n.Changes++
	if w.Notes.waiting < noteMost {
		w.Notes.waiting++
		n.left++
		w.Notes.rows[id] = append(w.Notes.rows[id], n)
	}
}

// Seal notes that all entries of a notification are planned.
func (w *Workset) Seal(n *Note) {
	w.mu.Lock()
	n.sealed = true
	ready := n.left == 0
	w.mu.Unlock()
	if ready {
		w.Notes.Done(n)
	}
}

// landed ends the work on a row for now; owed says that it failed.
func (w *Workset) landed(id int64, owed bool) {
	w.mu.Lock()
	var ready []*Note
	for _, n := range w.Notes.rows[id] {
		n.left--
		if owed {
			n.Owed++
		}
		if n.left == 0 && n.sealed {
			ready = append(ready, n)
		}
	}
	w.Notes.waiting -= len(w.Notes.rows[id])
	delete(w.Notes.rows, id)
	w.mu.Unlock()
	for _, n := range ready {
		w.Notes.Done(n)
	}
}
