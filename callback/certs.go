package callback

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

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
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	c := &Certificates{certFile: certFile, keyFile: keyFile, log: log}
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
