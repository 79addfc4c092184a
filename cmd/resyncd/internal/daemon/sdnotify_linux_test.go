package daemon

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
	path := filepath.Join(t.TempDir(), "n")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", "10000000")
	t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
	m := newManager(slog.New(slog.DiscardHandler))
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
		first, rest, _ := strings.Cut(string(buf[:n]), "\n")
		got = append(got, first)
		if first == "RELOADING=1" && !strings.HasPrefix(rest, "MONOTONIC_USEC=") {
			t.Errorf("a reload says %q, and no instant", rest)
		}
	}
	if want := "READY=1 RELOADING=1 WATCHDOG=1 WATCHDOG=1 STOPPING=1"; strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
	}
	t.Setenv("NOTIFY_SOCKET", "")
	t.Setenv("WATCHDOG_PID", "1")
	other := newManager(slog.New(slog.DiscardHandler))
	other.ready("nobody listens")
	if other.every != 0 {
		t.Error("the watchdog of another process was taken for ours")
	}
}
