package sqlite

import (
	"os"

	"github.com/gofrs/flock"
)

// lockFile takes the lock of a file without waiting; false if somebody has it, this process included. The kernel releases it
// when its holder dies, whatever killed it. The file is opened for writing, without which a lock on NFS is refused.
func lockFile(path string) (*flock.Flock, bool, error) {
	lock := flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDWR))
	free, err := lock.TryLock()
	return lock, free, err
}
