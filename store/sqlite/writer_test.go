package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"resyncd/store"
)

// TestMigration: a step that fails, or a kill before the end, leaves the old schema.
func TestMigration(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.db")
	s := open(t, path)
	if _, err := s.EnsureSource(t.Context(), "kept", "u"); err != nil {
		t.Fatal(err)
	}
	scripts, err := migrationScripts()
	if err != nil {
		t.Fatal(err)
	}
	version := func() (n int) {
		t.Helper()
		if err := s.w.conn.QueryRowContext(t.Context(), "PRAGMA user_version").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	good := "CREATE TABLE extra (x); ALTER TABLE source ADD COLUMN more TEXT;"
	err = s.applyMigrations(t.Context(), append(scripts, good, "CREATE TABLE half (x); nonsense;"))
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("step %d", len(scripts)+2)) {
		t.Fatalf("a broken step: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, path)
	if _, err := s.EnsureSource(t.Context(), "other", "u"); err != nil {
		t.Fatal(err)
	}
	if version() != len(scripts) {
		t.Fatalf("schema %d", version())
	}
	if err := s.applyMigrations(t.Context(), append(scripts, good)); err != nil {
		t.Fatal(err)
	}
	if version() != len(scripts)+1 {
		t.Fatalf("schema %d", version())
	}
	if _, err := s.Source(t.Context(), "kept"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// And now we are the older program.
	for _, o := range []Options{{}, {ReadOnly: true}} {
		if _, err := Open(t.Context(), path, o); !errors.Is(err, store.ErrSchema) {
			t.Errorf("an older program: %v", err)
		}
	}
}

// TestFenced: where the lock fails (here somebody removed its file), the epoch decides.
func TestFenced(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.db")
	f := newFilled(t, path)
	f.commitNew(t)
	if err := os.Remove(f.s.lockPath(f.claim.SourceID)); err != nil {
		t.Skipf("an open file cannot be removed here: %v", err)
	}
	other := open(t, path)
	defer other.Close()
	if _, _, err := other.Claim(t.Context(), f.claim.SourceID, "new"); err != nil {
		t.Fatal(err)
	}
	c := store.Commit{Claim: f.claim, Resources: []store.ResourceChange{{URI: "late", Key: "late"}}}
	if err := f.s.Commit(t.Context(), &c); !errors.Is(err, store.ErrFenced) {
		t.Fatalf("commit of the old holder: %v", err)
	}
	if _, err := other.Resource(t.Context(), f.claim.SourceID, "late"); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("it was applied: %v", err)
	}
}

// TestRepeatable: a commit that may be repeated does not wait for the disk, every other one does, on a new connection too.
func TestRepeatable(t *testing.T) {
	t.Parallel()
	f := newFilled(t, filepath.Join(t.TempDir(), "state.db"))
	f.commitNew(t)
	syncs := f.countSyncs()
	commit := func(uri string, repeatable bool, want int) {
		t.Helper()
		c := store.Commit{Claim: f.claim, Resources: []store.ResourceChange{{URI: uri, Key: uri}}, Repeatable: repeatable}
		if err := f.s.Commit(t.Context(), &c); err != nil {
			t.Fatal(err)
		}
		if *syncs != want {
			t.Errorf("%s: the log was synced %d times, want %d", uri, *syncs, want)
		}
	}
	commit("lax", true, 0)
	commit("durable", false, 1)
	commit("lax again", true, 1)
	f.s.w.drop()
	if err := f.s.Deliver(t.Context(), []*store.Delivery{benchDelivery(f.claim.SourceID, f.set.ID, 0, 1)}, nil); err != nil {
		t.Fatal(err)
	}
	commit("last", true, 2)
	for _, uri := range []string{"lax", "durable", "lax again", "last"} {
		if _, err := f.s.Resource(t.Context(), f.claim.SourceID, uri); err != nil {
			t.Errorf("%s: %v", uri, err)
		}
	}
}

// TestFull: a full disk is told apart, nothing of the commit stays, reading goes on, and so does writing once there is
// room (F7).
func TestFull(t *testing.T) {
	t.Parallel()
	f := newFilled(t, filepath.Join(t.TempDir(), "state.db"))
	f.commitNew(t)
	big := &store.Commit{Claim: f.claim, Documents: []store.Document{{URL: "d", Body: make([]byte, 1<<20)}}}
	for range 2 {
		err := f.s.write(t.Context(), "limit", func(ctx context.Context, w *writer) error {
			_, err := w.exec(ctx, "PRAGMA max_page_count = 1") // SQLite takes the present size
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := f.s.Commit(t.Context(), big); !errors.Is(err, store.ErrFull) {
			t.Fatalf("on a full disk: %v", err)
		}
	}
	if _, err := f.s.Document(t.Context(), f.claim.SourceID, "d"); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("it was applied: %v", err)
	}
	if _, err := f.s.Resource(t.Context(), f.claim.SourceID, benchURI(1)); err != nil {
		t.Fatal(err)
	}
	// The limit went with the connection, which is not used again after such a failure.
	if err := f.s.Commit(t.Context(), big); err != nil {
		t.Fatal(err)
	}
}

// TestBusy: a commit waits for another process that is writing.
func TestBusy(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.db")
	f := newFilled(t, path)
	other := open(t, path)
	defer other.Close()
	inside, leave, left := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		left <- other.write(context.Background(), "hold", func(ctx context.Context, w *writer) error {
			close(inside)
			<-leave
			return nil
		})
	}()
	<-inside
	done := make(chan error, 1)
	started := make(chan struct{})
	go func() {
		close(started)
		done <- f.s.Commit(context.Background(), &store.Commit{Claim: f.claim, Sets: []store.SetChange{{ID: f.set.ID, Resources: 1}}})
	}()
	<-started
	select {
	case err := <-done:
		t.Fatalf("it did not wait: %v", err)
	default:
	}
	close(leave)
	for _, c := range []chan error{left, done} {
		if err := <-c; err != nil {
			t.Fatal(err)
		}
	}
}

// TestLogBounded: a log that is too large is folded in and cut after a commit, whatever SQLite itself does.
func TestLogBounded(t *testing.T) {
	t.Parallel()
	f := newFilled(t, filepath.Join(t.TempDir(), "state.db"))
	f.commitNew(t)
	if walSize(f.s.path) == 0 {
		t.Fatal("no log")
	}
	f.s.w.checkpointAbove = 1
	f.commitNew(t)
	if got := walSize(f.s.path); got != 0 {
		t.Fatalf("the log has %d bytes after it was folded in", got)
	}
	if f.s.w.checkpointAbove != walLimit {
		t.Fatalf("the next time is at %d bytes", f.s.w.checkpointAbove)
	}
}

// TestDropped: a writer whose connection is lost goes on with another.
func TestDropped(t *testing.T) {
	t.Parallel()
	f := newFilled(t, filepath.Join(t.TempDir(), "state.db"))
	f.commitNew(t)
	f.s.w.drop()
	f.commitNew(t)
	f.s.w.broken = errors.New("no")
	if err := f.s.Commit(t.Context(), &store.Commit{Claim: f.claim}); err == nil {
		t.Fatal("it wrote after the disk had failed")
	}
}

// TestRequestGivesUp: a request is not worth waiting for a process that holds the database and does not move, other than
// what is true on disk already.
func TestRequestGivesUp(t *testing.T) {
	t.Parallel()
	f := newFilled(t, filepath.Join(t.TempDir(), "state.db"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f.s.w.sem <- struct{}{}
	if err := f.s.AddRequest(ctx, &store.Request{Command: "sync"}); !errors.Is(err, context.Canceled) {
		t.Errorf("it went on waiting: %v", err)
	}
	<-f.s.w.sem
	if err := f.s.Commit(ctx, &store.Commit{Claim: f.claim, Events: []store.Event{{URI: "u", What: "fetched"}}}); err != nil {
		t.Errorf("what must be recorded was not: %v", err)
	}
}
