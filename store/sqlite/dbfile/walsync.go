package dbfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"

	"resyncd/store"
)

// walSync makes commits durable by syncing the log itself, where SQLite's own synchronous=FULL does
// it within COMMIT. This has three advantages:
//   - The writer is free meanwhile. Otherwise a stream of notifications waits for the syncs of each
//     other's records.
//   - All who wait when a sync begins share it.
//   - It is an fdatasync, which SQLite's Go port does not use. Once the log was folded in for the
//     first time it is overwritten and grows no more, and then fdatasync needs no commit of the
//     file system's journal and does not wait for others.
//
// The promise is the same. The log is one file and recovery reads it up to the first incomplete
// frame, so one sync of it makes every earlier commit durable. SQLite (in synchronous=NORMAL) still
// syncs the log before it folds it in and the database before it begins the log anew, so what is no
// longer in the log is durable too, and it syncs the folder when it makes the log.
//
// A commit that is not yet durable can be read already. A reader that acts on it by another commit
// is safe, because that becomes durable later; one that changes the mirror waits for all (Durable).
type walSync struct {
	path string
	sync func(*os.File) error // replaced in tests of failing disks

	commits atomic.Int64 // commits written to the log by this process
	wanted  atomic.Int64 // the newest that somebody waits for
	failed  atomic.Pointer[error]

	// writerClosed says that the writing connection was closed since the log was opened, so that
	// SQLite may have removed it.
	writerClosed atomic.Bool

	mu   sync.Mutex  // held while the log is synced
	file *os.File    // kept open so that it receives the error of every write that the kernel lost (F10)
	info os.FileInfo // identifies file
	done int64       // commits that are durable
}

// committed counts a commit and returns its number. The caller holds the writer.
func (y *walSync) committed(async bool) int64 {
	n := y.commits.Add(1)
	if !async {
		y.wanted.Store(n)
	}
	return n
}

// unchanged is the mark of a transaction that wrote nothing. What it read may be of an async commit,
// which has to become durable then.
func (y *walSync) unchanged(async bool) int64 {
	n := y.newest()
	if !async {
		y.wanted.Store(n)
	}
	return n
}

// newest is the newest commit.
func (y *walSync) newest() int64 { return y.commits.Load() }

// failure is why no further commit can be trusted, nil if none failed. The kernel reports a lost
// write once and then calls the data clean, so a failed sync is never tried again (F10).
func (y *walSync) failure() error {
	if err := y.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// waitFor returns when a commit and all before it are durable.
func (y *walSync) waitFor(commit int64) error {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.extend(commit)
}

func (y *walSync) extend(commit int64) error {
	if y.done >= commit {
		return nil
	}
	if err := y.failure(); err != nil {
		return err
	}
	if y.file == nil { // a commit has it open
		return errClosed
	}
	covered := y.commits.Load()
	there, err := y.isCurrent()
	if there {
		err = y.sync(y.file)
	}
	if err != nil {
		return y.fail(err)
	}
	y.done = covered
	return nil
}

// fail makes all later commits fail.
func (y *walSync) fail(err error) error {
	err = fmt.Errorf("%w: sync its log: %w", store.ErrUnsure, err)
	y.failed.Store(&err)
	return err
}

// close closes the log. Those who wait for a commit find it durable, because the log may be gone
// before they can sync it. The caller holds the writer.
func (y *walSync) close() error {
	y.mu.Lock()
	defer y.mu.Unlock()
	var err error
	if y.failure() == nil {
		err = y.extend(y.wanted.Load())
	}
	if y.file != nil {
		err = errors.Join(err, y.file.Close())
		y.file = nil
	}
	return err
}

// open opens the log of a connection, before anything is written: if it fails, for instance for
// want of a descriptor (F11), the commit fails without effect, and the next one tries again. SQLite
// takes no locks on this file, so closing it loses none.
func (y *walSync) open() error {
	y.mu.Lock()
	defer y.mu.Unlock()
	if err := y.failure(); err != nil {
		return err
	}
	if y.file != nil {
		there, err := y.isCurrent()
		if err != nil {
			return y.fail(err)
		}
		if there {
			y.writerClosed.Store(false)
			return nil
		}
		y.done = y.commits.Load()
		_ = y.file.Close()
		y.file = nil
	}
	f, err := os.OpenFile(y.path, os.O_RDWR, 0) // Windows syncs only what is open for writing
	if err != nil {
		return err
	}
	is, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	y.file, y.info = f, is
	y.writerClosed.Store(false)
	return nil
}

// isCurrent reports whether the open log is the one at its path. It is not once the last connection
// was closed: then SQLite folds all of it in, syncs that and removes it. A checkpoint only cuts it.
// Any other loss is an error: SQLite goes on writing to the open file, and nobody would find that
// at the path (P4).
func (y *walSync) isCurrent() (bool, error) {
	at, err := os.Stat(y.path)
	switch {
	case err == nil && os.SameFile(at, y.info):
		return true, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return false, err
	case y.writerClosed.Load() && !linked(y.file):
		return false, nil
	}
	return false, fmt.Errorf("%s is not the file any more that is written to: its folder was moved, restored, "+
		"removed or mounted over while this process ran. What it wrote last is in the old one: put that back, then start again", y.path)
}
