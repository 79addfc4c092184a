package main

import (
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"resyncd/cmd/resyncd/internal/logging"
)

// manager is the service manager that started us (systemd, Type=notify or notify-reload), if one did.
type manager struct {
	socket string        // "": none
	every  time.Duration // how often it wants a sign of life, 0: never
	log    *slog.Logger
	last   time.Time // of the last sign of life
}

// newManager reads what the manager says in the environment (sd_notify(3), sd_watchdog_enabled(3)).
func newManager(env []string, log *slog.Logger) *manager {
	vars := map[string]string{}
	for _, v := range env {
		if name, value, ok := strings.Cut(v, "="); ok {
			vars[name] = value
		}
	}
	m := &manager{socket: vars["NOTIFY_SOCKET"], log: log}
	pid := vars["WATCHDOG_PID"]
	if usec, err := strconv.ParseInt(vars["WATCHDOG_USEC"], 10, 64); err == nil && usec > 0 && (pid == "" || pid == strconv.Itoa(os.Getpid())) {
		m.every = time.Duration(min(usec, int64(time.Hour/time.Microsecond))) * time.Microsecond / 2
	}
	return m
}

func (m *manager) tell(state string) {
	if m.socket == "" {
		return
	}
	if err := tellManager(m.socket, state); err != nil {
		m.log.Warn("the service manager cannot be told", logging.Err(err))
	}
}

func (m *manager) ready(status string) { m.tell("READY=1\nSTATUS=" + status) }

func (m *manager) reloading() {
	m.tell(fmt.Sprintf("RELOADING=1\nMONOTONIC_USEC=%d", monotonicMicros()))
}

func (m *manager) stopping() { m.tell("STOPPING=1") }

// alive is a sign of life, sent where one is due at now.
func (m *manager) alive(now time.Time) {
	if m.every > 0 && now.Sub(m.last) >= m.every {
		m.last = now
		m.tell("WATCHDOG=1")
	}
}
