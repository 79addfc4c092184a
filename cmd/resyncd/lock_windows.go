package main

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// lockFile takes a lock that ends with the open file; it is false if another process has it.
func lockFile(f *os.File) (free bool, err error) {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err = windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, new(windows.Overlapped))
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return false, nil
	}
	return err == nil, err
}
