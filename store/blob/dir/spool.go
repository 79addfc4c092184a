package dir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"resyncd/store/blob"
)

// spoolsName is the folder of spools in the stage area. An older resyncd takes it for a dead process's and sweeps it,
// which costs a download.
const spoolsName = "packages"

// spool is an open file, locked as long as it is open, in a folder of its own handle: it may outlive the mirror's.
type spool struct {
	m    *Mirror
	in   *folder // nil once closed or discarded
	name string
	file *os.File
	size int64
}

// Spool implements blob.Mirror.
func (m *Mirror) Spool(ctx context.Context, name string) (blob.Spool, error) {
	s := &spool{m: m, name: name}
	err := m.call(ctx, m.beginWrite, "open a spool", func() error {
		if err := blob.CheckSpool(name); err != nil {
			return err
		}
		return m.retryBusy(s.open)
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (s *spool) open() error {
	in, err := s.m.area.stage.childMade(spoolsName, 0o700)
	if err != nil {
		return err
	}
	for range tries {
		if s.file, err = openSpool(in, s.name); err != nil {
			break
		}
		// The name is compared under the lock: a link may lie there, or the last user discarded the file meanwhile.
		named, nameErr := in.root.Lstat(s.name)
		info, infoErr := s.file.Stat()
		if nameErr == nil && infoErr == nil && info.Mode().IsRegular() && os.SameFile(named, info) {
			if !linked(info) {
				s.in, s.size = in, info.Size()
				return nil
			}
			_ = removeFile(in, s.name) // another name of some file, which must not change
		}
		s.file.Close()
	}
	in.close()
	if err == nil {
		err = blob.ErrBusy // the name changes all the time
	}
	return err
}

// openSpool opens and locks what has the name. Anything but a regular file is replaced, never written to (F87).
func openSpool(in *folder, name string) (*os.File, error) {
	if info, err := in.root.Lstat(name); err == nil && !info.Mode().IsRegular() {
		if err := removeFile(in, name); err != nil {
			return nil, fmt.Errorf("%w: %w", blob.ErrNotRegular, err)
		}
	}
	f, err := in.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND|openFlags, 0o600)
	if err != nil {
		return nil, err
	}
	if held, err := lockFile(f, false); err == nil && !held { // an error: no locks here, see stageArea
		f.Close()
		return nil, fmt.Errorf("%w: spool %s is in use", blob.ErrExists, name)
	}
	return f, nil
}

// Spools implements blob.Mirror.
func (m *Mirror) Spools(ctx context.Context, fn func(name string, changed time.Time) error) error {
	return m.call(ctx, m.beginWrite, "list spools", func() error {
		in, err := m.area.stage.child(spoolsName)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		defer in.close()
		return eachName(ctx, in, func(name string) error {
			info, err := in.root.Lstat(name)
			if errors.Is(err, fs.ErrNotExist) || blob.CheckSpool(name) != nil {
				return nil
			}
			if err != nil {
				return err
			}
			return fn(name, info.ModTime())
		})
	})
}

// Size implements blob.Spool.
func (s *spool) Size() int64 { return s.size }

// ReadAt implements blob.Spool.
func (s *spool) ReadAt(p []byte, off int64) (int, error) {
	n, err := s.file.ReadAt(p, off)
	if err == io.EOF { //nolint:errorlint // a wrapped EOF would not be the end of the file
		return n, err
	}
	return n, s.failed("read", err)
}

// Write implements blob.Spool.
func (s *spool) Write(p []byte) (int, error) {
	n, err := s.file.Write(p)
	s.size += int64(n)
	return n, s.failed("write to", err)
}

// Reset implements blob.Spool.
func (s *spool) Reset() error {
	err := s.file.Truncate(0)
	if err == nil {
		s.size = 0
	}
	return s.failed("reset", err)
}

// Close implements blob.Spool.
func (s *spool) Close() error {
	if s.in == nil {
		return nil
	}
	s.in.close()
	s.in = nil
	return s.failed("close", s.file.Close())
}

// Discard implements blob.Spool. The name goes while the lock is held, so that nobody takes up a file without one.
func (s *spool) Discard() error {
	if s.in == nil {
		return nil
	}
	err := removeFile(s.in, s.name)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(s.failed("discard", err), s.Close())
}

func (s *spool) failed(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s spool %s: %w", what, s.name, s.m.explain(err))
}
