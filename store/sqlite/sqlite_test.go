package sqlite

import (
	"path/filepath"
	"testing"

	"resyncd/store"
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

// TestEnsureSetAgain: a set that is known costs no write, and so no sync.
func TestEnsureSetAgain(t *testing.T) {
	t.Parallel()
	f := newFilled(t, filepath.Join(t.TempDir(), "state.db"))
	before := walSize(f.s.path)
	again, err := f.s.EnsureSet(t.Context(), f.claim, "list")
	if err != nil || again.ID != f.set.ID {
		t.Fatalf("%+v, %v", again, err)
	}
	if after := walSize(f.s.path); after != before {
		t.Errorf("the log grew from %d to %d", before, after)
	}
}
