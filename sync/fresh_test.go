package sync

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"resyncd/store/sqlite"
)

// emptyState is a state database as sqlite.Open makes it. To make one takes three times as long as to open it again, and each of
// some hundred mirrors here has one of its own.
var emptyState = sync.OnceValues(func() (content []byte, err error) {
	folder, err := os.MkdirTemp("", "resyncd-test-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "state.db")
	st, err := sqlite.Open(context.Background(), path, sqlite.Options{})
	if err != nil {
		return nil, err
	}
	if err := st.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// makeState puts an empty state database at path, unless one is there.
func makeState(path string) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	content, err := emptyState()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o600)
}
