package transfer

import (
	"context"
	"errors"
	"fmt"

	"resyncd/store/blob"
)

// halt stops the fetching until the disk takes files again.
func (r *Reconciler) halt(err error) {
	if errors.Is(err, blob.ErrNoSpace) && r.s.Means.Delete == DeleteTrash {
		err = fmt.Errorf("%w; the trash keeps what the Source deletes, and its room, for %s: "+
			"shorten `trash` or set `delete: now` to get it back", err, r.s.Means.TrashFor)
	}
	r.tally.add(func(t *tally) {
		if t.halted == nil {
			t.halted = err
			r.s.Log.Error("the mirror cannot take files; what is left stays owed", "err", err)
			r.s.Observe.halted(err)
		}
	})
}

// haltedBy is what stopped fetching. The placer may set it at any time.
func (r *Reconciler) haltedBy() (err error) {
	r.tally.add(func(t *tally) { err = t.halted })
	return err
}

// IsHalted tells whether a failure of the disk stopped the fetching.
func (r *Reconciler) IsHalted() bool { return r.haltedBy() != nil }

// mayRemove tells whether removals may go on: a full mirror may get room only from its own.
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

func (r *Reconciler) makeRoom(ctx context.Context) error {
	if !r.mayRemove() {
		return nil
	}
	if err := r.RemoveAll(ctx, r.s.LocalNow); err != nil {
		return err
	}
	r.UseRoom()
	return nil
}

// UseRoom ends the halt of a full mirror after removals that gave room. The trash gives none.
func (r *Reconciler) UseRoom() {
	room := false
	r.tally.add(func(t *tally) {
		if room = r.s.Means.Delete == DeleteNow && errors.Is(t.halted, blob.ErrNoSpace) && t.deleted > t.used; room {
			t.used = t.deleted
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
	r.tally.add(func(t *tally) {
		t.halted, t.resumed = nil, true
		r.s.Observe.halted(nil) // under the lock: a later failure must be reported later
	})
	r.resting.Store(false)
	r.s.Log.Info("the mirror takes files again")
}

// TakeResumed tells whether a halt ended since the last call.
func (r *Reconciler) TakeResumed() (resumed bool) {
	r.tally.add(func(t *tally) { resumed, t.resumed = t.resumed, false })
	return resumed
}
