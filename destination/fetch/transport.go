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

// environment is what tests replace: where names resolve, how a connection is made, whose certificates count.
type environment struct {
	resolver *net.Resolver
	dial     func(ctx context.Context, network, addr string) (net.Conn, error)
	tls      *tls.Config
}

// newTransport builds one of the two pools. HTTP/1.1 only: in Go it is 1.8 to 4.2 times faster than HTTP/2 for many
// small bodies (speed.md 2), and its connections count, which is what the limits per host are about.
func newTransport(o Options, env environment, dialer *net.Dialer) *http.Transport {
	dial := dialer.DialContext
	if env.dial != nil {
		dial = env.dial
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:                  nil, // with one, the guard would look at the proxy's address instead of the target's
		DialContext:            dial,
		TLSClientConfig:        env.tls,
		TLSHandshakeTimeout:    tlsTimeout,
		ResponseHeaderTimeout:  headerTimeout,
		MaxResponseHeaderBytes: headerLimit,
		DisableCompression:     true, // else Content-Length and hash are not those of what was sent (F57)
		MaxConnsPerHost:        o.Concurrency + openDocuments,
		MaxIdleConnsPerHost:    o.Concurrency + openDocuments,
		MaxIdleConns:           max(512, 2*o.Concurrency),
		IdleConnTimeout:        idleConnection,
		ReadBufferSize:         16 << 10, // head and body of a small resource in one read
		Protocols:              protocols,
	}
}

// door is the http.RoundTripper below the retries: every attempt passes it, takes a place at its host, is counted, and
// tells the host how it went. It has no CloseIdleConnections on purpose: retryablehttp calls that whenever it gives up,
// and one bad host would cost all others their keep-alives.
type door struct {
	client  *Client
	guarded *http.Transport
	trusted *http.Transport
}

func (d *door) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	ex := exchangeOf(ctx)
	if first := ex.first; first != nil { // see ask
		ex.first = nil
		return first.resp, first.err
	}
	if d.client.closed.Load() {
		return nil, &kinded{kind: Canceled, err: ErrClosed}
	}
	h := d.client.hosts.get(ex.at.target, ex.policy)
	if err := h.acquire(ctx, d.client.options.MaxWait); err != nil {
		h.unref()
		return nil, err
	}
	transport := d.guarded
	if ex.at.trusted {
		transport = d.trusted
	}
	started := time.Now()
	ex.waits(true, started)
	resp, err := transport.RoundTrip(req)
	now := time.Now()
	ex.waits(false, now)
	if !neverSent(err) {
		d.client.countRequest(ex.policy)
		ex.requests++
	}
	if err != nil {
		k := classify(ctx, err)
		h.report(now, started, outcomeOf(k.kind, 0, 0), k.err)
		h.release()
		return nil, k
	}
	wait := retryAfter(resp.Header, now)
	ex.throttled = h.report(now, started, outcomeOf(KindUnknown, resp.StatusCode, wait), statusError(resp))
	if isRedirect(resp.StatusCode) {
		// Kept from net/http, whose own parsing would fail the request with an error that quotes the whole URL.
		ex.location = resp.Header.Get("Location")
		resp.Header.Del("Location")
	}
	switch usable := resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusPartialContent; {
	case usable && !ex.document:
		resp.Body = ex.hold(resp.Body, h)
		return resp, nil
	case !usable:
		resp.Body = firstPage(resp.Body)
	}
	h.release()
	return resp, nil
}

// firstPage replaces a body that nobody wants, of an error or a redirect, by the little that came of it in a short time:
// whoever reads it further up, retryablehttp included, cannot be held up by it. Read to its end, it leaves the
// connection usable.
func firstPage(b io.ReadCloser) io.ReadCloser {
	cut := time.AfterFunc(errorBodyTimeout, func() { _ = b.Close() })
	page, _ := io.ReadAll(io.LimitReader(b, errorBodyLimit+1))
	cut.Stop()
	_ = b.Close()
	if len(page) == 0 {
		return http.NoBody
	}
	return io.NopCloser(bytes.NewReader(page[:min(len(page), errorBodyLimit)]))
}

func (d *door) close() {
	d.guarded.CloseIdleConnections()
	d.trusted.CloseIdleConnections()
}
