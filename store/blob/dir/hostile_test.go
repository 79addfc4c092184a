//go:build unix

package dir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"resyncd/store/blob"
)

// plant puts something hostile at a path of the mirror.
type plant func(t *testing.T, outside, at string)

func symlinkTo(target string) plant {
	return func(t *testing.T, outside, at string) {
		if err := os.Symlink(strings.ReplaceAll(target, "OUTSIDE", outside), at); err != nil {
			t.Fatal(err)
		}
	}
}

func fifo(t *testing.T, _, at string) {
	if err := syscall.Mkfifo(at, 0o644); err != nil {
		t.Fatal(err)
	}
}

func device(t *testing.T, _, at string) {
	if err := syscall.Mknod(at, syscall.S_IFCHR|0o644, 1<<8|3); err != nil { // null
		t.Skipf("no device can be made here: %v", err)
	}
}

func hardLink(t *testing.T, outside, at string) {
	if err := os.Link(filepath.Join(outside, "secret"), at); err != nil {
		t.Fatal(err)
	}
}

// TestPlantedFiles: what lies under the key is replaced, trashed or removed itself, never followed, written through or
// waited for (F87).
func TestPlantedFiles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		plant plant
		kind  blob.Kind
	}{
		{"link outside", symlinkTo("OUTSIDE/secret"), blob.KindSymlink},
		{"relative link outside", symlinkTo("../../../../../../../../../../etc/hostname"), blob.KindSymlink},
		{"link inside", symlinkTo("victim"), blob.KindSymlink},
		{"dangling link", symlinkTo("nothing"), blob.KindSymlink},
		{"link to itself", symlinkTo("k"), blob.KindSymlink},
		{"FIFO", fifo, blob.KindOther},
		{"device", device, blob.KindOther},
		{"hard link", hardLink, blob.KindFile},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m, path := newMirror(t, Options{})
			outside := t.TempDir()
			secret := filepath.Join(outside, "secret")
			os.WriteFile(secret, []byte("secret"), 0o600)
			put(t, m, "d/victim", "victim")
			at := filepath.Join(path, "d", "k")
			c.plant(t, outside, at)
			intact := func(when string) {
				t.Helper()
				if disk(t, secret) != "secret" || disk(t, path, "d", "victim") != "victim" {
					t.Fatalf("%s: written through", when)
				}
			}

			if i, err := m.Stat(t.Context(), "d/k"); err != nil || i.Kind != c.kind {
				t.Errorf("Stat = %+v, %v", i, err)
			}
			f, _, err := m.Open(t.Context(), "d/k")
			if c.kind == blob.KindFile {
				f.Close()
			} else if !errors.Is(err, blob.ErrNotRegular) || errors.Is(err, blob.ErrNotFound) {
				t.Errorf("Open: %v", err)
			}
			kinds := map[string]blob.Kind{}
			if err := m.Walk(t.Context(), func(i blob.Info) error { kinds[i.Key] = i.Kind; return nil }); err != nil {
				t.Errorf("Walk: %v", err)
			}
			if diff := cmp.Diff(map[string]blob.Kind{"d/victim": blob.KindFile, "d/k": c.kind}, kinds); diff != "" {
				t.Errorf("Walk: %s", diff)
			}

			put(t, m, "d/k", "ours")
			if got := disk(t, at); got != "ours" {
				t.Errorf("placed: %q", got)
			}
			if info, err := os.Lstat(at); err != nil || !info.Mode().IsRegular() {
				t.Errorf("placed: %v, %v", info, err)
			}
			intact("Place")

			os.Remove(at)
			c.plant(t, outside, at)
			group := []blob.Placement{{Stage: staged(t, m, "ours again"), Key: "d/k", Displace: "displaced"}}
			if errs, err := m.Place(t.Context(), group); err != nil || errs[0] != nil || !group[0].Displaced {
				t.Errorf("Place with Displace: %v, %v", errs, err)
			}
			intact("Displace")

			for id, take := range map[string]func() error{
				"trashed": func() error { return m.Trash(t.Context(), []blob.TrashItem{{Key: "d/k", ID: "trashed"}})[0] },
				"":        func() error { return m.Remove(t.Context(), []string{"d/k"})[0] },
			} {
				os.Remove(at)
				c.plant(t, outside, at)
				if err := take(); err != nil {
					t.Errorf("take away (%s): %v", id, err)
				}
				if _, err := os.Lstat(at); !os.IsNotExist(err) {
					t.Errorf("still there: %v", err)
				}
				intact("take away")
			}
			n := 0
			if err := m.ListTrash(t.Context(), func(i blob.TrashInfo) error {
				if n++; i.Kind != c.kind {
					t.Errorf("in the trash: %+v", i)
				}
				return nil
			}); err != nil || n != 2 {
				t.Errorf("ListTrash: %d, %v", n, err)
			}
			if c.kind != blob.KindFile {
				if _, _, err := m.OpenTrash(t.Context(), "trashed"); !errors.Is(err, blob.ErrNotRegular) {
					t.Errorf("OpenTrash: %v", err)
				}
				if err := m.Restore(t.Context(), "trashed", "d/k"); !errors.Is(err, blob.ErrNotRegular) {
					t.Errorf("Restore: %v", err)
				}
			}
			if err := m.DropTrash(t.Context(), "trashed"); err != nil {
				t.Errorf("DropTrash: %v", err)
			}
			intact("trash")
		})
	}
}

