package callback

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pair writes a certificate of that serial number and its key.
func pair(t *testing.T, serial int64) (certPEM, keyPEM []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "callback"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
}

// TestCertificates: new files are taken within ten seconds, broken ones never.
func TestCertificates(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	stamp := time.Unix(1_000_000, 0)
	put := func(name string, content []byte) {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
		stamp = stamp.Add(time.Second) // file systems may tell no finer
		if err := os.Chtimes(name, stamp, stamp); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := LoadCertificates(certFile, keyFile, nil); err == nil {
		t.Error("there is nothing to load")
	}
	cert1, key1 := pair(t, 1)
	cert2, key2 := pair(t, 2)
	cert3, key3 := pair(t, 3)
	put(certFile, cert1)
	put(keyFile, key2)
	if _, err := LoadCertificates(certFile, keyFile, nil); err == nil || !strings.Contains(err.Error(), "certificate of the callback listener") {
		t.Errorf("no pair: %v", err)
	}
	put(keyFile, key1)
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		c, err := LoadCertificates(certFile, keyFile, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		config := c.Config()
		serial := func() int64 {
			got, err := config.GetCertificate(&tls.ClientHelloInfo{})
			if err != nil {
				t.Fatal(err)
			}
			leaf, err := x509.ParseCertificate(got.Certificate[0])
			if err != nil {
				t.Fatal(err)
			}
			return leaf.SerialNumber.Int64()
		}
		want := func(n int64) {
			t.Helper()
			if got := serial(); got != n {
				t.Errorf("serves certificate %d, want %d", got, n)
			}
		}
		want(1)
		put(certFile, cert2) // half of a new pair
		want(1)
		<-time.After(certsEvery)
		want(1)
		if n := strings.Count(log.String(), "the old one stays"); n != 1 {
			t.Errorf("logged %d times: %s", n, log.String())
		}
		put(keyFile, key2)
		want(1)
		<-time.After(certsEvery)
		want(2)
		put(certFile, []byte("garbage"))
		for range 5 {
			<-time.After(certsEvery)
			want(2)
		}
		if n := strings.Count(log.String(), "the old one stays"); n != 2 {
			t.Errorf("logged %d times: %s", n, log.String())
		}
		if err := c.Reload(); err == nil {
			t.Error("reloaded garbage")
		}
		want(2)
		put(certFile, cert3)
		put(keyFile, key3)
		if err := c.Reload(); err != nil {
			t.Error(err)
		}
		want(3)
		if err := os.Remove(keyFile); err != nil {
			t.Fatal(err)
		}
		<-time.After(certsEvery)
		want(3)
		if strings.Contains(log.String(), "PRIVATE") {
			t.Error("a key was logged")
		}
	})
}

// TestTLS: the table holds over TLS too, by 1.2 and better, and only HTTP/1.1 is spoken.
func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	cert, key := pair(t, 1)
	for name, content := range map[string][]byte{certFile: cert, keyFile: key} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	certs, err := LoadCertificates(certFile, keyFile, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, nil, func(o *ServerOptions) { o.TLS = certs })
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(cert)
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
	defer tr.CloseIdleConnections()
	for range 2 {
		resp, _ := ask(t, &http.Client{Transport: tr}, "POST", strings.Replace(s.base, "http:", "https:", 1)+tokenOf, "x", "X-Hub-Signature", sign("x"))
		if resp.StatusCode != 200 || resp.ProtoMajor != 1 {
			t.Errorf("%s %s", resp.Proto, resp.Status)
		}
	}
	if c, err := tls.Dial("tcp", s.addr, &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}); err == nil {
		_ = c.Close()
		t.Error("TLS 1.1 was accepted")
	}
	// A handshake that does not come is cut like a header that does not come; by a server of its own, as one that comes may take
	// longer than this on a busy machine.
	hasty := serve(t, nil, func(o *ServerOptions) { o.TLS, o.headerTime = certs, 300*time.Millisecond })
	c, err := net.Dial("tcp", hasty.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil || os.IsTimeout(err) {
		t.Errorf("read %d, %v", n, err)
	}
}
