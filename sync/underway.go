package sync

import (
	"context"
	"fmt"
	"sync"

	"resyncd/store"
	"resyncd/store/blob"
)

// underway is whether the state says that a run is under way (Source.Unclean), so that the next one looks at the disk
// should this one be cut (F1, F2). A run says so before its first change of a file: one that finds nothing to change, as
// most do, is spared two durable steps, a third of its syncs.
type underway struct {
	mu   sync.Mutex
	done bool
}

func (u *underway) told() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.done
}

// begun makes the state say it, once, together with the change.
func (s *session) begun(ctx context.Context, with *store.SourceChange) error {
	s.underway.mu.Lock()
	defer s.underway.mu.Unlock()
	if s.underway.done {
		return nil
	}
	if with == nil {
		with = &store.SourceChange{}
	}
	unclean := true
	with.Unclean = &unclean
	if err := s.Store.Commit(ctx, &store.Commit{Claim: s.claim, Source: with}); err != nil {
		return fmt.Errorf("record that a run is under way: %w", err)
	}
	s.underway.done = true
	return nil
}

// watchMirror has the state told before any file changes, whoever changes it.
func (s *session) watchMirror() {
	if s.t.Mirror != nil && s.o.Plan == nil {
		s.t.Mirror = &watchedMirror{Mirror: s.t.Mirror, s: s}
	}
}

// watchedMirror is the mirror of a session.
type watchedMirror struct {
	blob.Mirror
	s *session
}

// Place implements blob.Mirror.
func (m *watchedMirror) Place(ctx context.Context, group []blob.Placement) ([]error, error) {
	if err := m.s.begun(ctx, nil); err != nil {
		return allOf(len(group), err), nil
	}
	return m.Mirror.Place(ctx, group)
}

// Trash implements blob.Mirror.
func (m *watchedMirror) Trash(ctx context.Context, items []blob.TrashItem) []error {
	if err := m.s.begun(ctx, nil); err != nil {
		return allOf(len(items), err)
	}
	return m.Mirror.Trash(ctx, items)
}

// Remove implements blob.Mirror.
func (m *watchedMirror) Remove(ctx context.Context, keys []string) []error {
	if err := m.s.begun(ctx, nil); err != nil {
		return allOf(len(keys), err)
	}
	return m.Mirror.Remove(ctx, keys)
}

// Restore implements blob.Mirror.
func (m *watchedMirror) Restore(ctx context.Context, id, key string) error {
	if err := m.s.begun(ctx, nil); err != nil {
		return err
	}
	return m.Mirror.Restore(ctx, id, key)
}

// DropTrash implements blob.Mirror.
func (m *watchedMirror) DropTrash(ctx context.Context, id string) error {
	if err := m.s.begun(ctx, nil); err != nil {
		return err
	}
	return m.Mirror.DropTrash(ctx, id)
}

// allOf is one error for each item of a group.
func allOf(n int, err error) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}