// TestPlantedParents: no call goes through a parent that is a link, a file or a FIFO, nor touches what lies behind.
func TestPlantedParents(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		plant plant
	}{
		{"link outside", symlinkTo("OUTSIDE")},
		{"link inside", symlinkTo("real")},
		{"link to the root", symlinkTo(".")},
		{"dangling link", symlinkTo("nothing")},
		{"FIFO", fifo},
		{"file", hardLink},
	} {
		for _, cached := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, folder open %v", c.name, cached), func(t *testing.T) {
				t.Parallel()
				m, path := newMirror(t, Options{})
				outside := t.TempDir()
				os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o644)
				os.WriteFile(filepath.Join(outside, "k"), []byte("outside"), 0o644)
				put(t, m, "real/k", "real")
				put(t, m, "k", "top")
				at := filepath.Join(path, "dir")
				if cached {
					put(t, m, "dir/k", "was a folder")
					if err := os.Rename(at, at+".aside"); err != nil {
						t.Fatal(err)
					}
					m.folders.mu.Lock() // as if a while had passed since it was looked at
					for _, h := range m.folders.open {
						h.checked = h.checked.Add(-2 * staleAfter)
					}
					m.folders.mu.Unlock()
				}
				c.plant(t, outside, at)
				before := snapshot(t, outside)

				_, statErr := m.Stat(t.Context(), "dir/k")
				_, _, openErr := m.Open(t.Context(), "dir/k")
				for what, err := range map[string]error{
					"Stat":   statErr,
					"Open":   openErr,
					"Trash":  m.Trash(t.Context(), []blob.TrashItem{{Key: "dir/k", ID: "i"}})[0],
					"Remove": m.Remove(t.Context(), []string{"dir/k"})[0],
				} {
					if !errors.Is(err, blob.ErrNotFound) || !errors.Is(err, blob.ErrParentNotFolder) {
						t.Errorf("%s: %v", what, err)
					}
				}
				for _, key := range []string{"dir/k", "dir/new/k"} {
					errs, err := m.Place(t.Context(), []blob.Placement{{Stage: staged(t, m, "ours"), Key: key}})
					if err != nil || !errors.Is(errs[0], blob.ErrParentNotFolder) || errors.Is(errs[0], blob.ErrNotFound) {
						t.Errorf("Place %s: %v, %v", key, errs, err)
					}
					if ke, ok := errors.AsType[*blob.KeyError](errs[0]); !ok || ke.At != "dir" || ke.Key != key {
						t.Errorf("Place %s does not name what is in the way: %#v", key, ke)
					}
				}
				if disk(t, path, "real", "k") != "real" || disk(t, path, "k") != "top" {
					t.Error("something behind the link changed")
				}
				if diff := cmp.Diff(before, snapshot(t, outside)); diff != "" {
					t.Errorf("outside changed:\n%s", diff)
				}
				// What is in the way can be moved away, then it goes.
				if err := m.Trash(t.Context(), []blob.TrashItem{{Key: "dir", ID: "way"}})[0]; err != nil {
					t.Fatal(err)
				}
				put(t, m, "dir/new/k", "ours")
				if got := disk(t, at, "new", "k"); got != "ours" {
					t.Error(got)
				}
			})
		}
	}
}

// TestReservedIsALink: a `.resyncd` that leads elsewhere is not ours.
func TestReservedIsALink(t *testing.T) {
	t.Parallel()
	path, id := newRoot(t)
	real := filepath.Join(path, ".resyncd")
	if err := os.Rename(real, real+".real"); err != nil {
		t.Fatal(err)
	}
	os.Symlink(".resyncd.real", real)
	if m, err := Open(path, id, Options{}); err == nil {
		m.Close()
		t.Error("Open followed the link")
	}
	if _, err := Create(path); err == nil {
		t.Error("Create followed the link")
	}
}

