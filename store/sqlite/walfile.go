package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

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
	return false, fmt.Errorf("%s is not the file any more that is written to: its folder was moved, restored, removed or mounted "+
		"over while this process ran. What it wrote last is in the old one: put that back, then start again", y.path)
}
