package dir

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"strconv"
	"sync"
	"time"

	"resyncd/store/blob"
)

// keptOpen is how many closed stages keep their descriptor, for syncing a small group. Thousands must not (F11).
const keptOpen = 16

type stage struct {
	m              *Mirror
	shard          *folder
	name           string
	file           *os.File // nil when closed for good, used up or discarded
	length         int64
	mtime          time.Time
	err            error  // why it takes no more bytes
	failuresBefore uint64 // failed syncs of the mirror before its first byte could be written
	closed         bool   // counted in Mirror.sealed if file is kept
	used           bool   // placed or discarded
}

// NewStage implements blob.Mirror.
func (m *Mirror) NewStage(ctx context.Context) (s blob.Stage, err error) {
	err = m.call(ctx, m.beginWrite, "make a stage", func() error {
		spare := m.takeSpare()
		if spare == nil {
			if spare, err = m.makeStage(); err != nil {
				return err
			}
		}
		s = spare
		return nil
	})
	return s, err
}

func (m *Mirror) makeStage() (*stage, error) {
	s := &stage{m: m, failuresBefore: m.sync.failures.Load()}
	err := m.retryBusy(func() (err error) {
		if s.shard, s.name, err = m.area.place(); err != nil {
			return err
		}
		s.file, err = s.shard.root.OpenFile(s.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|openFlags, 0o644)
		return err
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// retryBusy tries again without the cached folders, if descriptors ran out (F11).
func (m *Mirror) retryBusy(try func() error) error {
	err := try()
	if errors.Is(classify(err), blob.ErrBusy) {
		m.folders.closeUnused()
		err = try()
	}
	return err
}

// explain classifies an error, and adds what a full disk is short of (F8).
func (m *Mirror) explain(err error) error {
	err = classify(err)
	if !errors.Is(err, blob.ErrNoSpace) {
		return err
	}
	h, herr := m.folders.top.handle()
	if herr != nil {
		return err
	}
	bytes, inodes, ferr := freeSpace(h)
	switch {
	case ferr != nil:
		return err
	case inodes == math.MaxUint64:
		return fmt.Errorf("%w (%d bytes free)", err, bytes)
	default:
		return fmt.Errorf("%w (%d bytes and %d inodes free)", err, bytes, inodes)
	}
}

// Write implements blob.Stage.
func (s *stage) Write(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	if s.used || s.closed {
		return 0, fmt.Errorf("write to a stage: %w: it is closed", blob.ErrStage)
	}
	n, err := s.file.Write(p)
	s.length += int64(n)
	if err != nil {
		s.err = fmt.Errorf("write to a stage: %w", s.m.explain(err))
	}
	return n, s.err
}

// Reset implements blob.Stage.
func (s *stage) Reset() error {
	if s.used {
		return fmt.Errorf("reset a stage: %w: it is used up", blob.ErrStage)
	}
	if s.length == 0 && s.err == nil && !s.closed {
		return nil
	}
	err := s.reopen()
	if err == nil {
		err = s.file.Truncate(0)
	}
	if err == nil {
		_, err = s.file.Seek(0, io.SeekStart)
	}
	if err != nil {
		s.err = fmt.Errorf("reset a stage: %w", s.m.explain(err))
		return s.err
	}
	s.length, s.err = 0, nil
	return nil
}

func (s *stage) reopen() error {
	if s.closed && s.file != nil {
		s.m.sealed.Add(-1)
	}
	s.closed = false
	if s.file != nil {
		return nil
	}
	return s.m.retryBusy(func() (err error) {
		s.file, err = s.shard.root.OpenFile(s.name, os.O_WRONLY|openFlags, 0)
		return err
	})
}

// SetModTime implements blob.Stage.
func (s *stage) SetModTime(t time.Time) { s.mtime = t }

// Close implements blob.Stage.
func (s *stage) Close() error {
	if s.used || s.closed || s.err != nil {
		return s.err
	}
	s.closed = true
	if !s.mtime.IsZero() {
		// A time that the file system cannot hold must not lose the file; a sick disk fails again.
		_ = s.setModTime()
	}
	if s.m.sealed.Add(1) <= keptOpen {
		return nil
	}
	s.m.sealed.Add(-1)
	err := s.file.Close()
	s.file = nil
	if err != nil {
		s.err = fmt.Errorf("close a stage: %w", s.m.explain(err))
	}
	return s.err
}

func (s *stage) release() {
	if s.file == nil {
		return
	}
	if s.closed {
		s.m.sealed.Add(-1)
	}
	s.file.Close()
	s.file = nil
}

// Discard implements blob.Stage. Once the mirror is closed, the stage is gone with it.
func (s *stage) Discard() error {
	if s.used {
		return nil
	}
	s.used = true
	s.release()
	if s.m.begin(context.Background()) != nil {
		return nil
	}
	defer s.m.active.Done()
	if err := s.m.area.discard(s); err != nil {
		return fmt.Errorf("discard a stage: %w", classify(err))
	}
	return nil
}

// Spare implements blob.Mirror. On an ext4 the making of a file waits while the journal writes an
// earlier transaction; a spare file is there already. It keeps no descriptor (F11).
func (m *Mirror) Spare(ctx context.Context) {
	if m.spare.Load() != nil || m.beginWrite(ctx) != nil {
		return
	}
	defer m.active.Done()
	s, err := m.makeStage()
	if err != nil {
		return // NewStage meets and reports it too
	}
	s.release()
	if !m.spare.CompareAndSwap(nil, s) {
		_ = s.Discard()
	}
}

// takeSpare returns the spare stage. One made before a failed sync is dropped, because it may be lost.
func (m *Mirror) takeSpare() *stage {
	s := m.spare.Swap(nil)
	if s == nil {
		return nil
	}
	if s.failuresBefore == m.sync.failures.Load() && s.reopen() == nil {
		return s
	}
	_ = s.Discard()
	return nil
}

// shards is among how many folders the stages are spread: a folder takes one new name at a time, and an ext4 searches
// half a block of it for each (performance.md 2). Short names are cached inline by the kernel.
const (
	shards   = 4
	nameFill = "------------------------------------" // up to 36 bytes
)

// lockName is the lock under which process folders are made or swept; in a process folder, that of its living owner.
const lockName = "lock"

// stageArea is where new files wait: `.resyncd/stage/PROCESS/SHARD/NUMBER`. Each process has its
// own folder and holds its lock, so that the next process recognises a dead one's and sweeps it
// (F1). The folder is made with the first stage: a run that changes nothing writes nothing.
//
// Where files cannot be locked, nothing of others is swept (some network file systems), or
// everything is (systems other than Linux, where one writer at a time is the caller's duty).
type stageArea struct {
	stage *folder

	mu     sync.Mutex
	name   string   // of the process folder, once made
	own    *folder  // the process folder, once made
	lock   *os.File // of the process folder, once made
	shards []*folder
	left   []*stage // discarded, but they could not be removed
	next   int
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
	if name == spoolsName {
		return true
	}
	lock, err := f.root.OpenFile(lockName, os.O_RDWR|openFlags, 0)
	if err != nil {
		// made under the area's lock: without a lock of its own it is a dead one's
		return !errors.Is(err, fs.ErrNotExist)
	}
	defer lock.Close()
	free, err := lockFile(lock, false)
	return err != nil || !free
}

// place returns the shard of the next stage, and a new name there.
func (a *stageArea) place() (*folder, string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.shards) < shards {
		if err := a.prepare(); err != nil {
			return nil, "", errors.Join(err, a.remove())
		}
	}
	a.removeLeftovers()
	a.next++
	name := strconv.FormatInt(int64(a.next), 36)
	return a.shards[a.next%shards], name + nameFill[len(name):], nil
}

// discard removes a stage, if not now then with a later one (F6).
func (a *stageArea) discard(s *stage) error {
	err := removeFile(s.shard, s.name)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.left = append(a.left, s)
	return err
}

// removeLeftovers removes leftovers, until the disk fails again. The caller holds mu.
func (a *stageArea) removeLeftovers() {
	for n := len(a.left); n > 0; n-- {
		if err := removeFile(a.left[n-1].shard, a.left[n-1].name); err != nil &&
			!errors.Is(err, fs.ErrNotExist) {
			return
		}
		a.left = a.left[:n-1]
	}
}

// prepare makes and locks the process folder, with its shards. The caller holds mu.
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
		return err
	}
	_, _ = lockFile(a.lock, false) // without locks nobody sweeps, so ours is not needed
	for n := range shards {
		shard, err := a.own.childMade(strconv.Itoa(n), 0o700)
		if err != nil {
			return err
		}
		a.shards = append(a.shards, shard)
	}
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
