package callback

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
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
	tried   [2]fileVersion // of the files when last read
}

type fileVersion struct {
	modified time.Time
	size     int64
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
	files, err := c.versions()
	if err != nil {
		return err
	}
	return c.read(files)
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
	c.checked = time.Now()
	files, err := c.versions()
	switch {
	case err != nil: // perhaps being replaced: next time
		return
	case files == c.tried:
		return
	}
	if err := c.read(files); err != nil {
		c.log.Error("the new certificate is not usable: the old one stays", "err", err)
		return
	}
	c.log.Info("certificate of the callback listener reloaded", "file", c.certFile)
}

// read loads both files. Their versions are taken before, so that a later change is seen.
func (c *Certificates) read(files [2]fileVersion) error {
	c.tried, c.checked = files, time.Now()
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("load the certificate of the callback listener: %w", err)
	}
	c.now.Store(&pair)
	return nil
}

func (c *Certificates) versions() (files [2]fileVersion, err error) {
	for i, name := range []string{c.certFile, c.keyFile} {
		info, err := os.Stat(name)
		if err != nil {
			return files, fmt.Errorf("load the certificate of the callback listener: %w", err)
		}
		files[i] = fileVersion{info.ModTime(), info.Size()}
	}
	return files, nil
}
