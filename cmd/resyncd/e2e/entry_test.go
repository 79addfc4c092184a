package e2e_test

import (
	"bytes"
	"context"
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"resyncd/destination/peer/source"
)

// filesOfAnEntry are the most files of the engine that one entry of a Change List may run through.
const filesOfAnEntry = 20

// TestFilesOfAnEntry has an instrumented resyncd catch up twice, first with nothing new and then with one changed
// resource, and counts the files of the engine of which the second run needed more than the first.
func TestFilesOfAnEntry(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := filepath.Join(dir, "resyncd")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-cover",
		"-coverpkg=resyncd/sync/...,resyncd/cmd/resyncd", "-o", program, "resyncd/cmd/resyncd")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	srv := httptest.NewUnstartedServer(nil)
	base := "http://" + srv.Listener.Addr().String()
	bed := newBed(t)
	papers := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(papers, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a.txt", "b.txt", "c.txt"} {
		write(name, "first "+name)
	}
	src := bed.source(source.Options{Base: base, Dir: papers})
	srv.Config.Handler = src.Handler()
	srv.Start()
	t.Cleanup(srv.Close)
	catchUp := func() map[string]bool {
		t.Helper()
		var said bytes.Buffer
		counters := t.TempDir()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		e, err := run(ctx, []string{program, "sync", "--quiet", base, filepath.Join(dir, "mirror")},
			[]string{"GOCOVERDIR=" + counters}, &said, &said)
		if err != nil || e.code != 0 {
			t.Fatalf("exit %d, %v\n%s", e.code, err, &said)
		}
		return executed(t, counters)
	}
	catchUp()
	idle := catchUp()
	write("b.txt", "the second text of b.txt")
	if err := src.Scan(t.Context()); err != nil {
		t.Fatal(err)
	}
	files := map[string]bool{}
	for block := range catchUp() {
		if name, _, _ := strings.Cut(block, ":"); !idle[block] && strings.HasPrefix(name, "resyncd/sync/") {
			files[name] = true
		}
	}
	if n := len(files); n == 0 || n > filesOfAnEntry {
		t.Errorf("an entry runs through %d files of the engine, want 1 to %d:\n%s", n, filesOfAnEntry,
			strings.Join(slices.Sorted(maps.Keys(files)), "\n"))
	}
}

// executed are the blocks of code that a run entered, as `go tool covdata` names them.
func executed(t *testing.T, counters string) map[string]bool {
	t.Helper()
	profile := filepath.Join(counters, "profile")
	out, err := exec.CommandContext(t.Context(), "go", "tool", "covdata", "textfmt", "-i="+counters, "-o="+profile).
		CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(profile)
	if err != nil {
		t.Fatal(err)
	}
	blocks := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 && f[2] != "0" {
			blocks[f[0]] = true
		}
	}
	return blocks
}
