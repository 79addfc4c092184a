package sync

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"resyncd/store"
)

// hotlist tells the reconciler of a Follower which rows have new work, so that a pushed change is fetched without a look
// at everything that is owed, and knows for which notifications.
type hotlist struct {
	mu       sync.Mutex
	ids      []int64
	all      bool              // too many to name: look for them
	early    []*store.Resource // to be fetched before their rows say so (early.go)
	notes    map[int64][]*note
	waiting  int           // how often a note waits for a row
	remove   chan struct{} // told when a removal may be due
	removing bool          // and not all of them were carried out since
	done     func(*note)   // a notification is carried out
}

// hotMost bounds what is named; a baseline is looked for in pages.
const hotMost = 10_000

// noteMost bounds what is watched for the latency of notifications (P8).
const noteMost = 100_000

func newHotlist() *hotlist {
	return &hotlist{notes: map[int64][]*note{}, remove: make(chan struct{}, 1)}
}

// note is a notification on its way to the mirror.
type note struct {
	setID       int64
	from, until store.Micros
	received    time.Time
	changes     int // entries that asked for something new
	left, owed  int
	sealed      bool // all its entries are planned
}

func (h *hotlist) add(ids []int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.ids)+len(ids) > hotMost {
		h.ids, h.all = nil, true
	} else if !h.all {
		h.ids = append(h.ids, ids...)
	}
}

// take returns what was added since the last call.
func (h *hotlist) take() (ids []int64, all bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	ids, all = h.ids, h.all
	h.ids, h.all = nil, false
	return ids, all
}

// expect makes a note wait for a row.
func (h *hotlist) expect(id int64, n *note) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n.changes++
	if h.waiting < noteMost {
		h.waiting++
		n.left++
		h.notes[id] = append(h.notes[id], n)
	}
}

// seal says that all entries of a notification are planned.
func (h *hotlist) seal(n *note) {
	h.mu.Lock()
	n.sealed = true
	ready := n.left == 0
	h.mu.Unlock()
	if ready {
		h.done(n)
	}
}

// landed says that the work on a row came to an end for now: owed, if it failed.
func (h *hotlist) landed(id int64, owed bool) {
	h.mu.Lock()
	var ready []*note
	for _, n := range h.notes[id] {
		n.left--
		if owed {
			n.owed++
		}
		if n.left == 0 && n.sealed {
			ready = append(ready, n)
		}
	}
	h.waiting -= len(h.notes[id])
	delete(h.notes, id)
	h.mu.Unlock()
	for _, n := range ready {
		h.done(n)
	}
}

// removals says that a removal may be due.
func (h *hotlist) removals() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.removing = true
	select {
	case h.remove <- struct{}{}:
	default:
	}
}

// removed says that what removals told of was carried out, or is owed.
func (h *hotlist) removed() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.removing = len(h.remove) > 0
}

// addAll says that many rows have new work.
func (h *hotlist) addAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ids, h.all = nil, true
}

// due are the rows of a commit that have work now.
func due(c *store.Commit) []int64 {
	ids := make([]int64, 0, len(c.Resources))
	for i := range c.Resources {
		if w := c.Resources[i].Work; w != nil && w.Action != store.ActionNone {
			ids = append(ids, c.Resources[i].ID)
		}
	}
	return ids
}

// waits tells whether something was added that nobody took yet, or is being removed.
func (h *hotlist) waits() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.full()
}

// full is waits for who holds the lock.
func (h *hotlist) full() bool { return len(h.ids) > 0 || len(h.early) > 0 || h.all || h.removing }

// restWhere sets resting to whether nothing waits, here and elsewhere, and tells whether it was not so before.
func (h *hotlist) restWhere(elsewhere bool, resting *atomic.Bool) (begins bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	rests := elsewhere && !h.full()
	return !resting.Swap(rests) && rests
}

// told passes on which rows have work now, and which notification asked for it.
func (p *planner) told(c *store.Commit) {
	ids := make([]int64, 0, len(c.Resources))
	for i := range c.Resources {
		rc := &c.Resources[i]
		if rc.Work == nil || rc.Work.Action == store.ActionNone {
			continue
		}
		if !slices.Contains(p.early, rc.ID) { // which is handed over already
			ids = append(ids, rc.ID)
		}
		if n := p.notes[i]; n != nil && p.hot != nil {
			p.hot.expect(rc.ID, n)
		}
	}
	handed := p.handOn(c, len(ids))
	clear(p.notes)
	if !handed {
		p.poke(ids)
	}
}

func (p *planner) poke(ids []int64) {
	switch {
	case p.hot == nil:
	case p.listed >= planBatch: // a long list is looked for in pages, so that a push can pass it
		p.hot.addAll()
	default:
		p.hot.add(ids)
	}
	p.rouse()
}

// rouse wakes the reconciler.
func (p *planner) rouse() { rouse(p.wake) }

// hand names rows that are owed to the reconciler of a Follower.
func (s *session) hand(ids []int64) {
	s.hot.add(ids)
	rouse(s.wake)
}

func rouse(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}
