//go:build !linux

package dir

import (
	"errors"
	"math"
	"os"
	"path"
	"path/filepath"
	"time"
)

// The portable ways: os.Root with paths from the mirror root, a sync per file, and no locks (see stageArea).

func rename(top, from *folder, oldName string, to *folder, newName string) error {
	return top.root.Rename(below(from, oldName), below(to, newName))
}

func renameNew(top, from *folder, oldName string, to *folder, newName string) error {
	if _, err := to.root.Lstat(newName); err == nil {
		return &os.LinkError{Op: "rename", Old: oldName, New: newName, Err: os.ErrExist}
	}
	return rename(top, from, oldName, to, newName)
}

func link(top, from *folder, oldName string, to *folder, newName string) error {
	return top.root.Link(below(from, oldName), below(to, newName))
}

func below(f *folder, name string) string { return filepath.FromSlash(path.Join(f.path, name)) }

func removeFile(f *folder, name string) error {
	info, err := f.root.Lstat(name)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return &os.PathError{Op: "unlink", Path: name, Err: errors.New("is a folder")}
	}
	return f.root.Remove(name)
}

func removeFolder(f *folder, name string) error {
	info, err := f.root.Lstat(name)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return &os.PathError{Op: "rmdir", Path: name, Err: errors.New("not a folder")}
	}
	return f.root.Remove(name)
}

func linked(os.FileInfo) bool { return false }

// setModTime sets the modification time.
func (s *stage) setModTime() error {
	return s.shard.root.Chtimes(s.name, time.Time{}, s.mtime)
}

func syncWhole(*os.File) error { return errors.ErrUnsupported }

func canSyncWhole(*os.File) bool { return false }

// freeSpace has no portable call: no limit known.
func freeSpace(*os.File) (bytes, inodes uint64, err error) {
	return math.MaxUint64, math.MaxUint64, nil
}

// lockFile always succeeds: without locks, one writer for a root at a time is the caller's duty.
func lockFile(*os.File, bool) (held bool, err error) { return true, nil }
