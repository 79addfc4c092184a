package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"resyncd/store"
	"resyncd/store/sqlite/dbfile"
)

// countSyncs counts the syncs of the log from now on.
func (f *filled) countSyncs() *int {
	n := 0
	f.sync = func(log *os.File) error {
		n++
		return log.Sync()
	}
	return &n
}

func (f *filled) deliver(t *testing.T, n int) error {
	t.Helper()
	return f.s.Deliver(t.Context(), []*store.Delivery{benchDelivery(f.claim.SourceID, f.set.ID, 0, n)}, nil)
}

// TestNumbersWaitForNoDisk: that a document or a set is new is synced with the next commit that must be durable.
func TestNumbersWaitForNoDisk(t *testing.T) {
	t.Parallel()
	f := newFilled(t, filepath.Join(t.TempDir(), "state.db"))
	f.commitNew(t)
	syncs := f.countSyncs()
	set, err := f.s.EnsureSet(t.Context(), f.claim, "https://a.example/another")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := f.s.EnsureDocument(t.Context(), f.claim, set.ID, "https://a.example/list", "resourcelist")
	if err != nil || *syncs != 0 {
		t.Fatalf("%d syncs, %v", *syncs, err)
	}
	d := store.Document{ID: doc, SourceID: f.claim.SourceID, SetID: set.ID, URL: "https://a.example/list", ETag: `"e"`}
	if err := f.s.Commit(t.Context(), &store.Commit{Claim: f.claim, Documents: []store.Document{d}}); err != nil || *syncs != 1 {
		t.Errorf("a commit that needs them: %d syncs, %v", *syncs, err)
	}
	if _, err := f.s.EnsureSet(t.Context(), store.Claim{SourceID: f.claim.SourceID, Epoch: f.claim.Epoch + 1}, "x"); !errors.Is(err, store.ErrFenced) {
		t.Errorf("a set without a claim: %v", err)
	}
}

// TestReadableBeforeDurable: deliveries are told of and read while their sync runs, and Deliver returns after it (P4).
func TestReadableBeforeDurable(t *testing.T) {
	t.Parallel()
	f := newFilled(t, filepath.Join(t.TempDir(), "state.db"))
	f.commitNew(t)
	var told, synced atomic.Bool
	f.sync = func(log *os.File) error {
		ds, err := f.s.Deliveries(context.Background(), store.InboxQuery{SourceID: f.claim.SourceID, Limit: 10})
		if err != nil || len(ds) != 1 || !told.Load() {
			t.Errorf("when the sync begins: told %v, %d deliveries, %v", told.Load(), len(ds), err)
		}
		synced.Store(true)
		return log.Sync()
	}
	d := benchDelivery(f.claim.SourceID, f.set.ID, 0, 1)
	err := f.s.Deliver(t.Context(), []*store.Delivery{d}, func() {
		if told.Store(true); d.ID == 0 || synced.Load() {
			t.Errorf("told of delivery %d, synced %v", d.ID, synced.Load())
		}
	})
	if err != nil || !synced.Load() {
		t.Errorf("Deliver returned %v, synced %v", err, synced.Load())
	}
}

// TestDurable: the mirror waits for deliveries that were told of, and for what was made of them without waiting for the disk, of
// which nothing is left to write then for one that does wait.
func TestDurable(t *testing.T) {
	t.Parallel()
	f := newFilled(t, filepath.Join(t.TempDir(), "state.db"))
	f.commitNew(t)
	inside, leave := make(chan struct{}), make(chan struct{})
	var syncs atomic.Int64
	f.sync = func(log *os.File) error {
		if syncs.Add(1) == 1 {
			close(inside)
			<-leave
		}
		return log.Sync()
	}
	paused := func(async bool) error {
		return f.s.db.Write(context.Background(), "test", func(tx *dbfile.Session) {
			if async {
				tx.Repeatable()
			}
			tx.Exec("UPDATE source SET paused = 1 WHERE id = ?", f.claim.SourceID)
		})
	}
	if err := f.s.Durable(t.Context()); err != nil || syncs.Load() != 0 {
		t.Fatalf("nobody waits: %v, %d syncs", err, syncs.Load())
	}
	told, waited := make(chan struct{}), make(chan error, 1)
	var done sync.WaitGroup
	done.Go(func() {
		d := benchDelivery(f.claim.SourceID, f.set.ID, 0, 1)
		if err := f.s.Deliver(context.Background(), []*store.Delivery{d}, func() { close(told) }); err != nil {
			t.Error(err)
		}
	})
	<-told
	done.Go(func() { waited <- f.s.Durable(context.Background()) })
	<-inside
	select {
	case err := <-waited:
		t.Errorf("the mirror went ahead of the delivery: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	close(leave)
	done.Wait()
	if err := <-waited; err != nil || syncs.Load() != 1 {
		t.Errorf("%v, %d syncs", err, syncs.Load())
	}
	if err := paused(true); err != nil || syncs.Load() != 1 {
		t.Errorf("one that waits for no disk: %v, %d syncs", err, syncs.Load())
	}
	if err := f.s.Durable(t.Context()); err != nil || syncs.Load() != 2 {
		t.Errorf("the mirror went ahead of it: %v, %d syncs", err, syncs.Load())
	}
	if err := paused(true); err != nil || syncs.Load() != 2 {
		t.Errorf("another that waits for no disk: %v, %d syncs", err, syncs.Load())
	}
	if err := paused(false); err != nil || syncs.Load() != 2 {
		t.Errorf("the same again, to be durable: %v, %d syncs", err, syncs.Load())
	}
	if err := paused(false); err != nil || syncs.Load() != 2 {
		t.Errorf("the same once more: %v, %d syncs", err, syncs.Load())
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
	loseWriter(t, f.s)
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

// TestRequestGivesUp: a request is not worth waiting for a process that holds the database and does not move, other than
// what is true on disk already.
func TestRequestGivesUp(t *testing.T) {
	t.Parallel()
	f := newFilled(t, filepath.Join(t.TempDir(), "state.db"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	release := hold(t, f.s)
	if err := f.s.AddRequest(ctx, &store.Request{Command: "sync"}); !errors.Is(err, context.Canceled) {
		t.Errorf("it went on waiting: %v", err)
	}
	release()
	if err := f.s.Commit(ctx, &store.Commit{Claim: f.claim, Events: []store.Event{{URI: "u", What: "fetched"}}}); err != nil {
		t.Errorf("what must be recorded was not: %v", err)
	}
}

// loseWriter has the writing connection closed, as a bug does.
func loseWriter(t *testing.T, s *Store) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	_ = s.db.Write(t.Context(), "bug", func(*dbfile.Session) { panic("a bug") })
}

// hold keeps the writer until release is called.
func hold(t *testing.T, s *Store) (release func()) {
	t.Helper()
	inside, leave, left := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		left <- s.db.Write(context.Background(), "hold", func(*dbfile.Session) {
			close(inside)
			<-leave
		})
	}()
	<-inside
	return func() {
		close(leave)
		if err := <-left; err != nil {
			t.Error(err)
		}
	}
}
