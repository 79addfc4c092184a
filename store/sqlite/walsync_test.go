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
)

// TestSyncShared: while a sync runs others may write, and all who wait for one get it from the next.
func TestSyncShared(t *testing.T) {
	t.Parallel()
	f := newFilled(t, filepath.Join(t.TempDir(), "state.db"))
	var syncs atomic.Int64
	inside, leave := make(chan struct{}), make(chan struct{})
	f.s.w.wal.sync = func(log *os.File) error {
		if syncs.Add(1) == 1 {
			close(inside)
			<-leave
		}
		return syncData(log)
	}
	commit := func(c *store.Commit) {
		c.Claim = f.claim
		if err := f.s.Commit(context.Background(), c); err != nil {
			t.Error(err)
		}
	}
	var first, others sync.WaitGroup
	first.Go(func() { commit(&store.Commit{Events: []store.Event{{URI: "first", What: "fetched"}}}) })
	<-inside
	// The turn is free, and what was committed can be read, durable or not.
	commit(&store.Commit{Repeatable: true, Events: []store.Event{{URI: "lax", What: "fetched"}}})
	for _, uri := range []string{"first", "lax"} {
		if events, err := f.s.History(t.Context(), f.claim.SourceID, uri); err != nil || len(events) != 1 {
			t.Errorf("%s: %v, %v", uri, events, err)
		}
	}
	const many = 8
	before := f.s.w.wal.newest()
	for range many {
		others.Go(func() { commit(&store.Commit{Events: []store.Event{{URI: "other", What: "fetched"}}}) })
	}
	for f.s.w.wal.newest() < before+many { // all of them wait for the disk
		if f.s.w.wal.failure() != nil {
			break
		}
		<-time.After(time.Millisecond)
	}
	close(leave)
	first.Wait()
	others.Wait()
	if n := syncs.Load(); n != 2 {
		t.Errorf("%d syncs, want 2", n)
	}
}

// countSyncs counts the syncs of the log from now on.
func (f *filled) countSyncs() *int {
	n := 0
	f.s.w.wal.sync = func(log *os.File) error {
		n++
		return syncData(log)
	}
	return &n
}

// TestNothingToSync: a transaction that changed nothing waits for no disk, one that changed something does.
func TestNothingToSync(t *testing.T) {
	t.Parallel()
	f := newFilled(t, filepath.Join(t.TempDir(), "state.db"))
	f.commitNew(t)
	syncs, id := f.countSyncs(), f.claim.SourceID
	for i, tt := range []struct {
		change    bool
		statement string
		args      []any
	}{
		{false, "UPDATE source SET epoch = epoch + 1 WHERE id = ?", []any{-1}},
		{false, "UPDATE source SET epoch = epoch WHERE id = ?", []any{id}},
		{true, "UPDATE source SET epoch = epoch + 1 WHERE id = ?", []any{id}},
		{true, "UPDATE source SET epoch = epoch + 1 WHERE id = ? RETURNING epoch", []any{id}},
		{false, "SELECT epoch FROM source WHERE id = ?", []any{id}},
		{true, "CREATE TABLE extra (x)", nil},
		{true, "PRAGMA user_version = 99", nil},
	} {
		before := *syncs
		err := f.s.write(t.Context(), "test", func(ctx context.Context, w *writer) error {
			rows, err := w.conn.QueryContext(ctx, tt.statement, tt.args...)
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
			}
			return rows.Err()
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := *syncs > before; got != tt.change {
			t.Errorf("%d: synced %v, want %v", i, got, tt.change)
		}
	}
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
	f.s.w.wal.sync = func(log *os.File) error {
		ds, err := f.s.Deliveries(context.Background(), store.InboxQuery{SourceID: f.claim.SourceID, Limit: 10})
		if err != nil || len(ds) != 1 || !told.Load() {
			t.Errorf("when the sync begins: told %v, %d deliveries, %v", told.Load(), len(ds), err)
		}
		synced.Store(true)
		return syncData(log)
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
	f.s.w.wal.sync = func(log *os.File) error {
		if syncs.Add(1) == 1 {
			close(inside)
			<-leave
		}
		return syncData(log)
	}
	paused := func(async bool) error {
		return f.s.writeAs(context.Background(), "test", async, func(ctx context.Context, w *writer) error {
			_, err := w.exec(ctx, "UPDATE source SET paused = 1 WHERE id = ?", f.claim.SourceID)
			return err
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

// TestSyncFails: whoever waits for a sync that fails is told, nothing is written afterwards, and what was durable before
// stays so (F10).
func TestSyncFails(t *testing.T) {
	t.Parallel()
	f := newFilled(t, filepath.Join(t.TempDir(), "state.db"))
	f.commitNew(t)
	durable := f.s.w.wal.newest()
	lost := errors.New("lost")
	tries := 0
	f.s.w.wal.sync = func(*os.File) error {
		tries++
		return lost
	}
	commit := func(repeatable bool) error {
		return f.s.Commit(t.Context(), &store.Commit{Claim: f.claim, Repeatable: repeatable, Events: []store.Event{{URI: "u", What: "fetched"}}})
	}
	if err := commit(true); err != nil {
		t.Fatalf("a commit that waits for no disk: %v", err)
	}
	for _, repeatable := range []bool{false, false, true} {
		if err := commit(repeatable); !errors.Is(err, store.ErrUnsure) || !errors.Is(err, lost) {
			t.Fatalf("after a sync that failed: %v", err)
		}
	}
	if tries != 1 {
		t.Errorf("a failed sync was tried again: %d times", tries)
	}
	if err := f.s.w.wal.waitFor(durable); err != nil {
		t.Errorf("what was durable before: %v", err)
	}
}

// TestSyncFollowsTheLog: after all connections were closed, which removes the log, the new one is what is synced, and who still
// waits for the old one has what he waits for.
func TestSyncFollowsTheLog(t *testing.T) {
	t.Parallel()
	f := newFilled(t, filepath.Join(t.TempDir(), "state.db"))
	f.commitNew(t)
	was, err := os.Stat(f.s.path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	waits, err := f.s.commit(t.Context(), "test", false, func(ctx context.Context, w *writer) error {
		_, err := w.exec(ctx, "UPDATE source SET paused = 1 WHERE id = ?", f.claim.SourceID)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	f.s.r.db.SetMaxIdleConns(0) // closes those of the readers
	f.s.r.db.SetMaxIdleConns(readers)
	f.s.w.drop() // the last one; those of readers leave the log
	if is, err := os.Stat(f.s.path + "-wal"); err == nil && os.SameFile(was, is) {
		t.Fatal("the log stayed, though nobody had the database open")
	}
	if err := f.s.durable("test", waits); err != nil { // all of it is in the database by now
		t.Error(err)
	}
	f.commitNew(t)
	is, err := os.Stat(f.s.path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	synced, err := f.s.w.wal.file.Stat()
	if err != nil || !os.SameFile(is, synced) {
		t.Fatalf("another file was synced than the log (%v)", err)
	}
}
