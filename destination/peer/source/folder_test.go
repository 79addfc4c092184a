package source

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"resyncd/destination/rsdoc"
)

func write(t *testing.T, parts ...string) {
	t.Helper()
	path, body := filepath.Join(parts[:len(parts)-1]...), parts[len(parts)-1]
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(body), 0o644); err != nil {
		t.Fatal(err)
	}
}

func newFolder(t *testing.T, dir string, o Options) *Source {
	t.Helper()
	o.Dir = dir
	s := newSource(t, o)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func scan(t *testing.T, s *Source) {
	t.Helper()
	if err := s.Scan(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// changes are the entries of all Change Lists, without their times: "created a".
func changes(t *testing.T, s *Source) (out []string) {
	t.Helper()
	_, lists := changeLists(t, s)
	for _, list := range lists {
		for _, e := range list {
			out = append(out, e.Change.String()+strings.TrimPrefix(e.Loc, testBase))
		}
	}
	return out
}

func TestFolderIsWatched(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "kept", "k")
	write(t, dir, "sub/modified", "old")
	write(t, dir, "sub/touched", "t")
	write(t, dir, "deleted", "d")
	write(t, dir, "becomes-folder", "f")
	s := newFolder(t, dir, Options{})
	if got := changes(t, s); len(got) > 0 {
		t.Fatalf("changes before any: %v", got)
	}
	scan(t, s)
	if got := changes(t, s); len(got) > 0 {
		t.Fatalf("a look at what has not changed: %v", got)
	}

	write(t, dir, "sub/modified", "new")
	touched := time.Date(2001, 2, 3, 4, 5, 6, 7, time.UTC)
	if err := os.Chtimes(filepath.Join(dir, "sub/touched"), touched, touched); err != nil {
		t.Fatal(err)
	}
	// The same bytes under the same name, times and all: no change, though the inode is another.
	info, err := os.Stat(filepath.Join(dir, "kept"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, "copy", "k")
	if err := os.Chtimes(filepath.Join(dir, "copy"), info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		os.Rename(filepath.Join(dir, "copy"), filepath.Join(dir, "kept")),
		os.Remove(filepath.Join(dir, "deleted")), os.Remove(filepath.Join(dir, "becomes-folder")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	write(t, dir, "becomes-folder/inside", "i")
	write(t, dir, "created", "c")
	scan(t, s)
	want := []string{
		"deleted/becomes-folder", "deleted/deleted", "created/becomes-folder/inside", "created/created",
		"updated/sub/modified", "updated/sub/touched",
	}
	got := changes(t, s)
	slicesSortHead(got, 2)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	_, lists := changeLists(t, s)
	if last := lists[0][5]; last.LastMod != rsdoc.MicrosOf(touched.Truncate(time.Second)) || last.Length != 1 {
		t.Errorf("touched: %+v", last)
	}
	for name, status := range map[string]int{"deleted": 410, "becomes-folder": 410, "never": 404, "created": 200} {
		if resp := ask(s, "GET", s.URI(name)); resp.StatusCode != status {
			t.Errorf("%s: %s, want %d", name, resp.Status, status)
		}
	}
	_, set := listed(t, s)
	if diff := cmp.Diff(truth(t, dir), set); diff != "" {
		t.Errorf("the Resource List is not the folder (-want +got):\n%s", diff)
	}
}

// slicesSortHead sorts the first n, whose order is not promised.
func slicesSortHead(s []string, n int) {
	if len(s) >= n && s[0] > s[n-1] {
		s[0], s[n-1] = s[n-1], s[0]
	}
}

// truth hashes a folder without the Source's help.
func truth(t *testing.T, dir string) map[string][32]byte {
	t.Helper()
	set := map[string][32]byte{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		set[testBase+"/"+escapeName(name)] = sumOf(string(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// TestUnnoticedWrite changes a file and sets its time back: the size and the time of modification are as before. Then it
// changes it within one tick of the file system's clock: everything looks as before, but the file was young.
func TestUnnoticedWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	write(t, path, "old")
	s := newFolder(t, dir, Options{})
	before := s.catalog.all[0].content.(*file).sig
	overwrite := func(body string) signature {
		write(t, path, body)
		modified := time.Unix(0, before.modified)
		if err := os.Chtimes(path, modified, modified); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return signatureOf(info)
	}
	if after := overwrite("new"); runtime.GOOS == "linux" && after.same(before) {
		t.Errorf("a file that was written looks as before: %+v", after)
	}
	scan(t, s)
	if diff := cmp.Diff(truth(t, dir), maps.Collect(s.Resources())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	tick := overwrite("odd")
	tick.young = true
	s.catalog.all[0].content.(*file).sig = tick
	scan(t, s)
	if diff := cmp.Diff(truth(t, dir), maps.Collect(s.Resources())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOnlyRegularFiles(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	write(t, outside, "secret", "s")
	write(t, dir, "file", "f")
	write(t, dir, documents, "resourcelist.xml", "a trap")
	write(t, dir, wellKnown, "a trap")
	for _, err := range []error{
		os.Symlink(filepath.Join(outside, "secret"), filepath.Join(dir, "link")),
		os.Symlink(outside, filepath.Join(dir, "linked-folder")),
		os.Symlink("file", filepath.Join(dir, "inner-link")),
		syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	s := newFolder(t, dir, Options{})
	if want := (leftOut{symlinks: 3, special: 1, reserved: 2}); s.backend.(*folder).skipped != want || s.Len() != 1 {
		t.Errorf("%d resources, skipped %+v, want %+v", s.Len(), s.backend.(*folder).skipped, want)
	}
	for _, name := range []string{"link", "linked-folder/secret", "inner-link", "pipe"} {
		if resp := ask(s, "GET", s.URI(name)); resp.StatusCode != 404 {
			t.Errorf("%s: %s", name, resp.Status)
		}
	}
	// What is published may be replaced at any time, also between two looks.
	for _, replace := range []func(path string) error{
		func(path string) error { return os.Symlink(filepath.Join(outside, "secret"), path) },
		func(path string) error { return os.Symlink("inner-link", path) },
		func(path string) error { return syscall.Mkfifo(path, 0o600) },
		func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		path := filepath.Join(dir, "file")
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := replace(path); err != nil {
			t.Fatal(err)
		}
		if resp := ask(s, "GET", s.URI("file")); resp.StatusCode != 404 {
			t.Errorf("replaced: %s", resp.Status)
		}
	}
}

// TestNotYetPublished serves bytes that are newer than the lists: without the old ETag, and never half of each.
func TestNotYetPublished(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a", "old")
	s := newFolder(t, dir, Options{})
	tag := ask(s, "GET", s.URI("a")).Header.Get("ETag")
	if want := fmt.Sprintf("%q", fmt.Sprintf("%x", sumOf("old"))); tag != want {
		t.Errorf("ETag %s, want %s", tag, want)
	}
	write(t, dir, "a", "newer")
	resp := ask(s, "GET", s.URI("a"), "If-None-Match", tag)
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode != 200 || string(body) != "newer" || resp.Header.Get("ETag") != "" {
		t.Errorf("before the look: %s %q, ETag %s", resp.Status, body, resp.Header.Get("ETag"))
	}
	write(t, dir, "new", "n")
	if resp := ask(s, "GET", s.URI("new")); resp.StatusCode != 404 {
		t.Errorf("a file that is not listed: %s", resp.Status)
	}
	if err := os.Remove(filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
	if resp := ask(s, "GET", s.URI("a")); resp.StatusCode != 404 {
		t.Errorf("gone and not yet listed: %s", resp.Status)
	}
}

// TestFolderGone keeps everything published while the folder is not there (F12), and follows its name to another one.
func TestFolderGone(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	dir, old := filepath.Join(parent, "root"), filepath.Join(parent, "old")
	write(t, dir, "a", "1")
	write(t, dir, "b", "1")
	s := newFolder(t, dir, Options{})
	if err := os.Rename(dir, old); err != nil {
		t.Fatal(err)
	}
	if err := s.Scan(context.Background()); err == nil {
		t.Error("no error from a folder that is not there")
	}
	if s.Len() != 2 || len(changes(t, s)) > 0 {
		t.Errorf("%d resources, changes %v", s.Len(), changes(t, s))
	}
	write(t, dir, "a", "2")
	scan(t, s)
	if diff := cmp.Diff([]string{"deleted/b", "updated/a"}, changes(t, s)); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	if got := string(get(t, s, s.URI("a"))); got != "2" {
		t.Errorf("a is %q", got)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := New(ctx, Options{Base: testBase, Dir: dir}); err == nil {
		t.Error("New went on after its context had ended")
	}
	if _, err := New(context.Background(), Options{Base: testBase, Dir: dir + "/none"}); err == nil {
		t.Error("no error for a folder that is not there")
	}
}

// TestUnreadableProvesNothing keeps what lies below a folder that cannot be opened.
func TestUnreadableProvesNothing(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		// Permissions do not stop root, so the walk is told instead.
		w := &walk{blocked: []string{"a/b/"}}
		for name, want := range map[string]bool{"a/b/c": true, "a/b/c/d": true, "a/b": false, "a/bc": false} {
			if w.under(name) != want {
				t.Errorf("under(%q) is not %v", name, want)
			}
		}
		return
	}
	dir := t.TempDir()
	write(t, dir, "closed/a", "1")
	s := newFolder(t, dir, Options{})
	if err := os.Chmod(filepath.Join(dir, "closed"), 0); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(filepath.Join(dir, "closed"), 0o700)
	scan(t, s)
	if s.Len() != 1 || s.backend.(*folder).skipped.unreadable != 1 {
		t.Errorf("%d resources, skipped %+v", s.Len(), s.backend.(*folder).skipped)
	}
}

// TestRunWatches lets the clock of the test bring the next look.
func TestRunWatches(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := newSource(t, Options{Dir: dir, ScanEvery: time.Second, ChangeListEvery: time.Minute})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		write(t, dir, "a", "1")
		<-time.After(3 * time.Second)
		synctest.Wait()
		if diff := cmp.Diff([]string{"created/a"}, changes(t, s)); diff != "" {
			t.Errorf("changes (-want +got):\n%s", diff)
		}
		<-time.After(3 * time.Minute)
		synctest.Wait()
		// One list was closed by its age; the empty one after it stays open.
		heads, _ := changeLists(t, s)
		if len(heads) != 2 || !heads[0].Until.Known() {
			t.Errorf("%d lists after three minutes", len(heads))
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
