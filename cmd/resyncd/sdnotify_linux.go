package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// tellManager sends a state to the service manager's socket, as sd_notify(3) does. Dialling is fetch's alone; this is one
// datagram to a socket of this machine.
func tellManager(socket, state string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("tell the service manager: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, []byte(state), unix.MSG_NOSIGNAL, &unix.SockaddrUnix{Name: socket}); err != nil {
		return fmt.Errorf("tell the service manager: %w", err)
	}
	return nil
}

// monotonicMicros is the clock by which the service manager orders reloads.
func monotonicMicros() int64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return 0
	}
	return t.Nano() / 1000
}
