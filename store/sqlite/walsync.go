package sqlite

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"resyncd/store"
)

// walSync makes commits durable by syncing the log itself, where SQLite's own synchronous=FULL does it within COMMIT. Three
// things are won by that:
//   - The turn to write is free meanwhile. A notification waited for the sync of what was recorded of the one before, and
//     that for the sync of the next one's, so a stream of them went at a rate of a few syncs each.
//   - All who wait when a sync begins share it.
//   - It is an fdatasync, as SQLite's would be but for how its Go port was built. Once the log was folded in for the first
//     time it is overwritten and grows no more, and then that needs no commit of the file system's journal: half of the time
//     of an fsync on a journalled ext4, and it does not wait for the journal's other commits, those of the mirror's files.
//
// What it promises is the same. The log is one file and recovery reads it up to the first frame that is not whole, so one
// sync of it makes every commit durable that was written before. SQLite (in synchronous=NORMAL) still syncs the log before
// it folds it in and the database before it begins the log anew, so what is no longer in the log is durable too, and it syncs
// the folder when it makes the log.
//
// What is committed and not yet durable can be read already. Whoever acts on that leaves a commit behind, which is not durable
// before what it builds on; who changes the mirror waits for all (Durable).
type walSync struct {
	path string
	sync func(*os.File) error // the system's, but for tests of failing disks

	commits atomic.Int64 // so many were written to the log by us
	wanted  atomic.Int64 // the newest that somebody waits for until it is durable
	failed  atomic.Pointer[error]

	left atomic.Bool // the connection that writes was closed since the log was opened, so that SQLite may have removed it

	mu   sync.Mutex  // held while the log is synced
	file *os.File    // ours, kept open so that it hears of every write that the kernel lost (F10)
	is   os.FileInfo // which file that is
	done int64       // so many of the commits are durable
}

// committed notes a commit and returns its number. The caller has the turn to write.
func (y *walSync) committed(lax bool) int64 {
	n := y.commits.Add(1)
	if !lax {
		y.wanted.Store(n)
	}
	return n
}

// unchanged is the mark of a transaction that wrote nothing. What it found as it should be may be of a commit that waits for no
// disk, and then does.
func (y *walSync) unchanged(lax bool) int64 {
	n := y.now()
	if !lax {
		y.wanted.Store(n)
	}
	return n
}

// now is the newest commit.
func (y *walSync) now() int64 { return y.commits.Load() }

// failure is why no further commit can be trusted, nil if none failed. The kernel reports a lost write once and then calls the
// data clean, so a failed sync is never tried again (F10).
func (y *walSync) failure() error {
	if err := y.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// reach returns when a commit and all before it are durable.
func (y *walSync) reach(commit int64) error {
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
	there, err := y.there()
	if there {
		err = y.sync(y.file)
	}
	if err != nil {
		return y.fail(err)
	}
	y.done = covered
	return nil
}

// fail ends all trust.
func (y *walSync) fail(err error) error {
	err = fmt.Errorf("%w: sync its log: %w", store.ErrUnsure, err)
	y.failed.Store(&err)
	return err
}

// close gives the log up. Whoever has committed and waits finds it durable: there may be no log any more when he comes to sync
// it. The caller has the turn to write.
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
