package dir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestLeftOver: a stage that the disk did not let go when it was discarded goes with a later one (F6).
func TestLeftOver(t *testing.T) {
	t.Parallel()
	m, root := newMirror(t, Options{})
	s := staged(t, m, "body").(*stage)
	at := filepath.Join(root, ".resyncd", stageName, m.area.name, filepath.Base(s.shard.root.Name()), s.name)
	if err := errors.Join(os.Remove(at), os.Mkdir(at, 0o700)); err != nil { // removing it as a file fails now
		t.Fatal(err)
	}
	if err := s.Discard(); err == nil {
		t.Error("discarded, they say")
	}
	next := func() {
		t.Helper()
		if err := staged(t, m, "next").Discard(); err != nil {
			t.Error(err)
		}
	}
	next()
	if err := errors.Join(os.Remove(at), os.WriteFile(at, nil, 0o600)); err != nil { // still there until now, then well again
		t.Fatal(err)
	}
	next()
	if _, err := os.Lstat(at); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left in the stage: %v", err)
	}
	if n := len(m.area.left); n > 0 {
		t.Errorf("%d are still to be removed", n)
	}
}
