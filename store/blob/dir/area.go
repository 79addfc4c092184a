package dir

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"sync"
	"sync/atomic"

	"resyncd/store/blob"
)

// Many waiting stages are spread over shards: an ext4 searches half a block of a folder for each
// name that comes or goes. Short names are cached inline by the kernel.
const (
	minShards  = 2
	maxShards  = 16
	shardFiles = 64
	nameFill   = "------------------------------------" // up to 36 bytes
)

// lockName is the lock under which process folders are made or swept; in a process folder, that of its living owner.
const lockName = "lock"

// stageArea is where new files wait: `.resyncd/stage/PROCESS/SHARD/NUMBER`. Each process has its
// own folder and holds its lock, so that the next process recognises a dead one's and sweeps it
// (F1). Shards spread the work, because a folder takes one new name at a time (performance.md 2).
// The folder is made with the first stage: a run that changes nothing writes nothing.
//
// Where files cannot be locked, nothing of others is swept (some network file systems), or
// everything is (systems other than Linux, where one writer at a time is the caller's duty).
type stageArea struct {
	stage *folder

	mu     sync.Mutex
	name   string   // of the process folder, once made
	own    *folder  // the process folder, once made
	lock   *os.File // of the process folder, once made
	shards []*shard
	left   []leftover
	next   uint64
}

type shard struct {
	*folder
	waiting atomic.Int32
}

// leftover is a discarded stage that could not be removed.
type leftover struct {
	shard *shard
	name  string
}

// openStageArea opens the area and sweeps the folders of dead processes.
func openStageArea(top *folder) (a *stageArea, err error) {
	reserved, err := top.child(blob.Reserved)
	if err != nil {
		return nil, err
	}
	defer reserved.close()
	trash, err := reserved.childMade(trashName, 0o700)
	if err != nil {
		return nil, err
	}
	trash.close()
	stage, err := reserved.childMade(stageName, 0o700)
	if err != nil {
		return nil, err
	}
	a = &stageArea{stage: stage}
	lock, safe, err := a.lockArea()
	if err == nil {
		defer lock.Close()
		if safe {
			err = a.sweep()
		}
	}
	if err != nil {
		stage.close()
		return nil, fmt.Errorf("sweep left-over stages: %w", err)
	}
	return a, nil
}

// lockArea waits until no other process makes or sweeps process folders. safe is false where there are no locks.
func (a *stageArea) lockArea() (f *os.File, safe bool, err error) {
	f, err = a.stage.root.OpenFile(lockName, os.O_RDWR|os.O_CREATE|openFlags, 0o600)
	if err != nil {
		return nil, false, err
	}
	safe, err = lockFile(f, true)
	return f, safe && err == nil, nil
}

// sweep removes the folders of dead processes. What it may not remove stays; only a failure of the
// whole disk is an error.
func (a *stageArea) sweep() error {
	return eachName(context.Background(), a.stage, func(name string) error {
		if name == lockName || a.alive(name) {
			return nil
		}
		if err := a.stage.root.RemoveAll(name); blob.Systemic(classify(err)) {
			return err
		}
		return nil
	})
}

// alive reports whether an entry is the folder of a living process. In doubt it is.
func (a *stageArea) alive(name string) bool {
	f, err := a.stage.child(name)
	if err != nil {
		return !errors.Is(err, blob.ErrParentNotFolder)
	}
	defer f.close()
	lock, err := f.root.OpenFile(lockName, os.O_RDWR|openFlags, 0)
	if err != nil {
		// made under the area's lock: without a lock of its own it is a dead one's
		return !errors.Is(err, fs.ErrNotExist)
	}
	defer lock.Close()
	free, err := lockFile(lock, false)
	return err != nil || !free
}

// pickShard returns the shard of the next stage, and a new name there.
func (a *stageArea) pickShard() (*shard, string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.own == nil {
		if err := a.prepare(); err != nil {
			return nil, "", err
		}
	}
	a.removeLeftovers()
	waiting := 0
	for _, l := range a.shards {
		waiting += int(l.waiting.Load())
	}
	among := min(max(waiting/shardFiles, minShards), maxShards)
	for len(a.shards) < among {
		if err := a.grow(); err != nil && len(a.shards) == 0 {
			return nil, "", err
		} else if err != nil {
			break // the present shards must do
		}
	}
	if waiting <= 1 { // with the spare stage: at rest
		a.shrink()
	}
	l := a.shards[0]
	for _, other := range a.shards[:min(among, len(a.shards))] {
		if other.waiting.Load() < l.waiting.Load() {
			l = other
		}
	}
	l.waiting.Add(1)
	a.next++
	name := strconv.FormatUint(a.next, 36)
	return l, name + nameFill[len(name):], nil
}

// grow makes one more shard. The caller holds mu.
func (a *stageArea) grow() error {
	f, err := a.own.childMade(strconv.Itoa(len(a.shards)), 0o700)
	if err == nil {
		a.shards = append(a.shards, &shard{folder: f})
	}
	return err
}

// shrink closes shards, because each holds descriptors (F11). The caller holds mu.
func (a *stageArea) shrink() {
	for n := len(a.shards); n > minShards && len(a.left) == 0 && a.shards[n-1].waiting.Load() == 0; n-- {
		a.shards[n-1].close()
		a.shards = a.shards[:n-1]
	}
}

// discard removes a stage, if not now then with a later one (F6).
func (a *stageArea) discard(shard *shard, name string) error {
	err := removeFile(shard.folder, name)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		shard.waiting.Add(-1)
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	shard.waiting.Add(-1)
	a.left = append(a.left, leftover{shard, name})
	return err
}

// removeLeftovers removes leftovers, until the disk fails again. The caller holds mu.
func (a *stageArea) removeLeftovers() {
	for n := len(a.left); n > 0; n-- {
		if err := removeFile(a.left[n-1].shard.folder, a.left[n-1].name); err != nil &&
			!errors.Is(err, fs.ErrNotExist) {
			return
		}
		a.left = a.left[:n-1]
	}
}

// prepare makes and locks the process folder. The caller holds mu.
func (a *stageArea) prepare() (err error) {
	lock, _, err := a.lockArea()
	if err != nil {
		return err
	}
	defer lock.Close()
	var id [8]byte
	rand.Read(id[:]) // never fails (crypto/rand)
	a.name = hex.EncodeToString(id[:])
	if a.own, err = a.stage.childMade(a.name, 0o700); err != nil {
		return err
	}
	if a.lock, err = a.own.root.OpenFile(lockName, os.O_RDWR|os.O_CREATE|os.O_EXCL|openFlags, 0o600); err != nil {
		a.remove()
		return err
	}
	_, _ = lockFile(a.lock, false) // without locks nobody sweeps, so ours is not needed
	return nil
}

// remove removes the process folder with all waiting stages.
func (a *stageArea) remove() error {
	if a.own == nil {
		return nil
	}
	for _, l := range a.shards {
		l.close()
	}
	a.own.close()
	err := a.stage.root.RemoveAll(a.name)
	if a.lock != nil {
		a.lock.Close()
	}
	a.own, a.lock, a.shards, a.left = nil, nil, nil, nil
	return err
}

func (a *stageArea) close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	err := a.remove()
	a.stage.close()
	return err
}
