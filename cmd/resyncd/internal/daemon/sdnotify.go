package daemon

import (
	"log/slog"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"

	"resyncd/cmd/resyncd/internal/logging"
)

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
