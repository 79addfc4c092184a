package callback

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/coreos/go-systemd/v22/activation"

	"resyncd/destination/gate"
)

// ServerOptions of Serve. Listener and Handler are needed.
type ServerOptions struct {
	Listener net.Listener
	Handler  http.Handler  // a *Callback
	TLS      *Certificates // nil: plain
	Log      *slog.Logger

	// For tests; zero values are the defaults.
	headerTime              time.Duration
	maxConns, maxConnsPerIP int
}

const (
	headerTime  = 5 * time.Second
	requestTime = 10 * time.Second // from the headers to the body's last byte
	idleTime    = 10 * time.Second
	// from the headers to the answer's last byte
	answerTime  = requestTime + commitPatience + 5*time.Second
	headerBytes = 16 << 10
)

// Serve answers on a listener, which it closes, until ctx ends. Then it lets requests end for 5 s,
// and returns nil when no handler is running.
func Serve(ctx context.Context, o ServerOptions) error {
	gated := gate.Options{
		Listener: o.Listener, MaxConns: o.maxConns, MaxConnsPerIP: o.maxConnsPerIP, Grace: stopTime, Log: o.Log,
	}
	if o.TLS != nil {
		gated.TLS = o.TLS.Config()
	}
	// HTTP/1 only, so that deadlines and caps of connections are those of requests.
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return gate.Serve(ctx, &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(requestTime))
			o.Handler.ServeHTTP(w, r)
		}),
		DisableGeneralOptionsHandler: true, // "OPTIONS *" is another method
		Protocols:                    &protocols,
		ReadHeaderTimeout:            cmp.Or(o.headerTime, headerTime),
		WriteTimeout:                 answerTime,
		IdleTimeout:                  idleTime,
		MaxHeaderBytes:               headerBytes,
	}, gated)
}

// socketName is FileDescriptorName= of our socket unit.
const socketName = "callback"

// Listen returns the socket that systemd opened for us (LISTEN_FDS), so that hubs can connect while
// we restart; without any it opens addr. Sockets are passed once.
func Listen(addr string) (net.Listener, error) {
	handed, err := activation.ListenersWithNames()
	if err != nil {
		return nil, fmt.Errorf("take over the sockets of systemd: %w", err)
	}
	var all []net.Listener
	for _, ls := range handed {
		all = append(all, ls...)
	}
	if len(all) == 0 {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return nil, fmt.Errorf("listen for hubs on %s: %w", addr, err)
		}
		return l, nil
	}
	ours := handed[socketName]
	if len(ours) == 0 && len(all) == 1 {
		ours = all
	}
	for _, l := range all {
		if len(ours) != 1 || l != ours[0] {
			_ = l.Close()
		}
	}
	if len(ours) != 1 {
		return nil, fmt.Errorf("systemd handed over %d sockets, %d of them named %q: "+
			"set FileDescriptorName=%s on one (BindIPv6Only=both serves both families)",
			len(all), len(ours), socketName, socketName)
	}
	return ours[0], nil
}
