package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"resyncd/store"
)

func (f *filled) deliver(t *testing.T, n int) error {
	t.Helper()
	return f.s.Deliver(t.Context(), []*store.Delivery{benchDelivery(f.claim.SourceID, f.set.ID, 0, n)}, nil)
}

// TestLogTaken: where the log is not at its path any more, SQLite goes on writing to it, but after a power cut nobody would look
// there: no delivery is acknowledged, and nothing else is synced in its place (P4).
func TestLogTaken(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("there nobody moves what is open")
	}
	mkdir := func(dir string) error { return os.Mkdir(dir, 0o700) }
	for name, take := range map[string]func(dir string) error{
		"moved": func(dir string) error { return os.Rename(dir, dir+".old") },
		"restored": func(dir string) error {
			old := dir + ".old"
			return errors.Join(os.Rename(dir, old), mkdir(dir), os.CopyFS(dir, os.DirFS(old)))
		},
		"mounted over": func(dir string) error { return errors.Join(os.Rename(dir, dir+".old"), mkdir(dir)) },
		"removed":      func(dir string) error { return os.Remove(filepath.Join(dir, "state.db-wal")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			f := newFilled(t, filepath.Join(dir, "state.db"))
			f.commitNew(t)
			if err := f.deliver(t, 1); err != nil {
				t.Fatal(err)
			}
			syncs := f.countSyncs()
			if err := take(dir); err != nil {
				t.Fatal(err)
			}
			for n := 2; n < 4; n++ { // not the next one either
				if err := f.deliver(t, n); !errors.Is(err, store.ErrUnsure) || !strings.Contains(err.Error(), f.s.path+"-wal") || *syncs != 0 {
					t.Fatalf("delivery %d: %v, after %d syncs", n, err, *syncs)
				}
			}
		})
	}
}

// pending commits something that is not durable yet.
func (f *filled) pending(t *testing.T) (mark int64) {
	t.Helper()
	mark, err := f.s.commit(t.Context(), "test", false, func(ctx context.Context, w *writer) error {
		_, err := w.exec(ctx, "UPDATE source SET paused = 1 - paused WHERE id = ?", f.claim.SourceID)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return mark
}

// TestLogTakenMeanwhile: that the connection was closed does not explain why a log is gone that is still somewhere.
func TestLogTakenMeanwhile(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("nothing tells whether it is")
	}
	dir := filepath.Join(t.TempDir(), "data")
	f := newFilled(t, filepath.Join(dir, "state.db"))
	f.commitNew(t)
	if _, err := f.s.Sources(t.Context()); err != nil { // a reader, which keeps the log
		t.Fatal(err)
	}
	mark := f.pending(t)
	f.s.w.drop()
	if err := os.Rename(dir, dir+".old"); err != nil {
		t.Fatal(err)
	}
	if err := f.s.durable("test", mark); !errors.Is(err, store.ErrUnsure) {
		t.Errorf("a commit whose log was moved: %v", err)
	}
}

// TestLogDoesNotOpen: what cannot be synced is not written, so that a log that does not open leaves nothing in doubt (F11).
func TestLogDoesNotOpen(t *testing.T) {
	t.Parallel()
	f := newFilled(t, filepath.Join(t.TempDir(), "state.db"))
	f.commitNew(t)
	f.s.r.db.SetMaxIdleConns(0) // closes those of the readers
	f.s.w.drop()                // the last one: the next log is a new one
	y := &f.s.w.wal
	right, before := y.path, y.newest()
	y.path += "-missing"
	if err := f.deliver(t, 1); err == nil || errors.Is(err, store.ErrUnsure) || y.newest() != before {
		t.Fatalf("without its log: %v", err)
	}
	y.path = right
	if err := f.deliver(t, 2); err != nil {
		t.Fatal(err)
	}
	ds, err := f.s.Deliveries(t.Context(), store.InboxQuery{SourceID: f.claim.SourceID, Limit: 10})
	if err != nil || len(ds) != 1 {
		t.Errorf("%d deliveries, want that of the second try: %v", len(ds), err)
	}
}

// TestClosedIsNotDurable: nobody is told that something is durable which nobody synced before the end.
func TestClosedIsNotDurable(t *testing.T) {
	t.Parallel()
	f := newFilled(t, filepath.Join(t.TempDir(), "state.db"))
	f.commitNew(t)
	if err := f.s.writeAsync(t.Context(), "test", func(ctx context.Context, w *writer) error {
		_, err := w.exec(ctx, "UPDATE source SET paused = 1 WHERE id = ?", f.claim.SourceID)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := f.s.w.wal.close(); err != nil {
		t.Fatal(err)
	}
	if err := f.s.Durable(t.Context()); !errors.Is(err, errClosed) {
		t.Errorf("after the end: %v", err)
	}
}
