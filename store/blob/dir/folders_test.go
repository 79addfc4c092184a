package dir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"resyncd/store/blob"
)

// TestFolderMovedAside: an open folder whose name leads elsewhere by now is not written to.
func TestFolderMovedAside(t *testing.T) {
	t.Parallel()
	m, path := newMirror(t, Options{})
	put(t, m, "a/b/k", "old")
	at := filepath.Join(path, "a")
	if err := os.Rename(at, at+".aside"); err != nil {
		t.Fatal(err)
	}
	put(t, m, "a/b/k", "new")
	if got := disk(t, path, "a", "b", "k"); got != "new" {
		t.Errorf("holds %q", got)
	}
	if got := disk(t, path, "a.aside", "b", "k"); got != "old" {
		t.Errorf("the folder moved aside holds %q", got)
	}
	os.RemoveAll(at)
	if _, err := m.Stat(t.Context(), "a/b/k"); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("Stat of a removed tree: %v", err)
	}
	os.RemoveAll(filepath.Join(path, ".resyncd", "trash"))
	put(t, m, "a/b/k", "third")
	if err := m.Trash(t.Context(), []blob.TrashItem{{Key: "a/b/k", ID: "i"}})[0]; err != nil {
		t.Errorf("Trash without its folder: %v", err)
	}
}

func TestOpenFoldersAreBounded(t *testing.T) {
	t.Parallel()
	m, _ := newMirror(t, Options{folders: 5, Durability: DurableNone})
	for i := range 60 {
		put(t, m, fmt.Sprintf("%d/%d/f", i, i), "x")
	}
	if n := len(m.folders.open); n > 5 {
		t.Errorf("%d folders open, at most 5 allowed", n)
	}
	for i := range 60 {
		if _, err := m.Stat(t.Context(), fmt.Sprintf("%d/%d/f", i, i)); err != nil {
			t.Error(err)
		}
	}
	for _, h := range m.folders.open {
		if h.refs != 0 {
			t.Errorf("%s is still in use %d times", h.path, h.refs)
		}
	}
}

// TestWalkManyNames: more names in a folder than are held in memory at a time.
func TestWalkManyNames(t *testing.T) {
	t.Parallel()
	m, path := newMirror(t, Options{Durability: DurableNone})
	const n = 3*chunk + 7
	for i := range n {
		if err := os.WriteFile(filepath.Join(path, fmt.Sprint(i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]bool{}
	if err := m.Walk(t.Context(), func(i blob.Info) error { seen[i.Key] = true; return nil }); err != nil || len(seen) != n {
		t.Errorf("Walk saw %d of %d, %v", len(seen), n, err)
	}
}

func TestTimesBeyondReason(t *testing.T) {
	t.Parallel()
	m, path := newMirror(t, Options{})
	for i, when := range []time.Time{{}, time.Unix(0, 0), time.Unix(1<<40, 0), time.Unix(-1<<40, 0), time.Date(292277026596, 1, 1, 0, 0, 0, 0, time.UTC)} {
		s := staged(t, m, "x")
		s.SetModTime(when)
		if errs, err := m.Place(t.Context(), []blob.Placement{{Stage: s, Key: fmt.Sprint(i)}}); err != nil || errs[0] != nil {
			t.Errorf("%v: %v, %v", when, errs, err)
		}
		if disk(t, path, fmt.Sprint(i)) != "x" {
			t.Errorf("%v: not placed", when)
		}
	}
}
