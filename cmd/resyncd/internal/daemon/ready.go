package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/store/blob"
)

// readyAge is how long an answer to /readyz stands: anybody may ask, so the disks are tried now and then only.
const readyAge = 5 * time.Second

// readiness answers /readyz: the store is open, the callback listens, the disks of the state and of the mirrors can be
// written.
func (d *Daemon) readiness() func(context.Context) error {
	var mu sync.Mutex
	var tried time.Time
	var failed error
	return func(context.Context) error {
		if !d.listeners.isOpen() {
			return errStarting
		}
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); now.Sub(tried) >= readyAge {
			tried, failed = now, writableDisks(d.sources.config())
		}
		return failed
	}
}

// writableDisks tries the folder of the state and that of each mirror, which may be a disk of its own; a mirror that is
// not there yet, or whose disk is not mounted, is told elsewhere.
func writableDisks(cfg *config.Config) error {
	if err := writable(cfg.DataDir); err != nil {
		return fmt.Errorf("the disk of the state cannot be written: %w", err)
	}
	for i := range cfg.Sources {
		err := writable(filepath.Join(cfg.Mirror, cfg.Sources[i].Name, blob.Reserved))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("the disk of the mirror cannot be written: %w", err)
		}
	}
	return nil
}

// writable writes a little into a folder and takes it away again.
func writable(dir string) error {
	f, err := os.CreateTemp(dir, ".ready-*")
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, mirror.LeastRoom))
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}
