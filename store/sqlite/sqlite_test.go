package sqlite

import (
	"os"
	"path/filepath"
	"testing"

	"resyncd/store"
	"resyncd/store/sqlite/dbfile"
	"resyncd/store/storetest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) func() store.Store {
		path := filepath.Join(t.TempDir(), "state.db")
		return func() store.Store { return open(t, path) }
	})
}

// open opens a database for writing; the caller closes it.
func open(t testing.TB, path string) *Store {
	t.Helper()
	s, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func walSize(t *testing.T, s *Store) int64 {
	t.Helper()
	info, err := os.Stat(s.db.Path() + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// execute runs a statement that no program runs.
func execute(tb testing.TB, s *Store, query string, args ...any) error {
	return s.db.Write(tb.Context(), "test", func(tx *dbfile.Session) { tx.Exec(query, args...) })
}

// number is what a query for one tells.
func number(tb testing.TB, s *Store, query string) int64 {
	tb.Helper()
	r := s.db.Read(tb.Context(), query)
	n := dbfile.One(r, idField, query)
	if err := r.Err(); err != nil {
		tb.Fatal(err)
	}
	return n
}

// TestEnsureSetAgain: a set that is known costs no write, and so no sync.
func TestEnsureSetAgain(t *testing.T) {
	t.Parallel()
	f := newFilled(t, filepath.Join(t.TempDir(), "state.db"))
	before := walSize(t, f.s)
	again, err := f.s.EnsureSet(t.Context(), f.claim, "list")
	if err != nil || again.ID != f.set.ID {
		t.Fatalf("%+v, %v", again, err)
	}
	if after := walSize(t, f.s); after != before {
		t.Errorf("the log grew from %d to %d", before, after)
	}
}
