package callback

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
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
	all := slices.Concat(slices.Collect(maps.Values(handed))...)
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

// certsEvery is the least time between two looks at the files of a certificate.
const certsEvery = 10 * time.Second

// Certificates is a certificate in files, which may be replaced while it serves.
type Certificates struct {
	certFile, keyFile string
	log               *slog.Logger

	now atomic.Pointer[tls.Certificate]

	mu      sync.Mutex
	checked time.Time
	tried   []byte // both files as last read
}

// LoadCertificates reads a certificate chain and its key in PEM.
func LoadCertificates(certFile, keyFile string, log *slog.Logger) (*Certificates, error) {
	c := &Certificates{certFile: certFile, keyFile: keyFile, log: cmp.Or(log, slog.New(slog.DiscardHandler))}
	if err := c.Reload(); err != nil {
		return nil, err
	}
	return c, nil
}

// Reload reads the files now. If they are unusable, the old certificate stays.
func (c *Certificates) Reload() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.load()
	return err
}

// Config is the TLS configuration of a server with this certificate.
func (c *Certificates) Config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			c.reloadIfChanged()
			return c.now.Load(), nil
		},
	}
}

// reloadIfChanged reads the files if they changed. Other handshakes use the present certificate.
func (c *Certificates) reloadIfChanged() {
	if !c.mu.TryLock() {
		return
	}
	defer c.mu.Unlock()
	if since := time.Since(c.checked); since >= 0 && since < certsEvery {
		return
	}
	changed, err := c.load()
	switch {
	case !changed: // or perhaps being replaced: next time
	case err != nil:
		c.log.Error("the new certificate is not usable: the old one stays", "err", err)
	default:
		c.log.Info("certificate of the callback listener reloaded", "file", c.certFile)
	}
}

// load reads both files.
func (c *Certificates) load() (changed bool, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("load the certificate of the callback listener: %w", err)
		}
	}()
	c.checked = time.Now()
	cert, err := os.ReadFile(c.certFile)
	if err != nil {
		return false, err
	}
	key, err := os.ReadFile(c.keyFile)
	if err != nil {
		return false, err
	}
	both := slices.Concat(cert, key)
	changed = !bytes.Equal(both, c.tried)
	c.tried = both
	pair, err := tls.X509KeyPair(cert, key)
	if err == nil {
		c.now.Store(&pair)
	}
	return changed, err
}
