package dir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"resyncd/store/blob"
)

// snapshot lists every path below a folder, with its mode.
func snapshot(t *testing.T, path string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		all[p] = info.Mode().String() + " " + info.ModTime().String()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestInspectTellsAndTouchesNothing(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	at := func(name string) string { return filepath.Join(top, name) }
	for _, name := range []string{"empty", "foreign", "state/.resyncd"} {
		if err := os.MkdirAll(at(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"foreign/x", "file"} {
		if err := os.WriteFile(at(name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	os.Symlink(at("unmounted"), at("dangling"))
	id, err := Create(at("marked"))
	if err != nil {
		t.Fatal(err)
	}
	os.Symlink("marked", at("link"))
	before := snapshot(t, top)
	for _, c := range []struct {
		name  string
		state State
		id    string
		fails bool
	}{
		{"absent", Absent, "", false},
		{"absent/deeper", Absent, "", false},
		{"empty", Empty, "", false},
		{"state", Empty, "", false},
		{"foreign", Foreign, "", false},
		{"marked", Marked, id, false},
		{"link", Marked, id, false},
		{"file", Absent, "", true},
		{"dangling", Absent, "", true},
	} {
		state, got, err := Inspect(at(c.name))
		if (err != nil) != c.fails || !c.fails && (state != c.state || got != c.id) {
			t.Errorf("Inspect(%s) = %v, %q, %v", c.name, state, got, err)
		}
	}
	if _, err := Create(at("dangling")); err == nil {
		t.Error("Create made a mirror behind a dangling link")
	}
	if diff := cmp.Diff(before, snapshot(t, top)); diff != "" {
		t.Errorf("Inspect touched something:\n%s", diff)
	}
}

func TestCreateMakesModesAndIsIdempotent(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a", "b", "mirror")
	id, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	m := open(t, path, id, Options{})
	put(t, m, "d/f", "x")
	for name, mode := range map[string]fs.FileMode{
		"": 0o755, "d": 0o755, "d/f": 0o644, ".resyncd": 0o700, ".resyncd/stage": 0o700, ".resyncd/trash": 0o700, ".resyncd/root": 0o600,
	} {
		info, err := os.Stat(filepath.Join(path, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got&^mode != 0 || got&0o700 != mode&0o700 { // the umask may take more
			t.Errorf("%s: mode %o, want %o", name, got, mode)
		}
	}
	if again, err := Create(path); err != nil || again != id {
		t.Errorf("Create again = %q, %v; want %q", again, err, id)
	}
	if other, err := Create(filepath.Join(t.TempDir(), "other")); err != nil || other == id {
		t.Errorf("another root: %q, %v", other, err)
	}
}

func TestCreateAtOnceAgrees(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "m")
	ids := make([]string, 8)
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() {
			var err error
			if ids[i], err = Create(path); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Fatalf("two ids for one root: %v", ids)
		}
	}
	entries, err := os.ReadDir(filepath.Join(path, ".resyncd"))
	if err != nil || len(entries) != 3 {
		t.Errorf("left over: %v, %v", entries, err)
	}
}

func TestOpenInsistsOnItsMarker(t *testing.T) {
	t.Parallel()
	path, id := newRoot(t)
	marker := filepath.Join(path, ".resyncd", "root")
	fail := func(what, path, id string, cause error) {
		t.Helper()
		for _, opt := range []Options{{}, {ReadOnly: true}} {
			m, err := Open(path, id, opt)
			if err == nil {
				m.Close()
			}
			if err == nil || cause != nil && !errors.Is(err, cause) {
				t.Errorf("%s: %v, want %v", what, err, cause)
			}
		}
	}
	fail("no id", path, "", nil)
	fail("another id", path, "0123", blob.ErrUnmarked)
	fail("not mounted", t.TempDir(), id, blob.ErrUnmarked)
	fail("no folder", filepath.Join(path, "none"), id, blob.ErrUnmarked)

	good := disk(t, marker)
	for _, text := range []string{"", "{", "[]", `{"format":1}`, `{"id":"` + id + `"}`} {
		os.WriteFile(marker, []byte(text), 0o600)
		fail("damaged "+text, path, id, blob.ErrUnmarked)
		if _, err := Create(path); err == nil {
			t.Errorf("Create replaced the damaged marker %q", text)
		}
	}
	os.WriteFile(marker, []byte(`{"format":2,"id":"`+id+`"}`), 0o600)
	fail("newer format", path, id, nil)
	if m, err := Open(path, id, Options{}); errors.Is(err, blob.ErrUnmarked) {
		m.Close()
		t.Error("a newer format is called unmounted")
	}
	os.WriteFile(marker, []byte(good), 0o600)
	open(t, path, id, Options{})

	os.Remove(marker)
	os.Symlink("/etc/hostname", marker)
	fail("marker is a link", path, id, nil)
}

func TestCheckSeesTheRootGo(t *testing.T) {
	t.Parallel()
	m, path := newMirror(t, Options{})
	if err := m.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	aside := path + ".aside"
	if err := os.Rename(path, aside); err != nil {
		t.Fatal(err)
	}
	os.Mkdir(path, 0o755)
	if err := m.Check(t.Context()); !errors.Is(err, blob.ErrUnmarked) || !blob.Systemic(err) {
		t.Errorf("empty folder in place of the root: %v", err)
	}
	os.Remove(path)
	if err := m.Check(t.Context()); !errors.Is(err, blob.ErrUnmarked) {
		t.Errorf("no root: %v", err)
	}
	os.Rename(aside, path)
	if err := m.Check(t.Context()); err != nil {
		t.Errorf("back again: %v", err)
	}
}

func TestReadOnlyChangesNothing(t *testing.T) {
	t.Parallel()
	path, id := newRoot(t)
	w := open(t, path, id, Options{})
	put(t, w, "k", "text")
	waiting := staged(t, w, "in the making")
	before := snapshot(t, path)

	m := open(t, path, id, Options{ReadOnly: true})
	f, _, err := m.Open(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	_, err = m.NewStage(t.Context())
	for what, err := range map[string]error{
		"NewStage":  err,
		"Trash":     m.Trash(t.Context(), []blob.TrashItem{{Key: "k", ID: "i"}})[0],
		"Remove":    m.Remove(t.Context(), []string{"k"})[0],
		"Restore":   m.Restore(t.Context(), "i", "l"),
		"DropTrash": m.DropTrash(t.Context(), "i"),
	} {
		if !errors.Is(err, blob.ErrReadOnly) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if diff := cmp.Diff(before, snapshot(t, path)); diff != "" {
		t.Errorf("a reader touched something:\n%s", diff)
	}
	if errs, err := w.Place(t.Context(), []blob.Placement{{Stage: waiting, Key: "l"}}); err != nil || errs[0] != nil {
		t.Errorf("the writer beside it: %v, %v", errs, err)
	}
}
