package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"resyncd/store"
)

func onDisk(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// folder lists a folder with sizes and times, to see whether it was touched.
func folder(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		out[e.Name()] = fmt.Sprint(info.Size(), info.ModTime().UnixNano(), info.Mode())
	}
	return out
}

func TestModes(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("no mode bits there")
	}
	dir := filepath.Join(t.TempDir(), "a", "b")
	path := filepath.Join(dir, "state.db")
	f := newFilled(t, path)
	f.commitNew(t)
	for name, want := range map[string]os.FileMode{
		dir: 0o700, filepath.Dir(dir): 0o700, path: 0o600, path + "-wal": 0o600, path + "-shm": 0o600, f.s.lockPath(f.claim.SourceID): 0o600,
	} {
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if err := f.s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, gone := range []string{path + "-wal", path + "-shm"} {
		if onDisk(gone) {
			t.Errorf("%s stayed after an orderly end", gone)
		}
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	s := open(t, path)
	defer s.Close()
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("a database that all could read: %v, %v", info.Mode(), err)
	}
}

func TestOddPaths(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a?b", "a b", "a%20b", "a#b", "a&_pragma=x", "ä", "a?mode=memory"} {
		dir := t.TempDir()
		path := filepath.Join(dir, name)
		s := open(t, path)
		if _, err := s.EnsureSource(t.Context(), "s", "u"); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if got := folder(t, dir); len(got) != 1 || got[name] == "" {
			t.Errorf("%q: the folder holds %v", name, got)
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name string, b []byte) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	database := func(name string, script string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if _, err := db.Exec(script); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ours := filepath.Join(dir, "ours")
	f := newFilled(t, ours)
	for range 3 {
		f.commitNew(t)
	}
	if err := f.s.Close(); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(ours)
	if err != nil {
		t.Fatal(err)
	}
	broken := append([]byte{}, good...)
	for i := 100; i < 4096; i++ {
		broken[i] = 0xa5 // the schema's page
	}
	for _, c := range []struct {
		path string
		want error
	}{
		{file("text", []byte(strings.Repeat("this is not a database\n", 100))), store.ErrForeign},
		{database("foreign", "CREATE TABLE t (x); INSERT INTO t VALUES (1)"), store.ErrForeign},
		{database("stamped", "PRAGMA application_id = 12345"), store.ErrForeign},
		{database("newer", fmt.Sprintf("CREATE TABLE t (x); PRAGMA application_id = %d; PRAGMA user_version = 99", applicationID)), store.ErrSchema},
		{file("broken", broken), store.ErrCorrupt},
		{dir, store.ErrForeign},
	} {
		before, _ := os.ReadFile(c.path)
		for _, o := range []Options{{}, {ReadOnly: true}} {
			s, err := Open(t.Context(), c.path, o)
			if err == nil {
				s.Close()
			}
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.path) {
				t.Errorf("%s, %+v: %v", c.path, o, err)
			}
		}
		if after, _ := os.ReadFile(c.path); string(before) != string(after) {
			t.Errorf("%s was changed", c.path)
		}
	}
	for _, path := range []string{filepath.Join(dir, "none"), file("empty", nil)} {
		if _, err := Open(t.Context(), path, Options{ReadOnly: true}); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s for reading: %v", path, err)
		}
	}
	if onDisk(filepath.Join(dir, "none")) {
		t.Error("opening for reading made a file")
	}
	s := open(t, filepath.Join(dir, "empty")) // a maker killed before its first commit
	s.Close()
	if runtime.GOOS != "windows" {
		if _, err := Open(t.Context(), filepath.Join(file("plain", nil), "state.db"), Options{}); err == nil {
			t.Error("a file as the folder")
		}
	}
}

// TestDamage: damage behind the first pages is found where it is met, and by Check.
func TestDamage(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.db")
	f := newFilled(t, path)
	for range 3 {
		f.commitNew(t)
	}
	if err := f.s.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 80 * 4096; i < len(b); i += 4096 {
		copy(b[i:], strings.Repeat("\xa5", 64))
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, path)
	defer s.Close()
	if err := s.Check(t.Context()); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("check: %v", err)
	}
	_, err = s.Scan(t.Context(), store.ScanQuery{SourceID: f.claim.SourceID, Limit: 10_000})
	if !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), path) {
		t.Errorf("scan: %v", err)
	}
}

