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

// walSync makes commits durable by one fdatasync of the log for all who wait, while the writer is free. Recovery
// reads the log up to the first incomplete frame, so a sync covers every earlier commit; what left the log SQLite has
// synced. A commit can be read before it is durable. Another commit that follows from it is safe, because it becomes
// durable later; a change of the mirror waits (Durable).
type walSync struct {
	path string
	sync func(*os.File) error

	commits atomic.Int64 // written to the log by this process
	wanted  atomic.Int64 // the newest that somebody waits for
	failed  atomic.Pointer[error]

	// writerClosed since the log was opened: SQLite may have removed it.
	writerClosed atomic.Bool

	mu   sync.Mutex  // held while the log is synced
	file *os.File    // receives the error of every write that the kernel lost (F10)
	info os.FileInfo // of file
	done int64       // commits that are durable
}

// committed is the mark of a transaction. One that wrote nothing may have read an async commit. The
// caller holds the writer.
func (y *walSync) committed(wrote, async bool) int64 {
	n := y.newest()
	if wrote {
		n = y.commits.Add(1)
	}
	if !async {
		y.wanted.Store(n)
	}
	return n
}

func (y *walSync) newest() int64 { return y.commits.Load() }

// failure is why no further commit can be trusted. The kernel reports a lost write once, so no
// failed sync is tried again (F10).
func (y *walSync) failure() error {
	if err := y.failed.Load(); err != nil {
		return *err
	}
	return nil
}

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
	if y.file == nil {
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

func (y *walSync) fail(err error) error {
	err = fmt.Errorf("%w: sync its log: %w", store.ErrUnsure, err)
	y.failed.Store(&err)
	return err
}

// close makes durable what somebody waits for, because the log may go. The caller holds the writer.
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

// open opens the log before anything is written, so that a commit that cannot be synced (F11) has no effect.
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
	f, err := os.OpenFile(y.path, os.O_RDWR, 0) // for Windows
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

// isCurrent: the open log is the one at its path. SQLite removes it when the last connection closes and all is in the
// database. After any other loss SQLite goes on writing to a file that nobody would find (P4).
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
		"removed or mounted over while this process ran. What it wrote last is in the old one: put that back, then "+
		"start again", y.path)
}
