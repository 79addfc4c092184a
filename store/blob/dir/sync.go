package dir

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"resyncd/store/blob"

	"golang.org/x/sync/errgroup"
)

// smallGroup is up to how many files or folders a sync of each is cheaper than one of the whole
// file system (performance.md 7.5).
const smallGroup = 8

// syncWorkers is how many files are synced at a time where each needs its own sync.
const syncWorkers = 16

// syncer makes bytes and names durable. The kernel reports a lost write once, so a failed sync is
// never tried again (F10): it is counted, and Place refuses everything staged before.
type syncer struct {
	durable bool
	whole   bool     // the file system can be synced as one
	fs      *os.File // one descriptor from the start, so that no error falls between two
	mu      sync.Mutex
	// failures counts syncs that failed.
	failures atomic.Uint64

	freshMu sync.Mutex
	fresh   map[string]uint64 // new folders whose names are not on disk yet: the number of their making
	makings uint64

	// Replaced in tests of failing disks.
	syncWhole, syncFile func(*os.File) error
}

func (y *syncer) init(top *folder, d Durability) error {
	h, err := top.handle()
	if err != nil {
		return err
	}
	y.fs = h
	y.durable = d == DurableFile
	y.whole = y.durable && canSyncWhole(h)
	y.fresh = map[string]uint64{}
	y.syncWhole, y.syncFile = syncWhole, (*os.File).Sync
	return nil
}

// all syncs the whole file system. One at a time: of two at once, only one would get an error.
func (y *syncer) all() error {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.failed(y.syncWhole(y.fs))
}

func (y *syncer) file(f *os.File) error { return y.failed(y.syncFile(f)) }

func (y *syncer) folder(f *os.File) error {
	err := y.syncFile(f)
	if unsyncable(err) {
		return nil
	}
	return y.failed(err)
}

func (y *syncer) failed(err error) error {
	if err == nil {
		return nil
	}
	y.failures.Add(1)
	return fmt.Errorf("%w: %w", blob.ErrSync, classify(err))
}

// syncFolder syncs before there is a syncer, while the root is made.
func syncFolder(f *os.File) error {
	if err := f.Sync(); err != nil && !unsyncable(err) {
		return fmt.Errorf("%w: %w", blob.ErrSync, classify(err))
	}
	return nil
}

// unsyncable reports a file system without a sync of folders.
func unsyncable(err error) bool {
	return errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported)
}

// parallel runs a call for every index, some at a time. It returns the first error, after all have ended.
func parallel(n int, do func(i int) error) error {
	if n == 1 {
		return do(0)
	}
	var g errgroup.Group
	g.SetLimit(syncWorkers)
	for i := range n {
		g.Go(func() error { return do(i) })
	}
	return g.Wait()
}
