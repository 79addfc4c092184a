package dir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
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

// TestDroppedFolderStaysDropped: a reader may open a folder before another call drops it and put it into the table
// afterwards. A later change still syncs the folders that have the names by then, so that it survives a power cut (P4).
func TestDroppedFolderStaysDropped(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(t *testing.T, m *Mirror, c *change, late func()){
		"place": func(t *testing.T, m *Mirror, c *change, late func()) {
			s := staged(t, m, "new").(*stage)
			if err := c.placeStage(s, &blob.Placement{Stage: s, Key: "a/new"}); err != nil {
				t.Fatal(err)
			}
			late()
		},
		"remove": func(t *testing.T, m *Mirror, c *change, late func()) {
			put(t, m, "a/b/k", "k")
			put(t, m, "a/b/stays", "s")
			c.m.folders.closeUnused()
			err := c.removeName(0, "a/b/k", func(_ *change, _ int, h *cachedFolder, name string) error { return removeFile(h.folder, name) })
			if err != nil {
				t.Fatal(err)
			}
			late()
			c.prune(map[string]struct{}{"a/b": {}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, path := newMirror(t, Options{})
			put(t, m, "a/old", "old")
			dropped, err := m.folders.top.child("a")
			if err != nil {
				t.Fatal(err)
			}
			if err := m.Remove(t.Context(), []string{"a/old"})[0]; err != nil {
				t.Fatal(err)
			}
			c := m.newChange()
			change(t, m, c, func() { m.folders.release(m.folders.insert(dropped, time.Now())) })
			var mu sync.Mutex
			var synced []os.FileInfo
			m.sync.syncFile = func(f *os.File) error {
				mu.Lock()
				defer mu.Unlock()
				info, err := f.Stat()
				synced = append(synced, info)
				return err
			}
			if err := c.commit(1); err != nil {
				t.Fatal(err)
			}
			for touched := range c.touched {
				want, err := os.Stat(filepath.Join(path, touched))
				if err != nil || !slices.ContainsFunc(synced, func(is os.FileInfo) bool { return os.SameFile(is, want) }) {
					t.Errorf("%q was not synced (%v)", touched, err)
				}
			}
			if _, there := c.touched["a/b"]; name == "remove" && !there {
				t.Error("a folder that is there was taken for one that was removed")
			}
		})
	}
}

func TestOpenFoldersAreBounded(t *testing.T) {
	t.Parallel()
	m, _ := newMirror(t, Options{folders: 5, Unsynced: true})
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
	m, path := newMirror(t, Options{Unsynced: true})
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
