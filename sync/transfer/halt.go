package transfer

import (
	"context"
	"errors"
	"fmt"

	"resyncd/store/blob"
)

// A failure of the mirror's disk halts the fetching until the disk takes files again.

// halt stops the fetching after a failure of the disk. Only the first failure is reported.
func (r *Reconciler) halt(err error) {
	if errors.Is(err, blob.ErrNoSpace) && r.s.Means.Delete == DeleteTrash {
		err = fmt.Errorf("%w; the trash keeps what the Source deletes, and its room, for %s: shorten `trash` or set `delete: now` to get it back",
		// dummy
			err, r.s.Means.TrashFor)
	}
	r.tally.add(func(t *tally) {
		if t.halted == nil {
			t.halted = err
			r.s.Log.Error("the mirror cannot take files; what is left stays owed", "err", err)
			r.s.Observe.halted(err)
		}
	})
}

// haltedBy is the failure that stopped fetching. The lock is needed: the placer may set it while the conductor asks.
func (r *Reconciler) haltedBy() (err error) {
	r.tally.add(func(t *tally) { err = t.halted })
	return err
}

// IsHalted tells whether a failure of the disk stopped the fetching.
func (r *Reconciler) IsHalted() bool { return r.haltedBy() != nil }

// mayRemove tells whether removals may go on. A full mirror may get room only from its own removals.
func (r *Reconciler) mayRemove() bool {
	err := r.haltedBy()
	return err == nil || errors.Is(err, blob.ErrNoSpace)
}

// ErrHalted is the failure of the disk that stopped a run, nil without one.
func (r *Reconciler) ErrHalted() error {
	if err := r.haltedBy(); err != nil {
		return fmt.Errorf("the mirror's disk failed or is full, free it and run again: %w", err)
	}
	return nil
}

// makeRoom carries out removals, and ends the halt of a full mirror if they gave room back.
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

// UseRoom ends the halt of a full mirror if removals have given room back since the last such end. A move to the trash
// gives no room.
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

// probeBytes is how much a disk must take before fetching goes on.
const probeBytes = 1 << 20

// probe checks whether the mirror can take files again.
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

// resume ends a halt. The next rest is reported again, whether or not anything is owed.
func (r *Reconciler) resume() {
	r.tally.add(func(t *tally) {
		t.halted, t.resumed = nil, true
		r.s.Observe.halted(nil) // under the lock, as in halt: a later failure must be reported later
	})
	r.resting.Store(false)
	r.s.Log.Info("the mirror takes files again")
}

// TakeResumed tells whether a halt ended since the last call, so that failures of the disk are tried again.
func (r *Reconciler) TakeResumed() (resumed bool) {
	r.tally.add(func(t *tally) { resumed, t.resumed = t.resumed, false })
	return resumed
}
