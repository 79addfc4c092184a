package sync

import (
	"maps"
	"slices"
	"sync"

	"resyncd/store"
)

// flight orders the two writers of a run, the planner and the reconciler. A resource whose want the planner changes while
// it is being fetched must stay owed when that fetch is recorded, or the newer want would be lost.
type flight struct {
	mu  sync.Mutex
	ids map[int64]bool // in flight; true once its want changed meanwhile
	// vain: of them those that were boarded for a want whose commit failed.
	vain map[int64]struct{}
	// hand is what the planner hands on.
	hand handover
}

func newFlight() *flight { return &flight{ids: map[int64]bool{}, vain: map[int64]struct{}{}} }

// board marks resources as being worked on and returns those that were not yet. The caller holds the lock since before it
// read them, or work that was recorded meanwhile would be done again.
func (f *flight) board(rs []*store.Resource) []*store.Resource {
	out := rs[:0]
	for _, r := range rs {
		if _, flying := f.ids[r.ID]; !flying {
			f.ids[r.ID] = false
			out = append(out, r)
		}
	}
	return out
}

// touch notes that the want of a resource changes. One in flight stays owed whatever is wanted now: its file may have its
// name before its row is told, and should the run be cut between, only work that is owed has the next one look. The caller
// holds the lock.
func (f *flight) touch(rc *store.ResourceChange, now store.Micros) {
	if _, flying := f.ids[rc.ID]; flying {
		f.ids[rc.ID] = true
		rc.Work = &store.Work{Action: store.ActionFetch, Due: now}
	}
}

// flying reports whether a resource is being worked on. The caller holds the lock.
func (f *flight) flying(id int64) bool {
	_, flying := f.ids[id]
	return flying
}

// fail notes that the want failed which a resource was boarded for before it was recorded. Nothing comes of that work, and the row
// is read anew when it ends. The caller holds the lock.
func (f *flight) fail(id int64) {
	if f.flying(id) {
		f.ids[id] = true
		f.vain[id] = struct{}{}
	}
}

// inVain reports whether fail was called since board. The caller holds the lock.
func (f *flight) inVain(id int64) bool {
	_, vain := f.vain[id]
	return vain
}

// touched reports whether touch was called since board. The caller holds the lock.
func (f *flight) touched(id int64) bool { return f.ids[id] }

// land ends the work on a resource. The caller holds the lock.
func (f *flight) land(id int64) {
	delete(f.ids, id)
	delete(f.vain, id)
}

// clear forgets all work that was cut short, and what was handed on.
func (f *flight) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drop()
	f.hand.open = false
	clear(f.ids)
	clear(f.vain)
}

// grounded leaves out what is being worked on. The caller holds the lock.
func (f *flight) grounded(rs []*store.Resource) []*store.Resource {
	out := rs[:0]
	for _, r := range rs {
		if _, flying := f.ids[r.ID]; !flying {
			out = append(out, r)
		}
	}
	return out
}

// abandon ends the work on resources that no worker has taken yet. The caller holds the lock.
func (f *flight) abandon(rs []*store.Resource) {
	for _, r := range rs {
		f.land(r.ID)
	}
}

// aloft are the resources that are being worked on. The caller holds the lock.
func (f *flight) aloft() []int64 { return slices.Sorted(maps.Keys(f.ids)) }
