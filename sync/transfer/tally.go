package transfer

import (
	"slices"
	"sync"
	"time"

	"resyncd/sync/spill"
)

// tally is what the reconciler did.
type tally struct {
	mu               sync.Mutex
	fetched, deleted int64
	asked            int64         // answers to a question
	ends             []*ends       // of the pulls under way
	failing          *spill.Bitmap // what failed last when it was tried
	until            time.Time     // until then what failed is tried again; zero: for ever
	halted           error         // a failure of the disk: nothing is fetched while it lasts
	used             int64         // of deleted: those whose room ended a halt
	resumed          bool          // one is over
}

func (t *tally) add(f func(*tally)) {
	t.mu.Lock()
	f(t)
	t.mu.Unlock()
}

// ends are the resources that a reconciler was done with since a pull began: what a list of that pull, read again, calls right by
// then need not have been so before.
type ends struct {
	right *spill.Bitmap // what was on disk already was what is wanted
	other *spill.Bitmap // fetched, removed, refused or failed
}

// Count is what a reconciler had done when a pull began, and what it is done with since.
type Count struct {
	fetched, deleted int64
	asked            int64
	ends             *ends
}

// Done is what a reconciler has done since a Count began.
type Done struct {
	Fetched, Deleted int64
	Asked            int64 // answers to a question
	Failed           int64 // what failed when it was tried last, in the whole run
	Unchanged        int64 // resources that were as they are wanted before the pull
}

// Count begins to count for a pull, until EndCount is called with it.
func (r *Reconciler) Count() (c Count) {
	c.ends = &ends{right: spill.NewBitmap(), other: spill.NewBitmap()}
	r.tally.add(func(t *tally) {
		c.fetched, c.deleted, c.asked = t.fetched, t.deleted, t.asked
		t.ends = append(t.ends, c.ends)
	})
	return c
}

// Since tells what was done since a Count began; calm are the resources that the lists of its pull called right.
func (r *Reconciler) Since(c Count, calm *spill.Bitmap) (d Done) {
	r.tally.add(func(t *tally) {
		d = Done{
			Fetched: t.fetched - c.fetched, Deleted: t.deleted - c.deleted, Asked: t.asked - c.asked, Failed: t.failing.Len,
			Unchanged: c.ends.unchanged(calm),
		}
	})
	return d
}

// FoundRight notes that a resource is as it is wanted.
func (r *Reconciler) FoundRight(id int64) {
	r.tally.add(func(t *tally) { t.end(id, true) })
}

// Failing are the resources that failed when they were tried last.
func (r *Reconciler) Failing() (ids *spill.Bitmap) {
	r.tally.add(func(t *tally) { ids = t.failing.Clone() })
	return ids
}

// EndCount ends a Count: the pull is concluded, or never will be.
func (r *Reconciler) EndCount(c Count) {
	r.tally.add(func(t *tally) {
		t.ends = slices.DeleteFunc(t.ends, func(e *ends) bool { return e == c.ends })
	})
}

// end notes for the pulls under way that a resource is done with. The caller holds the lock.
func (t *tally) end(id int64, right bool) {
	for _, e := range t.ends {
		if right {
			e.right.Add(id)
		} else {
			e.other.Add(id)
		}
	}
}

// unchanged counts the resources that were as they are wanted before the pull: of those that its lists called right, and those
// that were found right, the ones that nothing else happened to. However often they were listed or looked at.
func (e *ends) unchanged(calm *spill.Bitmap) int64 {
	if calm == nil {
		calm = spill.NewBitmap()
	}
	n := calm.Len
	for id := range e.right.All() {
		if !calm.Has(id) {
			n++
		}
	}
	for id := range e.other.All() {
		if calm.Has(id) || e.right.Has(id) {
			n--
		}
	}
	return n
}
