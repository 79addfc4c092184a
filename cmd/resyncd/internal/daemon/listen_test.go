package daemon

import (
	"net"
	"strings"
	"testing"

	"resyncd/cmd/resyncd/internal/config"
)

// TestConsoleIsTaken: where the console cannot listen, that is said, and what to change.
func TestConsoleIsTaken(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	d := &Daemon{sources: sources{cfg: &config.Config{}}}
	d.sources.cfg.Console.Listen = taken.Addr().String()
	_, err = d.listenConsole(t.Context())
	if err == nil || !strings.Contains(err.Error(), "listen for the console") || !strings.Contains(err.Error(), "console.listen") {
		t.Errorf("a second one: %v", err)
	}
}
