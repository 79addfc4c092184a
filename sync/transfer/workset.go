package transfer

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"resyncd/store"
)

const (
	namedMost  = 10_000 // more are paged
	urgentMost = 16
	// readyLow rows keep fetches busy until the next batch.
	readyLow = 600
	// readyPatience bounds a planner's wait: rows can be read back.
	readyPatience = 200 * time.Millisecond
	// noteMost bounds the rows that are watched for the latency of notifications (P8).
	noteMost = 100_000
)

// Workset is the work for one Source (see the package for the order of its locks).
type Workset struct {
	Rows sync.Mutex

	mu     sync.Mutex
	flight map[int64]mark
	// Rows in flight without a worker: urgent ones wait for their commit, ready ones are written.
	urgent   []*store.Resource
	ready    []*store.Resource
	open     bool
	room     chan struct{} // closed once ready has room; may be nil
	named    []int64
	all      bool
	remains  bool // a removal may be due
	Notes    notes
	offers   offers
	doubtful map[int64]struct{}

	// Follows: new work is named, so that a push needs no paging.
	Follows bool
	wake    chan struct{}
}

type mark uint8

const (
	touched  mark = 1 << iota // its want changed
	void                      // the commit of its want failed
	gathered                  // asked for with others
)

// NewWorkset returns an empty Workset.
func NewWorkset() *Workset {
	return &Workset{
		flight: map[int64]mark{}, Notes: notes{rows: map[int64][]*Note{}}, doubtful: map[int64]struct{}{},
		offers: offers{rows: map[int64]*Offer{}}, wake: make(chan struct{}, 1),
	}
}

// Begin puts resources in flight and returns the new ones. The caller holds Rows since before reading them.
func (w *Workset) Begin(rs []*store.Resource) []*store.Resource {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.begin(rs)
}

func (w *Workset) begin(rs []*store.Resource) []*store.Resource {
	rs = w.idle(rs)
	for _, r := range rs {
		w.flight[r.ID] = 0
	}
	return rs
}

func (w *Workset) idle(rs []*store.Resource) []*store.Resource {
	return slices.DeleteFunc(rs, func(r *store.Resource) bool { _, busy := w.flight[r.ID]; return busy })
}

// Touch keeps a resource in flight owed after its want changed. The caller holds Rows.
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

func (w *Workset) gathered(rs []*store.Resource) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range rs {
		w.flight[r.ID] |= gathered
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
	return w.idle(rs)
}

// InFlight returns the ids in flight, sorted.
func (w *Workset) InFlight() []int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.flight))
}

func (w *Workset) end(rs ...*store.Resource) {
	w.mu.Lock()
	defer w.unlock()
	w.endAll(rs)
}

func (w *Workset) endAll(rs []*store.Resource) {
	for _, r := range rs {
		w.forget(r.ID)
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
	defer w.unlock()
	for _, o := range w.offers.rows {
		o.Package.Keep()
	}
	w.dropAll()
	w.open = false
	clear(w.flight)
}

// drop leaves what was handed over, announced or offered to the store.
func (w *Workset) drop() {
	w.mu.Lock()
	defer w.unlock()
	w.dropAll()
}

func (w *Workset) dropAll() {
	w.endAll(w.urgent)
	w.endAll(w.ready)
	for id := range w.offers.rows {
		w.withdraw(id)
	}
	w.remains = w.remains || w.all
	w.urgent, w.ready, w.named, w.all, w.offers.pushed = nil, nil, nil, false, nil
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
	if !w.open || w.offers.held || len(w.ready) > readyLow {
		return false
	}
	w.ready = append(w.ready, w.begin(rs)...)
	w.Poke()
	return true
}

// TakeReady takes rows that were handed over. again: some whose want changed are left to the store.
func (w *Workset) TakeReady(n int) (rs []*store.Resource, again bool) {
	w.mu.Lock()
	defer w.unlock()
	n = min(n, len(w.ready))
	for _, r := range w.ready[:n] {
		if w.flight[r.ID] != 0 {
			w.forget(r.ID)
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
	return rs, again
}

func (w *Workset) makeRoom() {
	if w.room != nil {
		close(w.room)
		w.room = nil
	}
}

// AwaitRoom waits for room, for one planner at a time: up to readyPatience, but as long as it takes while there are
// offers, which are lost to rows that are read back.
func (w *Workset) AwaitRoom(ctx context.Context) {
	w.mu.Lock()
	if !w.open || len(w.ready) <= readyLow {
		w.mu.Unlock()
		return
	}
	if w.room == nil {
		w.room = make(chan struct{})
	}
	room, patience := w.room, readyPatience
	if len(w.offers.rows) > 0 {
		patience = forEver
	}
	w.mu.Unlock()
	timer := time.NewTimer(patience)
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
	ids = w.urge(ids)
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

// Hear takes the urgent rows and a page of named ones, while held of those that were pushed. all: the store has more
// that is due.
func (w *Workset) Hear() (urgent []*store.Resource, ids []int64, all bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	urgent, w.urgent = w.urgent, nil
	from := &w.named
	if w.offers.held {
		from = &w.offers.pushed
	} else {
		all, w.all = w.all, false
	}
	n := min(duePage, len(*from))
	ids = (*from)[:n:n]
	if *from = (*from)[n:]; len(*from) == 0 {
		*from = nil
	}
	w.remains = w.remains || all
	return urgent, ids, all
}

// Poke wakes the conductor.
func (w *Workset) Poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Removals announces a due removal.
func (w *Workset) Removals() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remains = true
	w.Poke()
}

// takeRemovals tells whether to look for removals now. A run that ends removes after the fetches.
func (w *Workset) takeRemovals(fetched bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.remains && (fetched && !w.offers.held || w.Follows)
	w.remains = w.remains && !now
	return now
}

func (w *Workset) waits() bool {
	return len(w.urgent)+len(w.ready)+len(w.named) > 0 || w.all || w.remains || w.offers.held
}

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
	Received    time.Time // when the hub delivered it
	Changes     int       // entries with new work
	Owed        int       // of those, failed and tried again
	left        int
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
