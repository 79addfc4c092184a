package transfer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"resyncd/store"
	"resyncd/store/blob"
	"resyncd/sync/spill"
)

// tally is what became of a reconciler's work. The lock of the workset guards it.
type tally struct {
	sum     Done
	counts  []*Count      // one for each pull under way
	failing *spill.Bitmap // rows whose last try failed
	until   time.Time     // end of retries, zero for never
	halted  error         // the failure that stops fetching
	used    int64         // the part of sum.Deleted that ended a halt
	resumed bool
	reading bool // more wants may come at any moment
	resting bool // nothing is in flight and nothing due
}

func (r *Reconciler) tallied(f func(*tally)) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	f(&r.tally)
}

// Done is the work of a reconciler since a Count began.
type Done struct {
	Fetched, Deleted int64
	Asked            int64 // answers to a question
	Failed           int64 // in the whole run, by their last try
	Unchanged        int64 // right before the pull
}

// Count counts for one pull. Resources whose file was right already are kept apart: a list that is read again calls all
// of them right.
type Count struct {
	began        Done
	right, other *spill.Bitmap
}

// Count begins to count for a pull, until EndCount.
func (r *Reconciler) Count() *Count {
	c := &Count{right: spill.NewBitmap(), other: spill.NewBitmap()}
	r.tallied(func(t *tally) {
		c.began = t.sum
		t.counts = append(t.counts, c)
	})
	return c
}

// EndCount ends a Count.
func (r *Reconciler) EndCount(c *Count) {
	r.tallied(func(t *tally) {
		t.counts = slices.DeleteFunc(t.counts, func(other *Count) bool { return other == c })
	})
}

// Since returns the work since a Count began; calm are the resources that its lists called right.
func (r *Reconciler) Since(c *Count, calm *spill.Bitmap) (d Done) {
	r.tallied(func(t *tally) {
		d = Done{
			Fetched: t.sum.Fetched - c.began.Fetched, Deleted: t.sum.Deleted - c.began.Deleted,
			Asked: t.sum.Asked - c.began.Asked, Failed: t.failing.Len, Unchanged: c.unchanged(calm),
		}
	})
	return d
}

// unchanged counts the resources that were right before the pull, and that nothing else happened to.
func (c *Count) unchanged(calm *spill.Bitmap) int64 {
	all := spill.NewBitmap()
	if calm != nil {
		all = calm.Clone()
	}
	for id := range c.right.All() {
		all.Add(id)
	}
	for id := range c.other.All() {
		all.Remove(id)
	}
	return all.Len
}

func (t *tally) end(id int64, right bool) {
	for _, c := range t.counts {
		if right {
			c.right.Add(id)
		} else {
			c.other.Add(id)
		}
	}
}

// FoundRight notes that a resource is as wanted.
func (r *Reconciler) FoundRight(id int64) {
	r.tallied(func(t *tally) { t.end(id, true) })
}

// Failing are the resources whose last try failed.
func (r *Reconciler) Failing() (ids *spill.Bitmap) {
	r.tallied(func(t *tally) { ids = t.failing.Clone() })
	return ids
}

// Went counts removed files.
func (r *Reconciler) Went(n int64) {
	if n > 0 {
		r.tallied(func(t *tally) { t.sum.Deleted += n })
		r.s.Observe.Removed(n)
		r.s.Progress(Progress{Deleted: n})
	}
}

// Reading says whether documents are being read.
func (r *Reconciler) Reading(on bool) {
	r.tallied(func(t *tally) { t.reading = on })
	r.s.Poke()
}

func (r *Reconciler) isReading() (on bool) {
	r.tallied(func(t *tally) { on = t.reading })
	return on
}

// Retry has failures tried again until end, zero for ever.
func (r *Reconciler) Retry(end time.Time) {
	r.tallied(func(t *tally) { t.until = end })
	r.s.Poke()
}

func (r *Reconciler) triedBefore(res *store.Resource) (failed bool) {
	if res.Work.Attempts > 0 {
		r.tallied(func(t *tally) { failed = t.failing.Has(res.ID) })
	}
	return failed
}

