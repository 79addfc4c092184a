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

// doors are the listeners. They answer from the start; until there is something behind them, with 503.
type doors struct {
	behind atomic.Pointer[callback.Callback]
	parts  []*part
}

// ServeHTTP implements http.Handler for the callback listener.
func (o *doors) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if c := o.behind.Load(); c != nil {
		c.ServeHTTP(w, r)
		return
	}
	// Never a 404 or 410 during the start: hubs end subscriptions over these (S-68).
	w.Header().Set("Retry-After", "5")
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = io.WriteString(w, "starting\n") // the status has said it
}

func (o *doors) open(c *callback.Callback) { o.behind.Store(c) }

func (o *doors) end() { endAll(o.parts) }

// listen opens the listeners and says where they are.
func (d *Daemon) listen(ctx context.Context) error {
	cfg := d.config().Callback
	if cfg.TLSCertFile != "" {
		var err error
		if d.certs, err = callback.LoadCertificates(cfg.TLSCertFile, cfg.TLSKeyFile, d.log); err != nil {
			return err
		}
	}
	l, err := callback.Listen(cfg.Listen)
	if err != nil {
		return fmt.Errorf("%w; another process may have it: choose another callback.listen", err)
	}
	d.base = baseAt(cfg.BaseURL, l.Addr())
	d.doors.parts = append(d.doors.parts, d.part(ctx, "answer hubs", func(ctx context.Context) error {
		return callback.Serve(ctx, callback.ServerOptions{Listener: l, Handler: &d.doors, TLS: d.certs, Log: d.log})
	}))
	where, err := d.listenConsole(ctx)
	if err != nil {
		return err
	}
	return d.announce(l.Addr().String(), where)
}

// listenConsole opens the console's listener, "" where it is switched off.
func (d *Daemon) listenConsole(ctx context.Context) (string, error) {
	addr := d.config().Console.Listen
	if addr == "" {
		return "", nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return "", fmt.Errorf("listen for the console: %w; another process may have it: choose another console.listen, or \"\" to do without", err)
	}
	handler := console.New(d.consoleOptions())
	d.doors.parts = append(d.doors.parts, d.part(ctx, "answer the console", func(ctx context.Context) error {
		return console.Serve(ctx, l, handler, d.log)
	}))
	return l.Addr().String(), nil
}

// introduce prints one line for each listener and Source.
func (d *Daemon) introduce(callbackAt, consoleAt string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "callback %s listens on %s\n", d.base, callbackAt)
	if consoleAt != "" {
		fmt.Fprintf(&b, "console  http://%s/ listens on %s\n", consoleAt, consoleAt)
	}
	for _, s := range d.config().Sources {
		fmt.Fprintf(&b, "source   %s  %s\n", s.Name, logging.Redact(s.URL))
	}
	_, err := io.WriteString(d.out, b.String())
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
