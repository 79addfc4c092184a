package hub

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"resyncd/destination/gate"
)

// connections is how many clients there may be; those that ask nothing make room (P8).
const connections = 4096

// Serve answers requests on a listener until ctx ends, then finishes what is running for a few seconds. It closes the
// listener and returns nil after such an end.
func (h *Hub) Serve(ctx context.Context, listener net.Listener) error {
	door := gate.New(gate.Options{Listener: listener, MaxConns: connections, Log: h.o.Log})
	server := &http.Server{
		Handler:           h.Handler(),
		ConnState:         door.State,
		ConnContext:       door.Context,
		ReadHeaderTimeout: 10 * time.Second,
		WriteTimeout:      readTime + 3*verifyTimeout, // a synchronous verification takes its time
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(h.o.Log.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(door) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve on %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
	defer cancel()
	err := server.Shutdown(grace)
	if errors.Is(err, context.DeadlineExceeded) {
		err = server.Close()
	}
	<-failed
	if err != nil {
		return fmt.Errorf("stop serving on %s: %w", listener.Addr(), err)
	}
	return nil
}
