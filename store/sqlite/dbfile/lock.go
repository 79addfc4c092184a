package dbfile

import (
	"os"

	"github.com/gofrs/flock"
)

// Lock takes the lock of a file without waiting; it is not free if somebody has it, this process
// included. The kernel releases it when its holder dies. The file is opened for writing, because
// NFS refuses the lock of any other.
func Lock(path string) (unlock func() error, free bool, err error) {
	lock := flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDWR))
	free, err = lock.TryLock()
	return lock.Unlock, free, err
}
