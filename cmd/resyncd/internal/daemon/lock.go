package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/store/sqlite"
)

// lockWithin is how long a daemon waits for one that is just ending: it may be writing its last bytes.
const lockWithin = 2 * time.Second

// lockName is the file in data_dir that a daemon locks.
const lockName = "serve.lock"

// lockData takes data_dir for this daemon, so that no second one keeps the same leases and takes the same requests. The
// lock ends with the process, whatever kills it; release ends it before.
func lockData(ctx context.Context, dir string) (release func() error, err error) {
	if err := sqlite.MakeFolder(dir); err != nil {
		return nil, fmt.Errorf("make data_dir: %w", err)
	}
	// Opened for writing, without which a lock on NFS is refused.
	lock := flock.New(filepath.Join(dir, lockName), flock.SetFlag(os.O_CREATE|os.O_RDWR))
	within, cancel := context.WithTimeout(ctx, lockWithin)
	defer cancel()
	free, err := lock.TryLockContext(within, lookEvery)
	switch {
	case free:
		return lock.Unlock, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		return nil, &exit.Error{Code: exit.Held, Err: fmt.Errorf("another `resyncd serve` works on data_dir %s: stop "+
			"it, or give this one a data_dir of its own", dir)}
	}
	return nil, fmt.Errorf("lock data_dir %s: %w", dir, err)
}

// orHeld is a failure to listen, unless another daemon works on data_dir: then it has the addresses too, and other ones
// would help nobody. Where none ever did, nothing is made.
func orHeld(ctx context.Context, dir string, err error) error {
	var listening *net.OpError
	if !errors.As(err, &listening) {
		return err
	}
	if _, absent := os.Stat(filepath.Join(dir, lockName)); absent != nil {
		return err
	}
	release, held := lockData(ctx, dir)
	var other *exit.Error
	switch {
	case held == nil:
		return errors.Join(err, release())
	case errors.As(held, &other):
		return held
	}
	return err
}
