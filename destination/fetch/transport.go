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

// roundTripper makes every attempt. CloseIdleConnections is missing on purpose: retryablehttp calls it whenever it
// gives up, and one bad host would cost all others their keep-alives.
type roundTripper struct {
	client *Client
	transports
}

// transports are one for each dialer (guard.dialers).
type transports struct{ guarded, trusted *http.Transport }

func (t *transports) to(at *origin) *http.Transport {
	if at.trusted {
		return t.trusted
	}
	return t.guarded
}

func (t *transports) close() {
	t.guarded.CloseIdleConnections()
	t.trusted.CloseIdleConnections()
}

func (d *roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	ex := exchangeOf(ctx)
	if d.client.closed.Load() {
		return nil, &Error{Kind: Canceled, Err: ErrClosed}
	}
	h := d.client.hosts.get(ex.at.target, ex.req.Policy)
	if err := h.acquire(ctx, maxWait); err != nil {
		h.unref()
		return nil, err
	}
	started := time.Now()
	ex.notifyWait(true, started)
	resp, err := d.to(ex.at).RoundTrip(req)
	now := time.Now()
	ex.notifyWait(false, now)
	if !neverSent(err) {
		d.client.countRequest(ex.req.Policy)
		ex.requests++
	}
	if err != nil {
		k := classify(ctx, err)
		h.report(now, started, attemptResultOf(k.Kind, 0, 0), k.Err)
		h.release()
		return nil, k
	}
	wait := retryAfter(resp.Header, now)
	ex.throttled = h.report(now, started, attemptResultOf(KindUnknown, resp.StatusCode, wait), statusError(resp))
	if isRedirect(resp.StatusCode) {
		// net/http would fail a bad Location with an error that quotes the whole URL.
		ex.location = resp.Header.Get("Location")
		resp.Header.Del("Location")
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
