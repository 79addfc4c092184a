package sqlite

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/windows"
)

// fileLock is a lock that the system releases when its holder dies, whatever killed it.
type fileLock struct{ f *os.File }

// lockFile takes the lock without waiting; false if somebody has it, this process included.
func lockFile(path string) (*fileLock, bool, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, false, err
	}
	const how = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err = windows.LockFileEx(windows.Handle(f.Fd()), how, 0, 1, 0, &windows.Overlapped{})
	if err == nil {
		return &fileLock{f: f}, true, nil
	}
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return nil, false, f.Close()
	}
	return nil, false, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
}

func (l *fileLock) release() error { return l.f.Close() }
