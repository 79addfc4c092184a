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
