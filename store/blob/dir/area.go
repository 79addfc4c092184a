package dir

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"

	"resyncd/store/blob"
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
	lanes []*folder
	left  []leftover
	next  atomic.Uint64
}

// leftover is a discarded stage that the disk did not let go.
type leftover struct {
	lane *folder
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

// lane is the folder for the next stage and a name that is new there.
func (a *stageArea) lane() (*folder, string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.lanes == nil {
		if err := a.prepare(); err != nil {
			return nil, "", err
		}
	}
	a.clear()
	n := a.next.Add(1)
	return a.lanes[n%uint64(len(a.lanes))], strconv.FormatUint(n, 36), nil
}

// discard removes a stage, if not now then with a later one (F6): a daemon that lives for months must not collect what its
// disk would not let go one day.
func (a *stageArea) discard(lane *folder, name string) error {
	err := removeFile(lane, name)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.left = append(a.left, leftover{lane, name})
	return err
}

// clear removes what was left over, as far as the disk is well again. The caller holds mu.
func (a *stageArea) clear() {
	for n := len(a.left); n > 0; n-- {
		if err := removeFile(a.left[n-1].lane, a.left[n-1].name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return
		}
		a.left = a.left[:n-1]
	}
}

// prepare makes our process folder, locks it and makes its lanes. The caller holds mu.
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
	var lanes []*folder
	for i := range min(max(runtime.GOMAXPROCS(0), 2), 8) {
		f, err := a.own.childMade(strconv.Itoa(i), 0o700)
		if err != nil {
			closeAll(lanes)
			a.leave()
			return err
		}
		lanes = append(lanes, f)
	}
	a.lanes = lanes
	return nil
}

// leave removes our process folder with all that waits in it.
func (a *stageArea) leave() error {
	if a.own == nil {
		return nil
	}
	closeAll(a.lanes)
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

func closeAll(list []*folder) {
	for _, f := range list {
		f.close()
	}
}
