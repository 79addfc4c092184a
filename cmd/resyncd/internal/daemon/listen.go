package daemon

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	"resyncd/callback"
	"resyncd/cmd/resyncd/internal/console"
	"resyncd/cmd/resyncd/internal/logging"
)

// listeners answer from the start; until there is something behind them, with 503.
type listeners struct {
	base   string                 // of callback URLs, without a slash at the end
	certs  *callback.Certificates // of the callback listener, nil without TLS
	behind atomic.Pointer[callback.Callback]
	parts  []*part
}

// ServeHTTP implements http.Handler for the callback listener.
func (o *listeners) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if c := o.behind.Load(); c != nil {
		c.ServeHTTP(w, r)
		return
	}
	// Never a 404 or 410 during the start: hubs end subscriptions over these (S-68).
	w.Header().Set("Retry-After", "5")
	http.Error(w, "starting", http.StatusServiceUnavailable)
}

func (o *listeners) open(c *callback.Callback) { o.behind.Store(c) }

// isOpen reports that the store is open, and hubs are answered.
func (o *listeners) isOpen() bool { return o.behind.Load() != nil }

// listen opens the listeners and says where they are.
func (d *Daemon) listen(ctx context.Context) error {
	cfg := d.sources.config().Callback
	if cfg.TLSCertFile != "" {
		var err error
		if d.listeners.certs, err = callback.LoadCertificates(cfg.TLSCertFile, cfg.TLSKeyFile, d.o.Log); err != nil {
			return err
		}
	}
	l, err := callback.Listen(cfg.Listen)
	if err != nil {
		return fmt.Errorf("%w; another process may have it: choose another callback.listen", err)
	}
	d.listeners.base = baseAt(cfg.BaseURL, l.Addr())
	d.listeners.parts = append(d.listeners.parts, d.parts.start(ctx, "answer hubs", func(ctx context.Context) error {
		return callback.Serve(ctx, callback.ServerOptions{Listener: l, Handler: &d.listeners, TLS: d.listeners.certs,
			Log: d.o.Log})
	}))
	where, err := d.listenConsole(ctx)
	if err != nil {
		return err
	}
	announce := d.o.Announce
	if announce == nil {
		announce = d.introduce
	}
	return announce(l.Addr().String(), where)
}

// listenConsole opens the console's listener, "" where it is switched off.
func (d *Daemon) listenConsole(ctx context.Context) (string, error) {
	addr := d.sources.config().Console.Listen
	if addr == "" {
		return "", nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return "", fmt.Errorf("listen for the console: %w; another process may have it: choose another "+
			"console.listen, or \"\" to do without", err)
	}
	handler := console.New(d.consoleOptions())
	d.listeners.parts = append(d.listeners.parts, d.parts.start(ctx, "answer the console",
		func(ctx context.Context) error {
			return console.Serve(ctx, l, handler, d.o.Log)
		}))
	return l.Addr().String(), nil
}

// introduce prints one line for each listener and Source.
func (d *Daemon) introduce(callbackAt, consoleAt string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "callback %s listens on %s\n", d.listeners.base, callbackAt)
	if consoleAt != "" {
		fmt.Fprintf(&b, "console  http://%s/ listens on %s\n", consoleAt, consoleAt)
	}
	for _, s := range d.sources.config().Sources {
		fmt.Fprintf(&b, "source   %s  %s\n", s.Name, logging.Redact(s.URL))
	}
	_, err := io.WriteString(d.o.Out, b.String())
	return err
}

// baseAt is the base URL of callbacks without a slash at its end; its port 0 is the one that was given to the listener.
func baseAt(base string, addr net.Addr) string {
	base = strings.TrimRight(base, "/")
	u, err := url.Parse(base)
	if err != nil || u.Port() != "0" {
		return base
	}
	if _, port, err := net.SplitHostPort(addr.String()); err == nil {
		u.Host = net.JoinHostPort(u.Hostname(), port)
	}
	return u.String()
}