func TestReadOnly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "state.db")
	f := newFilled(t, path)
	f.commitNew(t)

	// Beside a writer: its commits are seen, those that come later too.
	r, err := Open(t.Context(), path, Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	f.commitNew(t)
	if _, err := r.Resource(t.Context(), f.claim.SourceID, benchURI(f.n-1)); err != nil {
		t.Errorf("the writer's last commit: %v", err)
	}
	for name, err := range map[string]error{
		"source": func() error { _, err := r.EnsureSource(t.Context(), "n", "u"); return err }(),
		"pause":  r.SetPaused(t.Context(), f.claim.SourceID, true),
		"claim":  func() error { _, _, err := r.Claim(t.Context(), f.claim.SourceID, "x"); return err }(),
		"commit": r.Commit(t.Context(), &store.Commit{Claim: f.claim}),
		"forget": r.ForgetSource(t.Context(), f.claim),
		"tidy":   func() error { _, err := r.Tidy(t.Context()); return err }(),
		"set":    func() error { _, err := r.EnsureSet(t.Context(), f.claim, "l"); return err }(),
	} {
		if !errors.Is(err, store.ErrReadOnly) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.s.Close(); err != nil {
		t.Fatal(err)
	}

	// Alone: without a trace.
	before := folder(t, dir)
	r, err = Open(t.Context(), path, Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Resource(t.Context(), f.claim.SourceID, benchURI(f.n-1)); err != nil {
		t.Error(err)
	}
	during := folder(t, dir)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if after := folder(t, dir); !maps.Equal(before, during) || !maps.Equal(before, after) {
		t.Errorf("reading left a trace: %v, %v, %v", before, during, after)
	}
}

func TestSnapshot(t *testing.T) {
	t.Parallel()
	dir, there := t.TempDir(), t.TempDir()
	path := filepath.Join(dir, "state.db")
	f := newFilled(t, path)
	f.commitNew(t)
	count := func(path string) int {
		t.Helper()
		s := open(t, path) // a copy is there to be worked on
		defer s.Close()
		rs, err := s.Scan(t.Context(), store.ScanQuery{SourceID: f.claim.SourceID, Limit: 100_000})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, free, err := s.Claim(t.Context(), f.claim.SourceID, "dry run"); err != nil {
			t.Fatal(err)
		} else if err := free(); err != nil {
			t.Fatal(err)
		}
		return len(rs)
	}

	// Beside a writer that goes on committing.
	stop, stopped := make(chan struct{}), make(chan error)
	go func() {
		for {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
				f.commitNew(t)
			}
		}
	}()
	for i := range 3 {
		to := filepath.Join(there, fmt.Sprint("live", i))
		if err := Snapshot(t.Context(), path, to); err != nil {
			t.Fatal(err)
		}
		if n := count(to); n < batch || n%batch != 0 {
			t.Errorf("a live copy of %d rows", n)
		}
		if info, err := os.Stat(to); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
	}
	close(stop)
	<-stopped
	if err := f.s.Close(); err != nil {
		t.Fatal(err)
	}

	// Of an idle one: without a trace.
	before := folder(t, dir)
	if err := Snapshot(t.Context(), path, filepath.Join(there, "idle")); err != nil {
		t.Fatal(err)
	}
	if after := folder(t, dir); !maps.Equal(before, after) {
		t.Errorf("the copy left a trace: %v, %v", before, after)
	}
	if n := count(filepath.Join(there, "idle")); n != f.n {
		t.Errorf("%d rows of %d", n, f.n)
	}
	if err := Snapshot(t.Context(), path, filepath.Join(there, "idle")); !errors.Is(err, os.ErrExist) {
		t.Errorf("over an existing file: %v", err)
	}
	if err := Snapshot(t.Context(), filepath.Join(dir, "none"), filepath.Join(there, "x")); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("of nothing: %v", err)
	}
	if onDisk(filepath.Join(there, "x")) {
		t.Error("a copy of nothing")
	}
}
