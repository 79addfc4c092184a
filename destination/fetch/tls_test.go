package fetch

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// A server that offers HTTP/2 is asked over as many connections as there are places all the same (performance.md 7.1).
func TestTLSHasAConnectionForEachPlace(t *testing.T) {
	t.Parallel()
	const places = 8
	var mu sync.Mutex
	peers := make(map[string]int) // by address: the version of HTTP
	all := make(chan struct{})
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		peers[r.RemoteAddr] = r.ProtoMajor
		if len(peers) == places {
			close(all)
		}
		mu.Unlock()
		select {
		case <-all:
		case <-r.Context().Done():
		}
	}))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(srv.Close)
	roots := x509.NewCertPool()
	roots.AddCert(srv.Certificate())
	c := newClient(Options{Allow: loopback()}, environment{tls: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}})
	t.Cleanup(c.Close)
	var wg sync.WaitGroup
	for range places {
		wg.Go(func() {
			resp, err := c.Get(t.Context(), Request{URL: srv.URL})
			if err != nil {
				t.Error(err)
				return
			}
			readAll(t, resp)
		})
	}
	wg.Wait()
	for peer, version := range peers {
		if version != 1 {
			t.Errorf("%s was asked with HTTP/%d", peer, version)
		}
	}
}
