package transfer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"resyncd/store/blob"
)

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
