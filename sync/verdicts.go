package sync

import (
	"context"
	"slices"

	"resyncd/store"
)

// doubtVerdicts: what was said of the sets before an end that was not orderly may be the disk's fault, and over.
func (f *Follower) doubtVerdicts(ctx context.Context) error {
	if !f.s.src.Unclean {
		return nil
	}
	sets, err := f.s.Store.Sets(ctx, f.s.src.ID)
	f.marred.Store(slices.ContainsFunc(sets, func(s store.Set) bool { return s.Problem != "" }))
	return err
}

// judgeAnew asks for a pull when the disk takes files again that a pull was concluded without: what is said of its sets stood
// until the next scheduled one. It waits for a rest, so that a disk that fails again and again makes no pull each time.
func (f *Follower) judgeAnew() {
	if !f.rec.IsHalted() && f.marred.CompareAndSwap(true, false) {
		f.o.Later(WorkPull, f.s.Now())
	}
}
