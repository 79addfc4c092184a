package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// readiness answers /readyz: the store is open, the callback listens, the disk of the state can be written. Anybody may
// ask, so the disk is tried now and then only.
type readiness struct {
	d *daemon

	mu    sync.Mutex
	tried time.Time
	err   error
}

const readyAge = 5 * time.Second

func (r *readiness) check(context.Context) error {
	if !r.d.opened.Load() {
		return errStarting
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); now.Sub(r.tried) >= readyAge {
		r.tried, r.err = now, writable(r.d.config().DataDir)
	}
	return r.err
}

func writable(dir string) error {
	f, err := os.CreateTemp(dir, ".ready-*")
	if err != nil {
		return fmt.Errorf("the disk of the state cannot be written: %w", err)
	}
	_, err = f.WriteString("x")
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}
