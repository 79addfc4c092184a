//go:build !windows

package sqlite

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// fileLock is an advisory lock that the kernel releases when its holder dies, whatever killed it.
type fileLock struct{ f *os.File }

// lockFile takes the lock without waiting; false if somebody has it, this process included.
func lockFile(path string) (*fileLock, bool, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, false, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err == nil {
		return &fileLock{f: f}, true, nil
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, false, f.Close()
	}
	return nil, false, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
}

// release gives the lock up. To close the file alone would do so only once nobody else has it open: a process that is being
// started has it for a moment, between its fork and its exec.
func (l *fileLock) release() error {
	err := syscall.Flock(int(l.f.Fd()), syscall.LOCK_UN)
	return errors.Join(err, l.f.Close())
}
