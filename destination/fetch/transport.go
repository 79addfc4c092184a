package fetch

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"time"
)

// environment is what tests replace: name resolution, connections, certificates.
type environment struct {
	resolver *net.Resolver
	dial     func(ctx context.Context, network, addr string) (net.Conn, error)
	tls      *tls.Config
}

// newTransport builds one of the two pools. HTTP/1.1 only: it is faster in Go than HTTP/2 for many
// small bodies (performance.md 2), and the limits per host count its connections.
func newTransport(o Options, env environment, dialer *net.Dialer) *http.Transport {
	dial := dialer.DialContext
	if env.dial != nil {
		dial = env.dial
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:                  nil, // with a proxy, the guard would check the proxy's address instead of the target's
		DialContext:            dial,
		TLSClientConfig:        env.tls,
		TLSHandshakeTimeout:    tlsTimeout,
		ResponseHeaderTimeout:  headerTimeout,
		MaxResponseHeaderBytes: headerLimit,
		DisableCompression:     true, // otherwise Content-Length and hash are not those of the sent bytes (F57)
		MaxConnsPerHost:        o.Concurrency + openDocuments,
		MaxIdleConnsPerHost:    o.Concurrency + openDocuments,
		MaxIdleConns:           max(512, 2*o.Concurrency),
		IdleConnTimeout:        idleConnection,
		ReadBufferSize:         16 << 10, // head and body of a small resource in one read
		Protocols:              protocols,
	}
}

// roundTripper is the http.RoundTripper below the retries: every attempt passes it, takes a slot at
// its host, is counted, and reports to the host how it went. It has no CloseIdleConnections on
// purpose: retryablehttp calls that whenever it gives up, and one bad host would cost all others
// their keep-alives.
type roundTripper struct {
	client  *Client
	guarded *http.Transport
	trusted *http.Transport
}

func (d *roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	ex := exchangeOf(ctx)
	if d.client.closed.Load() {
		return nil, &classified{kind: Canceled, err: ErrClosed}
	}
	h := d.client.hosts.get(ex.at.target, ex.req.Policy)
	if err := h.acquire(ctx, maxWait); err != nil {
		h.unref()
		return nil, err
	}
	transport := d.guarded
	if ex.at.trusted {
		transport = d.trusted
	}
	started := time.Now()
	ex.notifyWait(true, started)
	resp, err := transport.RoundTrip(req)
	now := time.Now()
	ex.notifyWait(false, now)
	if !neverSent(err) {
		d.client.countRequest(ex.req.Policy)
		ex.requests++
	}
	if err != nil {
		k := classify(ctx, err)
		h.report(now, started, attemptResultOf(k.kind, 0, 0), k.err)
		h.release()
		return nil, k
	}
	wait := retryAfter(resp.Header, now)
	ex.throttled = h.report(now, started, attemptResultOf(KindUnknown, resp.StatusCode, wait), statusError(resp))
	if isRedirect(resp.StatusCode) {
		// Kept from net/http, whose own parsing would fail the request with an error that quotes
		// the whole URL.
		ex.location = resp.Header.Get("Location")
		resp.Header.Del("Location")
	}
	switch usable := resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusPartialContent; {
	case usable && !ex.req.Gzip:
		resp.Body = ex.hold(resp.Body, h)
		return resp, nil
	case !usable:
		resp.Body = startOfBody(resp.Body)
	}
	h.release()
	return resp, nil
}

// startOfBody replaces the body of an error or a redirect by what little of it arrives in a short
// time, so that no reader, retryablehttp included, is held up by it. A body that ends there leaves
// the connection usable.
func startOfBody(b io.ReadCloser) io.ReadCloser {
	cut := time.AfterFunc(errorBodyTimeout, func() { _ = b.Close() })
	page, _ := io.ReadAll(io.LimitReader(b, errorBodyLimit+1))
	cut.Stop()
	_ = b.Close()
	if len(page) == 0 {
		return http.NoBody
	}
	return io.NopCloser(bytes.NewReader(page[:min(len(page), errorBodyLimit)]))
}

func (d *roundTripper) close() {
	d.guarded.CloseIdleConnections()
	d.trusted.CloseIdleConnections()
}
