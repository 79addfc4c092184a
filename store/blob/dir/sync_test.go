package dir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"resyncd/store/blob"
)

// syncLog stands between a mirror and its disk: it writes down what is synced, and fails when told.
type syncLog struct {
	mu   sync.Mutex
	root string
	log  []string
	fail func(what string) error
}

func watch(m *Mirror, path string) *syncLog {
	l := &syncLog{root: path, fail: func(string) error { return nil }}
	file, whole := m.sync.syncFile, m.sync.syncWhole
	note := func(what string, do func() error) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.log = append(l.log, what)
		if err := l.fail(what); err != nil {
			return err
		}
		return do()
	}
	m.sync.syncFile = func(f *os.File) error {
		what, _ := filepath.Rel(l.root, filepath.Clean(f.Name()))
		if strings.HasPrefix(what, ".resyncd/stage/") {
			what = "data"
		}
		return note(what, func() error { return file(f) })
	}
	m.sync.syncWhole = func(f *os.File) error { return note("all", func() error { return whole(f) }) }
	return l
}

// take gives the log since the last take; folders in order of their names, because they are synced in any.
func (l *syncLog) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	log := l.log
	l.log = nil
	slices.SortStableFunc(log, func(a, b string) int {
		if a == "data" || b == "data" || a == "all" || b == "all" {
			return 0
		}
		return strings.Compare(a, b)
	})
	return log
}

// group stages n files for keys made from format.
func group(t *testing.T, m *Mirror, n int, format string) []blob.Placement {
	t.Helper()
	g := make([]blob.Placement, n)
	for i := range g {
		g[i] = blob.Placement{Stage: staged(t, m, "x"), Key: fmt.Sprintf(format, i)}
	}
	return g
}

