package transfer

import (
	"time"

	"resyncd/store"
)

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
