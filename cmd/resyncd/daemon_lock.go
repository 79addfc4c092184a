package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

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
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock data_dir: %w", err)
	}
	for began := time.Now(); ; {
		free, err := lockFile(f)
		switch {
		case err != nil:
			_ = f.Close()
			return nil, fmt.Errorf("lock data_dir %s: %w", dir, err)
		case free:
			return f.Close, nil
		case time.Since(began) >= lockWithin:
			_ = f.Close()
			return nil, &coded{code: exitHeld, err: fmt.Errorf("another `resyncd serve` works on data_dir %s: stop it, or give this one a data_dir of its own", dir)}
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, ctx.Err()
		case <-time.After(lookEvery):
		}
	}
}

// orHeld is a failure to listen, unless another daemon works on data_dir: then it has the addresses too, and other ones would help
// nobody. Where none ever did, nothing is made.
func orHeld(ctx context.Context, dir string, err error) error {
	var listening *net.OpError
	if !errors.As(err, &listening) {
		return err
	}
	if _, absent := os.Stat(filepath.Join(dir, lockName)); absent != nil {
		return err
	}
	release, held := lockData(ctx, dir)
	var other *coded
	switch {
	case held == nil:
		return errors.Join(err, release())
	case errors.As(held, &other):
		return held
	}
	return err
}
