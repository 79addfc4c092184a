package dbfile

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"resyncd/store"
)

// TestSyncShared: while a sync runs others may write, and all who wait for one get it from the next.
func TestSyncShared(t *testing.T) {
	t.Parallel()
	r := inTemp(t)
	var syncs atomic.Int64
	inside, leave := make(chan struct{}), make(chan struct{})
	r.syncer = func(log *os.File) error {
		if syncs.Add(1) == 1 {
			close(inside)
			<-leave
		}
		return syncData(log)
	}
	put := func() {
		if err := r.put(); err != nil {
			t.Error(err)
		}
	}
	var first, others sync.WaitGroup
	first.Go(put)
	<-inside
	// The writer is free, and what was committed can be read, durable or not.
	if err := r.putAsync(); err != nil || r.items(t) != 3 {
		t.Errorf("%d items, %v", r.items(t), err)
	}
	const many = 8
	before := r.w.wal.newest()
	for range many {
		others.Go(put)
	}
	for r.w.wal.newest() < before+many { // all of them wait for the disk
		if r.w.wal.failure() != nil {
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

// TestNothingToSync: a transaction that changed nothing waits for no disk, one that changed something does.
func TestNothingToSync(t *testing.T) {
	t.Parallel()
	r := inTemp(t)
	syncs := r.countSyncs()
	for i, tt := range []struct {
		change    bool
		statement string
		args      []any
	}{
		{false, "UPDATE item SET name = name || 'x' WHERE id = ?", []any{-1}},
		{false, "UPDATE item SET name = name WHERE id = ?", []any{1}},
		{true, "UPDATE item SET name = name || 'x' WHERE id = ?", []any{1}},
		{true, "UPDATE item SET name = name || 'x' WHERE id = ? RETURNING name", []any{1}},
		{false, "SELECT name FROM item WHERE id = ?", []any{1}},
		{true, "CREATE TABLE extra (x)", nil},
		{true, "PRAGMA user_version = 99", nil},
	} {
		before := *syncs
		err := r.Write(t.Context(), "test", func(tx *Session) {
			for range tx.Rows(tt.statement, tt.args...) {
				continue
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := *syncs > before; got != tt.change {
			t.Errorf("%d: synced %v, want %v", i, got, tt.change)
		}
	}
}

// TestSyncFails: whoever waits for a sync that fails is told, nothing is written afterwards, and what was durable before
// stays so (F10).
func TestSyncFails(t *testing.T) {
	t.Parallel()
	r := inTemp(t)
	durable := r.w.wal.newest()
	lost := errors.New("lost")
	tries := 0
	r.syncer = func(*os.File) error {
		tries++
		return lost
	}
	if err := r.putAsync(); err != nil {
		t.Fatalf("a commit that waits for no disk: %v", err)
	}
	for _, put := range []func() error{r.put, r.put, r.putAsync} {
		if err := put(); !errors.Is(err, store.ErrUnsure) || !errors.Is(err, lost) {
			t.Fatalf("after a sync that failed: %v", err)
		}
	}
	if tries != 1 {
		t.Errorf("a failed sync was tried again: %d times", tries)
	}
	if err := r.w.wal.waitFor(durable); err != nil {
		t.Errorf("what was durable before: %v", err)
	}
}

// TestSyncFollowsTheLog: after all connections were closed, which removes the log, the new one is what is synced, and who
// still waits for the old one has what he waits for.
func TestSyncFollowsTheLog(t *testing.T) {
	t.Parallel()
	r := inTemp(t)
	was, err := os.Stat(r.path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	_, waits, err := r.commit(t.Context(), "test", r.add)
	if err != nil {
		t.Fatal(err)
	}
	r.closeAll()
	if is, err := os.Stat(r.path + "-wal"); err == nil && os.SameFile(was, is) {
		t.Fatal("the log stayed, though nobody had the database open")
	}
	if err := r.durable("test", waits); err != nil { // all of it is in the database by now
		t.Error(err)
	}
	if err := r.put(); err != nil {
		t.Fatal(err)
	}
	is, err := os.Stat(r.path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	synced, err := r.w.wal.file.Stat()
	if err != nil || !os.SameFile(is, synced) {
		t.Fatalf("another file was synced than the log (%v)", err)
	}
}

// TestLogTaken: where the log is not at its path any more, SQLite goes on writing to it, but after a power cut nobody would
// look there: no write is called durable, and nothing else is synced in its place (P4).
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
		"removed":      func(dir string) error { return os.Remove(filepath.Join(dir, "x.db-wal")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			r := newRig(t, filepath.Join(dir, "x.db"))
			syncs := r.countSyncs()
			if err := take(dir); err != nil {
				t.Fatal(err)
			}
			for n := range 2 { // not the next one either
				if err := r.put(); !errors.Is(err, store.ErrUnsure) || !strings.Contains(err.Error(), r.path+"-wal") || *syncs != 0 {
					t.Fatalf("write %d: %v, after %d syncs", n, err, *syncs)
				}
			}
		})
	}
}

// TestLogTakenMeanwhile: that the connection was closed does not explain why a log is gone that is still somewhere.
func TestLogTakenMeanwhile(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("nothing tells whether it is")
	}
	dir := filepath.Join(t.TempDir(), "data")
	r := newRig(t, filepath.Join(dir, "x.db"))
	r.items(t) // a reader, which keeps the log
	_, mark, err := r.commit(t.Context(), "test", r.add)
	if err != nil {
		t.Fatal(err)
	}
	r.w.drop()
	if err := os.Rename(dir, dir+".old"); err != nil {
		t.Fatal(err)
	}
	if err := r.durable("test", mark); !errors.Is(err, store.ErrUnsure) {
		t.Errorf("a commit whose log was moved: %v", err)
	}
}

// TestLogDoesNotOpen: what cannot be synced is not written, so that a log that does not open leaves nothing in doubt (F11).
func TestLogDoesNotOpen(t *testing.T) {
	t.Parallel()
	r := inTemp(t)
	r.r.db.SetMaxIdleConns(0) // closes those of the readers
	r.w.drop()                // the last one: the next log is a new one
	y := &r.w.wal
	right, before := y.path, y.newest()
	y.path += "-missing"
	if err := r.put(); err == nil || errors.Is(err, store.ErrUnsure) || y.newest() != before {
		t.Fatalf("without its log: %v", err)
	}
	y.path = right
	if err := r.put(); err != nil {
		t.Fatal(err)
	}
	if n := r.items(t); n != 2 {
		t.Errorf("%d items, want the first and that of the second try", n)
	}
}

// TestClosedIsNotDurable: nobody is told that something is durable which nobody synced before the end.
func TestClosedIsNotDurable(t *testing.T) {
	t.Parallel()
	r := inTemp(t)
	if err := r.putAsync(); err != nil {
		t.Fatal(err)
	}
	if err := r.w.wal.close(); err != nil {
		t.Fatal(err)
	}
	if err := r.Durable(); !errors.Is(err, errClosed) {
		t.Errorf("after the end: %v", err)
	}
}
