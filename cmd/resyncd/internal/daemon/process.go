package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
	"github.com/gofrs/flock"

	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/cmd/resyncd/internal/logging"
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

// manager is the service manager that started us (systemd, Type=notify or notify-reload), if one did: the environment
// says where it listens.
type manager struct {
	every time.Duration // how often it wants a sign of life, 0: never
	log   *slog.Logger
	last  time.Time // of the last sign of life
}

func newManager(log *slog.Logger) *manager {
	within, err := systemd.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("the watchdog of the service manager cannot be served", logging.Err(err))
	}
	return &manager{every: within / 2, log: log}
}

func (m *manager) tell(state string) {
	if _, err := systemd.SdNotify(false, state); err != nil {
		m.log.Warn("the service manager cannot be told", logging.Err(err))
	}
}

func (m *manager) ready(status string) { m.tell(systemd.SdNotifyReady + "\nSTATUS=" + status) }

// reloading names the instant by the clock by which the service manager orders reloads.
func (m *manager) reloading() {
	m.tell(systemd.SdNotifyReloading + "\n" + systemd.SdNotifyMonotonicUsec())
}

func (m *manager) stopping() { m.tell(systemd.SdNotifyStopping) }

// alive is a sign of life, sent where one is due at now.
func (m *manager) alive(now time.Time) {
	if m.every > 0 && now.Sub(m.last) >= m.every {
		m.last = now
		m.tell(systemd.SdNotifyWatchdog)
	}
}
