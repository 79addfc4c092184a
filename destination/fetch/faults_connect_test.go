package fetch

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// authority signs certificates of servers.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	a.cert, a.key = a.issue(&x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "an authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(48 * time.Hour), KeyUsage: x509.KeyUsageCertSign,
	})
	return a
}

// issue signs a certificate; the authority's own while it has none.
func (a *authority) issue(template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	parent, by := a.cert, a.key
	if parent == nil {
		parent, by = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

// TestBadCertificates: one that is over, is not valid yet, is another's, or is nobody's is asked once, and believed never
// (F61). The one that is right shows that nothing else stands in the way.
func TestBadCertificates(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	a := newAuthority(t)
	here := []net.IP{net.IPv4(127, 0, 0, 1)}
	for name, tc := range map[string]struct {
		template x509.Certificate
		signer   *authority
		fine     bool
	}{
		"right":          {x509.Certificate{IPAddresses: here, NotBefore: time.Now().Add(-day), NotAfter: time.Now().Add(day)}, a, true},
		"expired":        {x509.Certificate{IPAddresses: here, NotBefore: time.Now().Add(-2 * day), NotAfter: time.Now().Add(-time.Hour)}, a, false},
		"not valid yet":  {x509.Certificate{IPAddresses: here, NotBefore: time.Now().Add(time.Hour), NotAfter: time.Now().Add(day)}, a, false},
		"another name":   {x509.Certificate{DNSNames: []string{"lib.example"}, NotBefore: time.Now().Add(-day), NotAfter: time.Now().Add(day)}, a, false},
		"self-signed":    {x509.Certificate{IPAddresses: here, NotBefore: time.Now().Add(-day), NotAfter: time.Now().Add(day)}, &authority{t: t}, false},
		"for a client":   {x509.Certificate{IPAddresses: here, NotBefore: time.Now().Add(-day), NotAfter: time.Now().Add(day), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, a, false},
		"by another one": {x509.Certificate{IPAddresses: here, NotBefore: time.Now().Add(-day), NotAfter: time.Now().Add(day)}, newAuthority(t), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.template.SerialNumber = big.NewInt(2)
			if tc.template.ExtKeyUsage == nil {
				tc.template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
			}
			cert, key := tc.signer.issue(&tc.template)
			asked := 0
			srv := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
			srv.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}
			srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
			srv.StartTLS()
			t.Cleanup(srv.Close)
			roots := x509.NewCertPool()
			roots.AddCert(a.cert)
			c := newClient(Options{Allow: loopback()}, environment{tls: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}})
			t.Cleanup(c.Close)
			resp, err := c.Get(t.Context(), Request{URL: srv.URL})
			if tc.fine {
				if err != nil {
					t.Fatal(err)
				}
				readAll(t, resp)
				return
			}
			if e := wantKind(t, err, TLS); e.Requests != 1 || asked != 0 {
				t.Errorf("%d attempts, %d requests arrived: %v", e.Requests, asked, err)
			}
		})
	}
}

// TestNamesWithoutAnswer: whatever a resolver says but an address is a failure that passes, never one of the resource (F62).
func TestNamesWithoutAnswer(t *testing.T) {
	t.Parallel()
	for name, n := range map[string]*names{
		"no such name": {failure: dnsmessage.RCodeNameError}, "server failure": {failure: dnsmessage.RCodeServerFailure},
		"refused": {failure: dnsmessage.RCodeRefused}, "no format": {failure: dnsmessage.RCodeFormatError},
		"no address": {answers: map[string][]string{"lib.example": {""}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClient(Options{Retries: -1}, environment{resolver: n.resolver()})
			t.Cleanup(c.Close)
			_, err := c.Get(t.Context(), Request{URL: "http://lib.example/"})
			wantKind(t, err, Transient)
		})
	}
}

// TestConnectionsThatHang: neither a connection that is not made nor a TLS handshake that does not go on takes more than
// its ten seconds (F54).
func TestConnectionsThatHang(t *testing.T) {
	t.Parallel()
	guarded, trusted := newGuard(nil).dialers(nil)
	if guarded.Timeout != dialTimeout || trusted.Timeout != dialTimeout || dialTimeout != 10*time.Second {
		t.Errorf("a connection may take %v, %v", guarded.Timeout, trusted.Timeout)
	}
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		c := newClient(Options{Retries: -1}, environment{dial: m.dial})
		defer c.Close()
		defer m.Close() //nolint:errcheck // in memory
		held := make(chan net.Conn, 1)
		go func() {
			conn, _ := m.Accept() // and says nothing
			held <- conn
		}()
		began := time.Now()
		_, err := c.Get(t.Context(), Request{URL: "https://source.example/"})
		if e := wantKind(t, err, Transient); time.Since(began) != 10*time.Second {
			t.Errorf("%v after %v", e, time.Since(began))
		}
		_ = (<-held).Close()
	})
}
