package sqlite

import (
	"context"
	"errors"
	"fmt"

	"resyncd/store"
	"resyncd/store/sqlite/dbfile"
)

// claim was granted by this Store. The lock shows that its holder lives; the epoch shows which of
// two is newer should the lock fail (its file removed, a network file system).
type claim struct {
	epoch  int64
	unlock func() error
}

func (s *Store) lockPath(sourceID int64) string {
	return fmt.Sprintf("%s-source-%d.lock", s.db.Path(), sourceID)
}

// Claim implements store.Claims.
func (s *Store) Claim(ctx context.Context, sourceID int64, holder string) (store.Claim, func() error, error) {
	if !s.db.Writable() {
		return store.Claim{}, nil, fmt.Errorf("claim a source: %w", store.ErrReadOnly)
	}
	var name, last string
	err := s.db.Get(ctx, "SELECT name, holder FROM source WHERE id = ? AND name IS NOT NULL", []any{sourceID}, &name,
		&last)
	if err != nil {
		return store.Claim{}, nil, s.db.Fail(fmt.Sprintf("claim source %d", sourceID), err)
	}
	unlock, free, err := dbfile.Lock(s.lockPath(sourceID))
	switch {
	case err != nil:
		return store.Claim{}, nil, fmt.Errorf("claim source %s: %w", name, err)
	case !free:
		return store.Claim{}, nil, &store.HeldError{Source: name, Holder: last}
	}
	c := &claim{unlock: unlock}
	// A power cut may take the epoch back, because it also ends the process that the epoch would fence off.
	err = s.db.WriteAsync(ctx, "claim source "+name, func(ctx context.Context, w *dbfile.Writer) error {
		return w.Get(ctx, `UPDATE source SET epoch = epoch + 1, holder = ? WHERE id = ? AND name IS NOT NULL
			RETURNING epoch`, []any{holder, sourceID}, &c.epoch)
	})
	if err != nil {
		return store.Claim{}, nil, errors.Join(err, unlock())
	}
	s.mu.Lock()
	s.claims[sourceID] = c
	s.mu.Unlock()
	return store.Claim{SourceID: sourceID, Epoch: c.epoch}, func() error { return s.unclaim(sourceID, c) }, nil
}

func (s *Store) unclaim(sourceID int64, c *claim) error {
	s.mu.Lock()
	mine := s.claims[sourceID] == c
	if mine {
		delete(s.claims, sourceID)
	}
	s.mu.Unlock()
	if !mine {
		return nil
	}
	return c.unlock()
}

// held reports whether this Store granted the claim and did not release it.
func (s *Store) held(c store.Claim) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.claims[c.SourceID]
	return h != nil && h.epoch == c.Epoch
}

type writeFunc func(ctx context.Context, what string, fn func(context.Context, *dbfile.Writer) error) error

// fenced runs fn in a transaction that succeeds only while the claim is the newest of its Source.
func (s *Store) fenced(ctx context.Context, write writeFunc, what string, c store.Claim,
	fn func(context.Context, *dbfile.Writer) error) error {
	if s.db.Writable() && !s.held(c) {
		return fmt.Errorf("%s: %w", what, store.ErrFenced)
	}
	return write(ctx, what, func(ctx context.Context, w *dbfile.Writer) error {
		var newest bool
		err := w.Get(ctx, "SELECT EXISTS (SELECT 1 FROM source WHERE id = ? AND epoch = ? AND name IS NOT NULL)",
			[]any{c.SourceID, c.Epoch}, &newest)
		if err != nil {
			return err
		}
		if !newest {
			return store.ErrFenced
		}
		return fn(ctx, w)
	})
}
