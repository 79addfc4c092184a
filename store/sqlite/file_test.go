package sqlite

import (
	"path/filepath"
	"testing"
)

func openFile(t testing.TB, path string) *File {
	t.Helper()
	f, err := OpenFile(t.Context(), path, Schema{
		Owner: "test", Application: 1, Scripts: []string{"CREATE TABLE subscription (id INTEGER PRIMARY KEY) STRICT"},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestFileSettings: the files of others are synced as ours are.
func TestFileSettings(t *testing.T) {
	t.Parallel()
	f := openFile(t, filepath.Join(t.TempDir(), "x.db"))
	defer f.Close()
	var level string
	if err := f.s.w.conn.QueryRowContext(t.Context(), "PRAGMA synchronous").Scan(&level); err != nil || level != "1" {
		t.Errorf("synchronous is %s, %v", level, err)
	}
}
