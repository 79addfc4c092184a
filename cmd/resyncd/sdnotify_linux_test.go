package main

import (
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestServiceManager: states arrive at the socket as datagrams, signs of life at half the pace that was asked for.
func TestServiceManager(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "n")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	m := newManager([]string{"NOTIFY_SOCKET=" + path, "WATCHDOG_USEC=10000000", "WATCHDOG_PID=" + strconv.Itoa(os.Getpid())}, slog.New(slog.DiscardHandler))
	m.ready("2 Sources")
	m.reloading()
	now := time.Unix(1000, 0)
	m.alive(now)
	m.alive(now.Add(4 * time.Second)) // not yet
	m.alive(now.Add(5 * time.Second))
	m.stopping()
	var got []string
	buf := make([]byte, 512)
	for range 5 {
		n, err := l.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(string(buf[:n]), "\n")
		got = append(got, first)
	}
	if want := "READY=1 RELOADING=1 WATCHDOG=1 WATCHDOG=1 STOPPING=1"; strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
	}
	other := newManager([]string{"WATCHDOG_USEC=10000000", "WATCHDOG_PID=1"}, slog.New(slog.DiscardHandler))
	other.ready("nobody listens")
	if other.every != 0 {
		t.Error("the watchdog of another process was taken for ours")
	}
}
