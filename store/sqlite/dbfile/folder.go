package dbfile

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// MakeFolder makes a folder and its missing parents, durably: SQLite syncs only what is in the folder (P4).
func MakeFolder(path string) error { return makeFolder(path, syncFolder) }

func makeFolder(path string, sync func(folder *os.File) error) error {
	var grown []string
	for dir := path; !exists(dir) && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		grown = append(grown, filepath.Dir(dir))
	}
	if err := os.MkdirAll(path, 0o700); err != nil || runtime.GOOS == "windows" { // Windows has no sync of folders
		return err
	}
	for _, dir := range grown {
		f, err := os.Open(dir)
		if err != nil {
			return err
		}
		if err := errors.Join(sync(f), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// syncFolder makes the names in a folder durable, where its file system can.
func syncFolder(f *os.File) error {
	err := f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}
