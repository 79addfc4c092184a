package sqlite

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"resyncd/store"
)

// TestKill: a process that is killed at any moment leaves whole commits, all that it told of, and a Source that can be
// claimed at once (F1, P3).
func TestKill(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "state.db")
	for round := range 6 {
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), "RESYNCD_TEST_CHILD="+path)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		told := int64(0)
		for range 1 + 7*round {
			if !lines.Scan() {
				t.Fatal("the child ended")
			}
			if told, err = strconv.ParseInt(lines.Text(), 10, 64); err != nil {
				t.Fatal(err)
			}
		}
		if round == 0 {
			heldByChild(t, path)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() { // what it told before it died counts
			if told, err = strconv.ParseInt(lines.Text(), 10, 64); err != nil {
				t.Fatal(err)
			}
		}
		_ = cmd.Wait()
		survived(t, path, told)
	}
}

func heldByChild(t *testing.T, path string) {
	t.Helper()
	s := open(t, path)
	defer s.Close()
	src, err := s.Source(t.Context(), "crash")
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = s.Claim(t.Context(), src.ID, "us")
	if held, ok := errors.AsType[*store.HeldError](err); !ok || held.Holder != "the child" || held.Source != "crash" {
		t.Fatalf("claim beside a living holder: %v", err)
	}
}

func survived(t *testing.T, path string, told int64) {
	t.Helper()
	ctx := t.Context()
	// First for reading: the log of the dead process must be seen.
	r, err := Open(ctx, path, Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	src, err := r.Source(ctx, "crash")
	if err != nil {
		t.Fatal(err)
	}
	sets, err := r.Sets(ctx, src.ID)
	if err != nil {
		t.Fatal(err)
	}
	n := sets[0].Resources
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if n < told || n%childStep != 0 {
		t.Fatalf("%d resources, told of %d", n, told)
	}
	s := open(t, path)
	defer s.Close()
	if err := s.Check(ctx); err != nil {
		t.Fatal(err)
	}
	_, free, err := s.Claim(ctx, src.ID, "us")
	if err != nil {
		t.Fatal(err)
	}
	defer free()
	rows := int64(0)
	for q := (store.ScanQuery{SourceID: src.ID, SetID: sets[0].ID, Limit: batch}); ; {
		rs, err := s.Scan(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		if len(rs) == 0 {
			break
		}
		rows, q.After = rows+int64(len(rs)), rs[len(rs)-1].ID
	}
	if rows != n {
		t.Fatalf("%d rows, counted %d", rows, n)
	}
	last, err := s.Resource(ctx, src.ID, benchURI(int(n-1)))
	if err != nil || len(last.Wants) != 1 {
		t.Fatalf("last row %+v: %v", last, err)
	}
	if events, err := s.History(ctx, src.ID, last.URI); err != nil || len(events) != 1 {
		t.Fatalf("last event %v: %v", events, err)
	}
	if body, err := s.Content(ctx, last.ID); err != nil || string(body) != last.URI {
		t.Fatalf("its content %q: %v", body, err)
	}
	if edits, err := s.Edits(ctx, src.ID, "record"); err != nil || int64(len(edits)) != n {
		t.Fatalf("%d edits for %d rows: %v", len(edits), n, err)
	}
	if _, err := s.Content(ctx, last.ID+1); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("content of half a commit: %v", err)
	}
	if _, err := s.Resource(ctx, src.ID, benchURI(int(n))); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("half a commit: %v", err)
	}
}
