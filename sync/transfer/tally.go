package transfer

import (
	"slices"
	"sync"
	"time"

	"resyncd/sync/spill"
)

// tally counts the work of a reconciler.
type tally struct {
	mu               sync.Mutex
	fetched, deleted int64
	asked            int64         // answers to a question
	ends             []*ends       // one for each pull under way
	failing          *spill.Bitmap // rows whose last try failed
	until            time.Time     // end of retries, zero for never
	halted           error         // the failure that stops fetching
	used             int64         // the part of deleted that ended a halt
	resumed          bool
}

func (t *tally) add(f func(*tally)) {
	t.mu.Lock()
	f(t)
	t.mu.Unlock()
}

// ends are the resources finished since a pull began: a list read again calls them right, though they may not have been
// so before.
type ends struct {
	right *spill.Bitmap // the file was right already
	other *spill.Bitmap
}

// Count is the state of the counters when a pull began.
type Count struct {
	fetched, deleted int64
	asked            int64
	ends             *ends
}

// Done is the work of a reconciler since a Count began.
type Done struct {
	Fetched, Deleted int64
	Asked            int64 // answers to a question
	Failed           int64 // in the whole run, by their last try
	Unchanged        int64 // right before the pull
}

// Count begins to count for a pull, until EndCount.
func (r *Reconciler) Count() (c Count) {
	c.ends = &ends{right: spill.NewBitmap(), other: spill.NewBitmap()}
	r.tally.add(func(t *tally) {
		c.fetched, c.deleted, c.asked = t.fetched, t.deleted, t.asked
		t.ends = append(t.ends, c.ends)
	})
	return c
}

// Since returns the work since a Count began; calm are the resources that its lists called right.
func (r *Reconciler) Since(c Count, calm *spill.Bitmap) (d Done) {
	r.tally.add(func(t *tally) {
		d = Done{
			Fetched: t.fetched - c.fetched, Deleted: t.deleted - c.deleted, Asked: t.asked - c.asked,
			Failed:    t.failing.Len,
			Unchanged: c.ends.unchanged(calm),
		}
	})
	return d
}

// FoundRight notes that a resource is as wanted.
func (r *Reconciler) FoundRight(id int64) {
	r.tally.add(func(t *tally) { t.end(id, true) })
}

// Failing are the resources whose last try failed.
func (r *Reconciler) Failing() (ids *spill.Bitmap) {
	r.tally.add(func(t *tally) { ids = t.failing.Clone() })
	return ids
}

// EndCount ends a Count.
func (r *Reconciler) EndCount(c Count) {
	r.tally.add(func(t *tally) {
		t.ends = slices.DeleteFunc(t.ends, func(e *ends) bool { return e == c.ends })
	})
}

func (t *tally) end(id int64, right bool) {
	for _, e := range t.ends {
		if right {
			e.right.Add(id)
		} else {
			e.other.Add(id)
		}
	}
}

// unchanged counts each resource once that was right before the pull, and that nothing else happened to.
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

// Observer gets reports on files. Functions may be nil; they must be quick and safe for concurrent use.
type Observer struct {
	// Fetched counts outcomes of fetches: fetched, unchanged, gone, refused, failed.
	Fetched func(result string, n int64)
	// Settled is called once an outcome is recorded.
	Settled func(Settled)
	// Removed counts removed files.
	Removed func(n int64)
	// Halted gets the reason when the mirror stops taking files (F6), nil when that is over.
	Halted func(err error)
}

// Settled is how the work on one resource ended.
type Settled struct {
	Result string
	Class  string // of a failure (store.Work.Class)
	Placed int64  // length of the placed file
	// Bytes that came, and the time until they were checked or failed; 0 without a request.
	Bytes int64
	Took  time.Duration
}

func (o *Observer) removed(n int64) {
	if o.Removed != nil && n > 0 {
		o.Removed(n)
	}
}

func (o *Observer) halted(err error) {
	if o.Halted != nil {
		o.Halted(err)
	}
}

func (o *Observer) settled(group []*outcome) {
	if o.Fetched != nil {
		n := map[string]int64{}
		for _, out := range group {
			n[results[out.verdict]]++
		}
		for result, count := range n {
			o.Fetched(result, count)
		}
	}
	if o.Settled == nil {
		return
	}
	for _, out := range group {
		told := Settled{Result: results[out.verdict], Class: out.failure.class, Bytes: out.bytes, Took: out.took}
		if out.verdict == verdictFetched {
			told.Placed = out.have.Length
		}
		o.Settled(told)
	}
}

var results = [...]string{
	verdictCleared: "unchanged", verdictFetched: "fetched", verdictAdopted: "unchanged", verdictGone: "gone",
	verdictRefused: "refused", verdictThere: "unchanged", verdictFailed: "failed",
}
