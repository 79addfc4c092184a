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

// readiness answers /readyz: the store is open, the callback listens, the disks of the state and of the mirrors can be
// written. Anybody may ask, so the disks are tried now and then only.
type readiness struct {
	d *Daemon

	mu    sync.Mutex
	tried time.Time
	err   error
}

const readyAge = 5 * time.Second

func (r *readiness) check(context.Context) error {
	if !r.d.listeners.isOpen() {
		return errStarting
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); now.Sub(r.tried) >= readyAge {
		r.tried, r.err = now, writableDisks(r.d.sources.config())
	}
	return r.err
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
