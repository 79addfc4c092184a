package dir

import "context"

// Spare implements blob.Mirror. On an ext4 the making of a file waits while the journal writes out an earlier transaction, such as
// the sync of the notification that a push begins with: 0.25 ms, before the Source was asked. A spare one is there already. It
// keeps no descriptor, since it may wait for long (F11).
func (m *Mirror) Spare(ctx context.Context) {
	if m.spare.Load() != nil || m.enterWriting(ctx) != nil {
		return
	}
	defer m.active.Done()
	s, err := m.makeStage()
	if err != nil {
		return // NewStage meets it too, and says so
	}
	s.release()
	if !m.spare.CompareAndSwap(nil, s) {
		_ = s.Discard()
	}
}

// takeSpare returns the spare stage, nil if there is none that is good. Whose making the disk may have lost is not.
func (m *Mirror) takeSpare() *stage {
	s := m.spare.Swap(nil)
	if s == nil {
		return nil
	}
	if s.born == m.sync.failures.Load() && s.reopen() == nil {
		return s
	}
	_ = s.Discard()
	return nil
}
