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

type environment struct {
	resolver *net.Resolver
	dial     func(ctx context.Context, network, addr string) (net.Conn, error)
	tls      *tls.Config
}

// HTTP/1.1 only, see performance.md 2; the limits per host count its connections.
func newTransport(o Options, env environment, dialer *net.Dialer) *http.Transport {
	dial := dialer.DialContext
	if env.dial != nil {
		dial = env.dial
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:                  nil, // the guard would check the proxy's address
		DialContext:            dial,
		TLSClientConfig:        env.tls,
		TLSHandshakeTimeout:    tlsTimeout,
		ResponseHeaderTimeout:  headerTimeout,
		MaxResponseHeaderBytes: headerLimit,
		DisableCompression:     true, // else Content-Length and hash are not those of the sent bytes (F57)
		MaxConnsPerHost:        o.Concurrency + openDocuments,
		MaxIdleConnsPerHost:    o.Concurrency + openDocuments,
		MaxIdleConns:           max(512, 2*o.Concurrency),
		IdleConnTimeout:        idleConnection,
		ReadBufferSize:         16 << 10, // head and body of a small resource in one read
		Protocols:              protocols,
	}
}

// transports are two: a pool is keyed by host only, and a connection that one Source's Trusted allowed must not serve a
// Source without that trust.
type transports struct{ guarded, trusted *http.Transport }

func (t *transports) at(o *origin) *http.Transport {
	if o.trusted {
		return t.trusted
	}
	return t.guarded
}

func (t *transports) close() {
	t.guarded.CloseIdleConnections()
	t.trusted.CloseIdleConnections()
}

// askOnce makes one attempt.
func (c *Client) askOnce(req *http.Request, ex *exchange) (*http.Response, *classified) {
	ctx := req.Context()
	if c.closed.Load() {
		return nil, &classified{kind: Canceled, err: ErrClosed}
	}
	h := c.hosts.get(ex.at.target, ex.req.Policy)
	if err := h.acquire(ctx, maxWait); err != nil {
		h.unref()
		return nil, classify(ctx, err)
	}
	started := time.Now()
	ex.notifyWait(true, started)
	resp, err := c.resources.at(ex.at).RoundTrip(req)
	now := time.Now()
	ex.notifyWait(false, now)
	if !neverSent(err) {
		c.countRequest(ex.req.Policy)
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
		ex.location = resp.Header.Get("Location")
	}
	switch usable := resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusPartialContent; {
	case usable && !ex.req.Gzip:
		ex.slot = h
		return resp, nil
	case !usable:
		resp.Body = startOfBody(resp.Body)
	}
	h.release()
	return resp, nil
}

// startOfBody keeps an error or a redirect from holding up its reader.
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
