package transfer

import (
	"context"

	"resyncd/store/blob"
)

// Watch has the state record a run before any file changes.
func (s *Site) Watch() blob.Mirror {
	s.Mirror = &watchedMirror{Mirror: s.Mirror, s: s}
	return s.Mirror
}

type watchedMirror struct {
	blob.Mirror
	s *Site
}

// Place implements blob.Mirror.
func (m *watchedMirror) Place(ctx context.Context, group []blob.Placement) ([]error, error) {
	if err := m.s.Begun(ctx, nil); err != nil {
		return AllOf(len(group), err), nil
	}
	return m.Mirror.Place(ctx, group)
}

// Trash implements blob.Mirror.
func (m *watchedMirror) Trash(ctx context.Context, items []blob.TrashItem) []error {
	if err := m.s.Begun(ctx, nil); err != nil {
		return AllOf(len(items), err)
	}
	return m.Mirror.Trash(ctx, items)
}

// Remove implements blob.Mirror.
func (m *watchedMirror) Remove(ctx context.Context, keys []string) []error {
	if err := m.s.Begun(ctx, nil); err != nil {
		return AllOf(len(keys), err)
	}
	return m.Mirror.Remove(ctx, keys)
}

// Restore implements blob.Mirror.
func (m *watchedMirror) Restore(ctx context.Context, id, key string) error {
	if err := m.s.Begun(ctx, nil); err != nil {
		return err
	}
	return m.Mirror.Restore(ctx, id, key)
}

// DropTrash implements blob.Mirror.
func (m *watchedMirror) DropTrash(ctx context.Context, id string) error {
	if err := m.s.Begun(ctx, nil); err != nil {
		return err
	}
	return m.Mirror.DropTrash(ctx, id)
}

// AllOf repeats an error for each item of a group.
func AllOf(n int, err error) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}
