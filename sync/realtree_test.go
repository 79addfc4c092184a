package sync

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"resyncd/destination/peer/source"
)

// TestRealTree mirrors a real folder with odd names in it, changes it as people do, and mirrors it again: the mirror equals
// it by hash each time, and what did not change is not asked for.
func TestRealTree(t *testing.T) {
	t.Parallel()
	tree := filepath.Join(ramDir(t), "tree")
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Skipf("no go command to ask for a real tree: %v", err)
	}
	from := filepath.Join(strings.TrimSpace(string(root)), "src", "net", "http")
	if err := os.CopyFS(tree, os.DirFS(from)); err != nil {
		t.Skipf("no Go source tree to copy: %v", err)
	}
	odd := []string{
		"a name with spaces.txt", "100%.txt", "%41.txt", "A.txt", "a#fragment", "a?query=1&x=2", "a+b", "a;b=c", `back\slash`, "quote\"'<>&",
		"ünïcödé/ñ.txt", "u\u0308.txt", "ü.txt", "bytes\xff\xfe.bin", "new\nline", "tab\tbed", "CON", "nul.txt", "trailing.", "trailing /x", "..dots",
		"...", "-dash", "~tilde", ":colon", "*star", "%index", "%q", strings.Repeat("long", 60), "deep/" + strings.Repeat("d/", 60) + "file",
		"UPPER", "upper", "empty", "index.html", "robots.txt", "resyncd", ".resyncd-not", ".hidden/.x",
	}
	for _, name := range odd {
		write(t, filepath.Join(tree, name), "odd "+name)
	}
	write(t, filepath.Join(tree, "empty"), "")
	for _, err := range []error{
		os.Symlink("empty", filepath.Join(tree, "link")), os.Symlink("/etc", filepath.Join(tree, "linked folder")),
		syscall.Mkfifo(filepath.Join(tree, "pipe"), 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	r := newRigIn(t, ramDir(t), source.Options{Dir: tree, ListSize: 40, ListEvery: -1, ChangeListSize: 30}, nil)
	n := int64(r.src.Len())
	if want := int64(len(regular(t, tree))); n != want {
		t.Errorf("the Source has %d resources, the folder %d files", n, want)
	}
	if res := r.must2(); res.Fetched != n {
		t.Errorf("%+v", res)
	}

	// Touched, rewritten, deleted, renamed, made a folder, grown, and new.
	files := regular(t, tree)
	path := func(name string) string { return filepath.Join(tree, name) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	old := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	must(os.Chtimes(path("server.go"), old, old))
	write(t, path("client.go"), "package other\n")
	must(os.Remove(path("100%.txt")))
	must(os.Rename(path("A.txt"), path("B.txt")))
	must(os.Rename(path("deep"), path("deeper")))
	must(os.Remove(path("a+b")))
	write(t, path("a+b/c"), "now a folder")
	must(os.RemoveAll(path("ünïcödé")))
	write(t, path("ünïcödé"), "now a file")
	write(t, path("%index"), "changed")
	write(t, path("bytes\xff\xfe.bin"), strings.Repeat("\x00", 200_000))
	must(r.src.Scan(t.Context()))
	res := r.must2()
	if res.Kind != "incremental" || res.Fetched > 10 || res.Deleted != 5 {
		t.Errorf("%+v; there were %d files", res, len(files))
	}
	if res := r.must2(); res.Kind != "none" || res.Requests > 4 {
		t.Errorf("nothing new: %+v", res)
	}
	r.opts.Full = true
	if res := r.must2(); res.Fetched != 0 {
		t.Errorf("a full baseline of what is there: %+v", res)
	}
	r.tidy()
}

// must2 is must with the keys of the rows: some names of a real tree clash.
func (r *rig) must2() Result {
	r.t.Helper()
	res, err := r.run()
	if err != nil || !res.InStep {
		r.t.Fatalf("not in step: %+v, %v", res, err)
	}
	r.equalByRows()
	return res
}

// regular are the regular files below a folder.
func regular(t *testing.T, root string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(fmt.Errorf("walk %s: %w", root, err))
	}
	return files
}