func place(t *testing.T, m *Mirror, g []blob.Placement) {
	t.Helper()
	errs, err := m.Place(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestWhatIsSynced: data before names, each touched folder, and the names of new folders up to one that was there.
func TestWhatIsSynced(t *testing.T) {
	t.Parallel()
	m, path := newMirror(t, Options{})
	if !m.sync.whole {
		t.Skip("this file system is not synced as a whole")
	}
	l := watch(m, path)
	expect := func(what string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, l.take()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	// When data is synced nothing may have its name yet.
	l.fail = func(what string) error {
		if _, err := os.Lstat(filepath.Join(path, "a/b/0")); what == "data" && err == nil {
			t.Error("named before its data was synced")
		}
		return nil
	}
	place(t, m, group(t, m, 1, "a/b/%d"))
	l.fail = func(string) error { return nil }
	expect("first in new folders", "data", ".", "a", "a/b")
	place(t, m, group(t, m, 1, "a/b/%d"))
	expect("again in known folders", "data", "a/b")
	place(t, m, group(t, m, 1, "a/b/c/%d"))
	expect("a folder deeper", "data", "a/b", "a/b/c")
	place(t, m, group(t, m, smallGroup+1, "a/b/%d"))
	expect("large group", "all", "all")
	place(t, m, group(t, m, 1, "new/%d"))
	expect("new folder", "data", ".", "new")

	if errs := m.Trash(t.Context(), []blob.TrashItem{{Key: "a/b/0", ID: "id"}}); errs[0] != nil {
		t.Fatal(errs)
	}
	expect("trash", ".resyncd/trash", "a/b")
	if err := m.Restore(t.Context(), "id", "a/b/0"); err != nil {
		t.Fatal(err)
	}
	expect("restore", ".resyncd/trash", "a/b")
	if errs := m.Remove(t.Context(), []string{"a/b/c/0"}); errs[0] != nil {
		t.Fatal(errs)
	}
	expect("remove with prune", "a/b")
	if errs := m.Remove(t.Context(), []string{"none"}); errs[0] == nil {
		t.Fatal("removed nothing")
	}
	expect("nothing removed")

	// Descriptors that were let go: only the whole file system still knows of their lost writes.
	g := group(t, m, keptOpen+1, "g/%d")
	for _, p := range g {
		p.Stage.Close()
	}
	place(t, m, g[keptOpen:])
	expect("closed stage", "all", ".", "g")
	place(t, m, g[:1])
	expect("closed stage, descriptor kept", "data", "g")
	for _, p := range g[1:keptOpen] {
		p.Stage.Discard()
	}
	if n := m.sealed.Load(); n != 0 {
		t.Errorf("%d stages counted as kept open", n)
	}
}

// TestFolderOfAnotherCall: a folder made by a call that failed is not on disk; the next call below it sees to that.
func TestFolderOfAnotherCall(t *testing.T) {
	t.Parallel()
	m, path := newMirror(t, Options{})
	l := watch(m, path)
	l.fail = func(what string) error {
		if what == "." {
			return syscall.EIO
		}
		return nil
	}
	if _, err := m.Place(t.Context(), group(t, m, 1, "a/b/%d")); !errors.Is(err, blob.ErrSync) {
		t.Fatalf("failed sync of the root: %v", err)
	}
	l.fail = func(string) error { return nil }
	l.take()
	place(t, m, group(t, m, 1, "a/b/%d"))
	if diff := cmp.Diff([]string{"data", ".", "a", "a/b"}, l.take()); diff != "" {
		t.Error(diff)
	}
	if len(m.sync.fresh) != 0 {
		t.Errorf("still taken for new: %v", m.sync.fresh)
	}
}

// TestWhereAFileWentIsSyncedFirst: between two syncs a file is in both places, not in none.
func TestWhereAFileWentIsSyncedFirst(t *testing.T) {
	t.Parallel()
	m, path := newMirror(t, Options{})
	place(t, m, group(t, m, 2, "d/%d"))
	l := watch(m, path)
	expect := func(what, first string) {
		t.Helper()
		if len(l.log) == 0 || l.log[0] != first {
			t.Errorf("%s syncs %v, want %s first", what, l.log, first)
		}
		l.log = nil
	}
	for range 5 { // the rest is in no order
		if err := m.Trash(t.Context(), []blob.TrashItem{{Key: "d/0", ID: "i"}})[0]; err != nil {
			t.Fatal(err)
		}
		expect("trash", ".resyncd/trash")
		if err := m.Restore(t.Context(), "i", "d/0"); err != nil {
			t.Fatal(err)
		}
		expect("restore", "d")
		g := group(t, m, 1, "d/%d")
		g[0].Displace = "i"
		place(t, m, g)
		l.log = l.log[1:] // its data
		expect("displace", ".resyncd/trash")
		if err := m.DropTrash(t.Context(), "i"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestNotDurableSyncsNothing(t *testing.T) {
	t.Parallel()
	m, path := newMirror(t, Options{Unsynced: true})
	l := watch(m, path)
	place(t, m, group(t, m, 3, "a/%d"))
	place(t, m, group(t, m, 30, "b/%d"))
	m.Remove(t.Context(), []string{"a/0"})
	if log := l.take(); log != nil {
		t.Error(log)
	}
	if len(m.sync.fresh) != 0 {
		t.Error("remembers folders that nobody will sync")
	}
}

// TestPortableSyncs: where the file system cannot be synced as one, each file and folder is.
func TestPortableSyncs(t *testing.T) {
	t.Parallel()
	m, path := newMirror(t, Options{})
	m.sync.whole = false
	l := watch(m, path)
	g := group(t, m, 40, "a/%d")
	for _, p := range g {
		p.Stage.Close()
	}
	place(t, m, g)
	log := l.take()
	if n := len(log); n != 42 || slices.Contains(log, "all") || slices.Contains(log[:40], ".") {
		t.Errorf("%d syncs: %v", n, log)
	}
}

// TestFailedSync: the whole group fails, is never synced again, and what was staged before is refused (F10).
func TestFailedSync(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		n     int
		when  string // which sync fails
		nth   int    // its how manieth
		named bool   // the new version may show
		cause error
	}{
		{"data, small group", 2, "data", 1, false, syscall.EIO},
		{"data, large group", 20, "all", 1, false, syscall.EIO},
		{"data, disk full at last", 2, "data", 1, false, syscall.ENOSPC},
		{"names, small group", 2, "d", 1, true, syscall.EIO},
		{"names, large group", 20, "all", 2, true, syscall.EIO},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m, path := newMirror(t, Options{})
			if !m.sync.whole {
				t.Skip("this file system is not synced as a whole")
			}
			put(t, m, "d/0", "old")
			bystander := staged(t, m, "staged before the failure")
			g := group(t, m, c.n, "d/%d")
			l := watch(m, path)
			seen := 0
			l.fail = func(what string) error {
				if what == c.when {
					if seen++; seen == c.nth {
						return c.cause
					}
				}
				return nil
			}
			errs, err := m.Place(t.Context(), g)
			if !errors.Is(err, blob.ErrSync) || !errors.Is(err, c.cause) || !blob.Systemic(err) {
				t.Fatalf("group error: %v", err)
			}
			if c.cause == syscall.ENOSPC && !errors.Is(err, blob.ErrNoSpace) {
				t.Errorf("not told as full: %v", err)
			}
			for i, err := range errs {
				if !errors.Is(err, blob.ErrSync) {
					t.Errorf("item %d: %v", i, err)
				}
			}
			if c.named {
				if got := disk(t, path, "d/0"); got != "x" && got != "old" {
					t.Errorf("torn: %q", got)
				}
			} else if got := disk(t, path, "d/0"); got != "old" {
				t.Errorf("the old version is gone: %q", got)
			}
			syncs := len(l.take())
			for _, s := range []blob.Stage{bystander, g[0].Stage} {
				errs, _ := m.Place(t.Context(), []blob.Placement{{Stage: s, Key: "d/late"}})
				if !errors.Is(errs[0], blob.ErrSync) && !errors.Is(errs[0], blob.ErrStage) {
					t.Errorf("a stage from before: %v", errs[0])
				}
			}
			if again := l.take(); len(again) != 0 {
				t.Errorf("synced again after %d: %v", syncs, again)
			}
			if _, err := os.Stat(filepath.Join(path, "d/late")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("placed after all: %v", err)
			}
			for _, p := range g {
				if err := p.Stage.Discard(); err != nil {
					t.Error(err)
				}
			}
			put(t, m, "d/0", "fetched again")
			if got := disk(t, path, "d/0"); got != "fetched again" {
				t.Error(got)
			}
		})
	}
}

// TestFailedSyncOfAnother: a call whose own sync went well is told when the disk lost writes meanwhile: the kernel tells
// only one of two.
func TestFailedSyncOfAnother(t *testing.T) {
	t.Parallel()
	m, path := newMirror(t, Options{})
	l := watch(m, path)
	l.fail = func(what string) error {
		if what == "data" {
			m.sync.failures.Add(1) // another call hears of it
		}
		return nil
	}
	errs, err := m.Place(t.Context(), group(t, m, 1, "k%d"))
	if !errors.Is(err, blob.ErrSync) || !errors.Is(errs[0], blob.ErrSync) {
		t.Errorf("Place: %v, %v", errs, err)
	}
	l.fail = func(string) error { return syscall.EIO }
	if err := m.Restore(t.Context(), "none", "k"); errors.Is(err, blob.ErrSync) {
		t.Errorf("nothing was done, nothing had to be synced: %v", err)
	}
	put := staged(t, m, "x")
	put.Discard()
	l.fail = func(string) error { return nil }
	place(t, m, group(t, m, 1, "k%d"))
	l.fail = func(string) error { return syscall.EIO }
	if err := m.Trash(t.Context(), []blob.TrashItem{{Key: "k0", ID: "i"}})[0]; !errors.Is(err, blob.ErrSync) {
		t.Errorf("Trash: %v", err)
	}
	if err := m.Restore(t.Context(), "i", "k0"); !errors.Is(err, blob.ErrSync) {
		t.Errorf("Restore: %v", err)
	}
	if err := m.Remove(t.Context(), []string{"k0"})[0]; !errors.Is(err, blob.ErrSync) {
		t.Errorf("Remove: %v", err)
	}
}

// TestFoldersWithoutSync: a file system that knows no sync of folders is no error.
func TestFoldersWithoutSync(t *testing.T) {
	t.Parallel()
	m, path := newMirror(t, Options{})
	l := watch(m, path)
	l.fail = func(what string) error {
		if what != "data" {
			return &os.PathError{Op: "sync", Err: syscall.EINVAL}
		}
		return nil
	}
	place(t, m, group(t, m, 2, "d/%d"))
	l.fail = func(what string) error { return &os.PathError{Op: "sync", Err: syscall.EINVAL} }
	if _, err := m.Place(t.Context(), group(t, m, 1, "d/%d")); !errors.Is(err, blob.ErrSync) {
		t.Errorf("but of data it is: %v", err)
	}
}