func TestForeignFoldersStay(t *testing.T) {
	t.Parallel()
	m, path := newMirror(t, Options{})
	put(t, m, "a/b/c", "x")
	os.Mkdir(filepath.Join(path, "a", "theirs"), 0o755)
	if err := m.Remove(t.Context(), []string{"a/b/c"})[0]; err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(path, "a", "b")); !os.IsNotExist(err) {
		t.Errorf("the emptied folder is still there: %v", err)
	}
	if _, err := os.Stat(filepath.Join(path, "a", "theirs")); err != nil {
		t.Errorf("somebody else's empty folder: %v", err)
	}
	for _, p := range []blob.Placement{{Key: "a/theirs"}, {Key: "a/theirs", Displace: "i"}} {
		p.Stage = staged(t, m, "x")
		errs, err := m.Place(t.Context(), []blob.Placement{p})
		if err != nil || !errors.Is(errs[0], blob.ErrIsFolder) {
			t.Errorf("Place on an empty folder: %v, %v", errs, err)
		}
	}
	for _, err := range []error{
		m.Remove(t.Context(), []string{"a/theirs"})[0],
		m.Trash(t.Context(), []blob.TrashItem{{Key: "a/theirs", ID: "i"}})[0],
	} {
		if !errors.Is(err, blob.ErrIsFolder) {
			t.Errorf("taking a folder away: %v", err)
		}
	}
	if _, _, err := m.Open(t.Context(), "a/theirs"); !errors.Is(err, blob.ErrNotRegular) {
		t.Errorf("Open of a folder: %v", err)
	}
}

// TestForeignNames: whatever somebody else put there can be seen and moved away, also what no key of ours may be.
func TestForeignNames(t *testing.T) {
	t.Parallel()
	m, path := newMirror(t, Options{})
	deep := strings.TrimSuffix(strings.Repeat(strings.Repeat("d", 99)+"/", 10), "/")
	wanted := map[string]blob.Kind{}
	for _, key := range []string{"sp ace", "ctrl\x01\x1b[31m", "\xff\xfe", "back\\slash", "new\nline", deep + "/" + strings.Repeat("f", 200)} {
		full := filepath.Join(path, key)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte("x"), 0o644); err != nil {
			t.Skipf("%q cannot be made here: %v", key, err)
		}
		wanted[key] = blob.KindFile
	}
	tooDeep := deep + "/" + strings.Repeat("e", 99)
	if err := os.MkdirAll(filepath.Join(path, tooDeep, "below"), 0o755); err != nil {
		t.Fatal(err)
	}
	wanted[tooDeep] = blob.KindFolder
	got := map[string]blob.Kind{}
	if err := m.Walk(t.Context(), func(i blob.Info) error { got[i.Key] = i.Kind; return nil }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wanted, got); diff != "" {
		t.Fatalf("Walk:\n%s", diff)
	}
	n := 0
	for key, kind := range got {
		if kind == blob.KindFolder {
			continue
		}
		n++
		if err := m.Trash(t.Context(), []blob.TrashItem{{Key: key, ID: fmt.Sprint(n)}})[0]; err != nil {
			t.Error(err)
		}
	}
	for key := range got {
		_, err := m.Stat(t.Context(), key+"\x1b[31m")
		if err == nil || strings.ContainsAny(err.Error(), "\x1b\n") {
			t.Errorf("an error shows raw bytes: %v", err)
		}
	}
}

func TestUnreadable(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 {
		t.Skip("root reads everything")
	}
	m, path := newMirror(t, Options{})
	put(t, m, "closed/f", "x")
	put(t, m, "f", "x")
	os.Chmod(filepath.Join(path, "f"), 0)
	os.Chmod(filepath.Join(path, "closed"), 0)
	t.Cleanup(func() { os.Chmod(filepath.Join(path, "closed"), 0o755) })
	for _, key := range []string{"f", "closed/f"} {
		if _, _, err := m.Open(t.Context(), key); !errors.Is(err, os.ErrPermission) || errors.Is(err, blob.ErrNotFound) {
			t.Errorf("Open %s: %v", key, err)
		}
	}
	seen := 0
	if err := m.Walk(t.Context(), func(blob.Info) error { seen++; return nil }); err == nil || seen != 1 {
		t.Errorf("Walk saw %d, %v: want the readable one and an error", seen, err)
	}
}