// givesUp tells whether the time for retries is over for a failed resource. A new want, or a failure of the disk, keeps
// it due.
func (r *Reconciler) givesUp(res *store.Resource) bool {
	if res.Work.Class == classDisk || !r.triedBefore(res) {
		return false
	}
	var until time.Time
	r.tallied(func(t *tally) { until = t.until })
	return !until.IsZero() && r.s.Now().After(until)
}

// Rests tells whether nothing is in flight and nothing due.
func (r *Reconciler) Rests() (rests bool) {
	r.tallied(func(t *tally) { rests = t.resting })
	return rests
}

// Stir ends a rest, so that the next one is reported.
func (r *Reconciler) Stir() {
	r.tallied(func(t *tally) { t.resting = false })
	r.s.Poke()
}

// rest tells whether a rest begins. It holds both locks, or a pull could be concluded without work that is handed over
// meanwhile.
func (r *Reconciler) rest(idle bool) (begins bool) {
	if idle {
		r.s.Rows.Lock()
		defer r.s.Rows.Unlock()
	}
	r.tallied(func(t *tally) {
		idle = idle && !r.s.waits()
		begins, t.resting = idle && !t.resting, idle
	})
	return begins
}

func (r *Reconciler) halt(err error) {
	if errors.Is(err, blob.ErrNoSpace) && r.s.Means.Delete == DeleteTrash {
		err = fmt.Errorf("%w; the trash keeps what the Source deletes, and its room, for %s: shorten `trash` or "+
			"set `delete: now` to get it back", err, r.s.Means.TrashFor)
	}
	first := false
	r.tallied(func(t *tally) {
		if first = t.halted == nil; first {
			t.halted = err
			r.s.Observe.Halted(err)
		}
	})
	if first {
		r.s.Log.Error("the mirror cannot take files; what is left stays owed", "err", err)
	}
}

func (r *Reconciler) haltedBy() (err error) {
	r.tallied(func(t *tally) { err = t.halted })
	return err
}

// IsHalted tells whether a failure of the disk stopped the fetching.
func (r *Reconciler) IsHalted() bool { return r.haltedBy() != nil }

// mayRemove: a full mirror may get room only from its own removals.
func (r *Reconciler) mayRemove() bool {
	err := r.haltedBy()
	return err == nil || errors.Is(err, blob.ErrNoSpace)
}

// ErrHalted is the failure that stopped a run, if any.
func (r *Reconciler) ErrHalted() error {
	if err := r.haltedBy(); err != nil {
		return fmt.Errorf("the mirror's disk failed or is full, free it and run again: %w", err)
	}
	return nil
}

// useRoom ends the halt of a full mirror after removals that gave room. The trash gives none.
func (r *Reconciler) useRoom() {
	room := false
	r.tallied(func(t *tally) {
		deleted := t.sum.Deleted
		if room = r.s.Means.Delete == DeleteNow && errors.Is(t.halted, blob.ErrNoSpace) && deleted > t.used; room {
			t.used = deleted
		}
	})
	if room {
		r.resume()
	}
}

const probeBytes = 1 << 20

func (r *Reconciler) probe(ctx context.Context) error {
	if err := r.s.Mirror.Check(ctx); err != nil {
		return err
	}
	stage, err := r.s.Mirror.NewStage(ctx)
	if err != nil {
		return err
	}
	_, err = stage.Write(make([]byte, probeBytes))
	if derr := stage.Discard(); err == nil {
		err = derr
	}
	return err
}

// resume ends a halt. The next rest is reported, even with nothing owed.
func (r *Reconciler) resume() {
	r.tallied(func(t *tally) {
		t.halted, t.resumed, t.resting = nil, true, false
		r.s.Observe.Halted(nil) // under the lock: a later failure must be reported later
	})
	r.s.Log.Info("the mirror takes files again")
}

// TakeResumed tells whether a halt ended since the last call.
func (r *Reconciler) TakeResumed() (resumed bool) {
	r.tallied(func(t *tally) { resumed, t.resumed = t.resumed, false })
	return resumed
}
