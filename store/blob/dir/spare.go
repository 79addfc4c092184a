package dir

import "context"

// Spare implements blob.Mirror. On an ext4 the making of a file waits while the journal writes an
// earlier transaction; a spare file is there already. It keeps no descriptor (F11).
func (m *Mirror) Spare(ctx context.Context) {
	if m.spare.Load() != nil || m.beginWrite(ctx) != nil {
		return
	}
	defer m.active.Done()
	s, err := m.makeStage()
	if err != nil {
		return // NewStage meets and reports it too
	}
	s.release()
	if !m.spare.CompareAndSwap(nil, s) {
		_ = s.Discard()
	}
}

// takeSpare returns the spare stage. One made before a failed sync is dropped, because it may be
// lost.
func (m *Mirror) takeSpare() *stage {
	s := m.spare.Swap(nil)
	if s == nil {
		return nil
	}
	if s.failuresBefore == m.sync.failures.Load() && s.reopen() == nil {
		return s
	}
	_ = s.Discard()
	return nil
}
