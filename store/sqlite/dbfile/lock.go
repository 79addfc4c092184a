package dbfile

import (
	"os"

	"github.com/gofrs/flock"
)

// Lock takes the lock of a file without waiting; not free if somebody has it, this process included. The kernel releases
// it when its holder dies, whatever killed it. The file is opened for writing, without which a lock on NFS is refused.
func Lock(path string) (unlock func() error, free bool, err error) {
	lock := flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDWR))
	free, err = lock.TryLock()
	return lock.Unlock, free, err
}
