package dir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
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
	if err := s.m.area.discard(s.shard, s.name); err != nil {
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
