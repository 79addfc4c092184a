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

// Where many stages wait, as in a first sync, they are spread: an ext4 looks through half a block of a folder for each name that
// comes or goes, and a block holds 250 short names. With up to laneFiles to a lane, and names as long as fit into a cached
// name of the kernel's, a first sync of 20,000 small files took 8 % less of the processor there than with all of them in two lanes.
const (
	lanesLeast = 2
	lanesMost  = 16
	laneFiles  = 64
	nameFill   = "------------------------------------" // up to 36 bytes
)

// lockName is, in `.resyncd/stage`, the gate that makers and sweepers of process folders pass one at a time; in a process
// folder, the lock that its living owner holds.
const lockName = "lock"

// stageArea is where new files wait: `.resyncd/stage/PROCESS/LANE/NUMBER`. Each process has its own folder and holds its
// lock, so that the next process knows a dead one's and sweeps it (F1). Lanes spread the work, because a folder takes one
// new name at a time (speed.md 2). The folder is made with the first stage: a run that changes nothing writes nothing.
//
// Where files cannot be locked, nothing of others is swept (some network file systems), or all is (systems other than
// Linux, where one writer at a time is the caller's duty).
type stageArea struct {
	stage *folder

	mu    sync.Mutex
	name  string   // of our process folder, once made
	own   *folder  // ditto
	lock  *os.File // ditto
	lanes []*lane
	left  []leftover
	next  uint64
}

// lane is a folder in which stages wait.
type lane struct {
	*folder
	waiting atomic.Int32
}

// leftover is a discarded stage that the disk did not let go.
type leftover struct {
	lane *lane
	name string
}

// openStageArea opens the area and sweeps what dead processes left.
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
	gate, safe, err := a.gate()
	if err == nil {
		defer gate.Close()
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

// gate waits until no other process makes or sweeps process folders; closing the file opens it again. It is not safe where
// the file system has no locks.
func (a *stageArea) gate() (f *os.File, safe bool, err error) {
	f, err = a.stage.root.OpenFile(lockName, os.O_RDWR|os.O_CREATE|openFlags, 0o600)
	if err != nil {
		return nil, false, err
	}
	safe, err = lockFile(f, true)
	return f, safe && err == nil, nil
}

// sweep removes the folders whose owner does not live. What it may not remove, as another user's, stays; only trouble of the
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

// alive tells whether an entry of the area is the folder of a living process. In doubt it is.
func (a *stageArea) alive(name string) bool {
	f, err := a.stage.child(name)
	if err != nil {
		return !errors.Is(err, blob.ErrParentNotFolder)
	}
	defer f.close()
	lock, err := f.root.OpenFile(lockName, os.O_RDWR|openFlags, 0)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) // made under the gate: without a lock it is a dead one's
	}
	defer lock.Close()
	free, err := lockFile(lock, false)
	return err != nil || !free
}

// lane is where the next stage waits, under a name that is new there. It counts as waiting from now on.
func (a *stageArea) lane() (*lane, string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.own == nil {
		if err := a.prepare(); err != nil {
			return nil, "", err
		}
	}
	a.clear()
	waiting := 0
	for _, l := range a.lanes {
		waiting += int(l.waiting.Load())
	}
	among := min(max(waiting/laneFiles, lanesLeast), lanesMost)
	for len(a.lanes) < among {
		if err := a.widen(); err != nil && len(a.lanes) == 0 {
			return nil, "", err
		} else if err != nil {
			break // those that are there do
		}
	}
	if waiting <= 1 { // with the spare one: at rest
		a.narrow()
	}
	l := a.lanes[0]
	for _, other := range a.lanes[:min(among, len(a.lanes))] {
		if other.waiting.Load() < l.waiting.Load() {
			l = other
		}
	}
	l.waiting.Add(1)
	a.next++
	name := strconv.FormatUint(a.next, 36)
	return l, name + nameFill[len(name):], nil
}

// widen makes one more lane. The caller holds mu.
func (a *stageArea) widen() error {
	f, err := a.own.childMade(strconv.Itoa(len(a.lanes)), 0o700)
	if err == nil {
		a.lanes = append(a.lanes, &lane{folder: f})
	}
	return err
}

// narrow lets go of lanes that are not needed at rest: each holds descriptors (F11). The caller holds mu.
func (a *stageArea) narrow() {
	for n := len(a.lanes); n > lanesLeast && len(a.left) == 0 && a.lanes[n-1].waiting.Load() == 0; n-- {
		a.lanes[n-1].close()
		a.lanes = a.lanes[:n-1]
	}
}

// discard removes a stage, if not now then with a later one (F6): a daemon that lives for months must not collect what its
// disk would not let go one day.
func (a *stageArea) discard(lane *lane, name string) error {
	err := removeFile(lane.folder, name)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		lane.waiting.Add(-1)
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	lane.waiting.Add(-1)
	a.left = append(a.left, leftover{lane, name})
	return err
}

// clear removes what was left over, as far as the disk is well again. The caller holds mu.
func (a *stageArea) clear() {
	for n := len(a.left); n > 0; n-- {
		if err := removeFile(a.left[n-1].lane.folder, a.left[n-1].name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return
		}
		a.left = a.left[:n-1]
	}
}

// prepare makes our process folder and locks it. The caller holds mu.
func (a *stageArea) prepare() (err error) {
	gate, _, err := a.gate()
	if err != nil {
		return err
	}
	defer gate.Close()
	var id [8]byte
	rand.Read(id[:]) // never fails (crypto/rand)
	a.name = hex.EncodeToString(id[:])
	if a.own, err = a.stage.childMade(a.name, 0o700); err != nil {
		return err
	}
	if a.lock, err = a.own.root.OpenFile(lockName, os.O_RDWR|os.O_CREATE|os.O_EXCL|openFlags, 0o600); err != nil {
		a.leave()
		return err
	}
	_, _ = lockFile(a.lock, false) // without locks nobody sweeps, so ours is not missed
	return nil
}

// leave removes our process folder with all that waits in it.
func (a *stageArea) leave() error {
	if a.own == nil {
		return nil
	}
	for _, l := range a.lanes {
		l.close()
	}
	a.own.close()
	err := a.stage.root.RemoveAll(a.name)
	if a.lock != nil {
		a.lock.Close()
	}
	a.own, a.lock, a.lanes, a.left = nil, nil, nil, nil
	return err
}

// close ends the area of this process.
func (a *stageArea) close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	err := a.leave()
	a.stage.close()
	return err
}
