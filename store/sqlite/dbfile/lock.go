package dbfile

import (
	"os"

	"github.com/gofrs/flock"
)

// Lock takes the lock of a file without waiting; its holder's death releases it. NFS locks only
// files that are open for writing.
func Lock(path string) (unlock func() error, free bool, err error) {
	lock := flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDWR))
	free, err = lock.TryLock()
	return lock.Unlock, free, err
}
