package sync

import (
	"context"
	"slices"

	"resyncd/store"
)

// doubtVerdicts has the sets' problems judged anew after an unclean end, because they may be the disk's and over.
func (f *Follower) doubtVerdicts(ctx context.Context) error {
	if !f.s.src.Unclean {
		return nil
	}
	sets, err := f.s.Store.Sets(ctx, f.s.SourceID)
	f.marred.Store(slices.ContainsFunc(sets, func(s store.Set) bool { return s.Problem != "" }))
	return err
}

// judgeAnew asks for a pull once the disk takes files again, or the sets would show the failure until the next pull. It
// waits for a rest, so that a disk with repeated failures causes no pull each time.
func (f *Follower) judgeAnew() {
	if !f.rec.IsHalted() && f.marred.CompareAndSwap(true, false) {
		f.o.Later(WorkPull, f.s.Now())
	}
}
