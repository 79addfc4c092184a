// Package sqlite knows how the records of a Destination are kept in one SQLite file. It refuses to
// know what they mean: no rule about versions, coverage or files is here, only the contracts of
// package store.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	lib "modernc.org/sqlite/lib"

	"resyncd/store"
)

// Options configure the opening of a database. The zero value is a writing store with the usual
// caches.
type Options struct {
	// ReadOnly opens an existing database for reading. If no other process has it open, nothing on
	// disk is touched or created; if one does (or was killed), its latest commits are read. Calls
	// that would write fail with store.ErrReadOnly. For long work beside a process that may start
	// meanwhile use Snapshot.
	ReadOnly bool
	// Log receives failures of maintenance; nil discards.
	Log *slog.Logger
	// CacheKiB bounds the page cache of the writing connection; 0 means 3,072. The four readers
	// take up to 512 each. The memory used is more than twice that.
	CacheKiB int
}

// Store is a store.Store on one file.
type Store struct {
	path string
	log  *slog.Logger
	w    *writer // nil: read only
	r    *reader
	// immutable says that the database was opened without locks because nobody else had it open.
	immutable bool
	schema    int64 // of the file; older than the program's only where opened for reading
	limits    limits

	recent recentBodies

	mu     sync.Mutex
	claims map[int64]*claim // granted by this Store and not released, by Source
	owners map[int64]int64  // Source of a set, which never changes
	// searchAbove is the number of documents of a Source above which unused ones are searched
	// again.
	searchAbove map[int64]int64
	folders     folderCache
}

var _ store.Store = (*Store)(nil)

// limits bound how much is kept, or done at once. Tests lower them.
type limits struct {
	marks  int // keepMarks
	page   int // findPage
	forget int // forgetSlice
}

// Version is that of SQLite, for people.
func Version() string { return lib.SQLITE_VERSION }

// Open opens the state database at path, created if it is missing (mode 0600, its folder 0700) and
// brought to the newest schema. It fails with store.ErrSchema if a newer resyncd wrote it,
// store.ErrForeign if it is another program's, store.ErrCorrupt if it is damaged, and with
// store.ErrNotFound if it is to be read only and is missing.
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Store{log: o.Log, claims: map[int64]*claim{}, owners: map[int64]int64{}, searchAbove: map[int64]int64{},
		limits: limits{keepMarks, findPage, forgetSlice}, recent: recentBodies{max: keepMarks}}
	var err error
	if o.ReadOnly {
		err = s.openRead(ctx, path)
	} else {
		err = s.openWrite(ctx, path, o.CacheKiB)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open state database %s: %w", path, err), s.Close())
	}
	return s, nil
}

// Close releases all claims and closes the database. After the last process closed it, everything
// is in the one file.
func (s *Store) Close() error {
	s.mu.Lock()
	claims := s.claims
	s.claims = map[int64]*claim{}
	s.mu.Unlock()
	var errs []error
	if s.r != nil {
		errs = append(errs, s.r.close()) // first, so that the writer is the last one and folds the log in
	}
	if s.w != nil {
		errs = append(errs, s.w.close())
	}
	for _, c := range claims {
		errs = append(errs, c.lock.Unlock())
	}
	return errors.Join(errs...)
}

// Check implements store.Maintainer.
func (s *Store) Check(ctx context.Context) error {
	var found string
	err := s.r.db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&found)
	if err != nil {
		return s.fail("check the state database", err)
	}
	if found != "ok" {
		return fmt.Errorf("check the state database %s: %w (%s)", s.path, store.ErrCorrupt, found)
	}
	return nil
}

// rowScanner is what *sql.Row and *sql.Rows share.
type rowScanner interface{ Scan(dest ...any) error }

// collect reads all rows with scan.
func collect[T any](rows *sql.Rows, scan func(rowScanner) (T, error)) ([]T, error) {
	defer rows.Close()
	var out []T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, rows.Err()
}

// single is the only one of the collected rows; sql.ErrNoRows if there is none.
func single[T any](found []T, err error) (T, error) {
	var none T
	switch {
	case err != nil:
		return none, err
	case len(found) == 0:
		return none, sql.ErrNoRows
	}
	return found[0], nil
}
