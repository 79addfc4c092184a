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
	r := s.db.Read(ctx, fmt.Sprintf("claim source %d", sourceID))
	known := dbfile.One(r, sourceFields, selectSource+"id = ? AND name IS NOT NULL", sourceID)
	if err := r.Err(); err != nil {
		return store.Claim{}, nil, err
	}
	unlock, free, err := dbfile.Lock(s.lockPath(sourceID))
	switch {
	case err != nil:
		return store.Claim{}, nil, fmt.Errorf("claim source %s: %w", known.Name, err)
	case !free:
		return store.Claim{}, nil, &store.HeldError{Source: known.Name, Holder: known.Holder}
	}
	c := &claim{unlock: unlock}
	err = s.db.Write(ctx, "claim source "+known.Name, func(tx *dbfile.Session) {
		tx.Repeatable() // a power cut also ends the process that the epoch would fence off
		c.epoch = dbfile.One(tx, idField, `UPDATE source SET epoch = epoch + 1, holder = ?
			WHERE id = ? AND name IS NOT NULL RETURNING epoch`, holder, sourceID)
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

// fenced runs fn in a transaction that succeeds only while the claim is the newest of its Source.
func (s *Store) fenced(ctx context.Context, what string, c store.Claim, fn func(*dbfile.Session)) error {
	if s.db.Writable() && !s.held(c) {
		return fmt.Errorf("%s: %w", what, store.ErrFenced)
	}
	return s.db.Write(ctx, what, func(tx *dbfile.Session) {
		if tx.Has("SELECT 1 FROM source WHERE id = ? AND epoch = ? AND name IS NOT NULL", c.SourceID, c.Epoch) {
			fn(tx)
		} else {
			tx.Fail(store.ErrFenced)
		}
	})
}
