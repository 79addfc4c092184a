package fetch

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
	"github.com/hashicorp/go-retryablehttp"

	"resyncd/destination/backoff"
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

// guard decides on the address that is really dialled: that of a name can change at any time (DNS rebinding).
type guard struct {
	public *ssrf.Guardian
}

func newGuard(allow []netip.Prefix) guard {
	var v4, v6 []netip.Prefix
	for _, p := range allow {
		switch addr := p.Addr(); {
		case !p.IsValid():
		case addr.Is4():
			v4 = append(v4, p.Masked())
		case addr.Is4In6() && p.Bits() >= 96:
			v4 = append(v4, netip.PrefixFrom(addr.Unmap(), p.Bits()-96).Masked())
		default:
			v6 = append(v6, p.Masked())
		}
	}
	return guard{public: ssrf.New(ssrf.WithAnyPort(), ssrf.WithAllowedV4Prefixes(v4...),
		ssrf.WithAllowedV6Prefixes(v6...))}
}

func (g guard) control(network, address string, _ syscall.RawConn) error {
	if network != "tcp4" && network != "tcp6" {
		return because(Refused, "network %s is not dialled", network)
	}
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return because(Refused, "dial target %q is not an address: %w", address, err)
	}
	// The tables know neither 4-in-6 addresses nor zones.
	ip := target.Addr().Unmap().WithZone("")
	if err := g.public.SafeAddr(ip); err != nil {
		return because(Refused, "address %s is not public; network.allow: [%s] would allow it: %w", ip,
			netip.PrefixFrom(ip, ip.BitLen()), err)
	}
	return nil
}

// A pool is keyed by host only: a connection that one Source's Trusted allowed must not serve a Source without that
// trust.
func (g guard) dialers(resolver *net.Resolver) (guarded, trusted *net.Dialer) {
	guarded = &net.Dialer{Timeout: dialTimeout, Resolver: resolver, Control: g.control}
	trusted = &net.Dialer{Timeout: dialTimeout, Resolver: resolver}
	return guarded, trusted
}

func (p *Policy) trusts(u *url.URL) bool {
	if p == nil || len(p.Trusted) == 0 {
		return false
	}
	target := hostPort(u)
	host, _, _ := net.SplitHostPort(target)
	for _, t := range p.Trusted {
		name, port := splitTrusted(t)
		if strings.ToLower(name) == host && (port == "" || net.JoinHostPort(host, port) == target) {
			return true
		}
	}
	return false
}

// splitTrusted reads host, host:port, [v6]:port, [v6] and v6.
func splitTrusted(t string) (host, port string) {
	if h, p, err := net.SplitHostPort(t); err == nil {
		return h, p
	}
	return strings.TrimSuffix(strings.TrimPrefix(t, "["), "]"), ""
}

// The worker sleeps through the pauses of quick retries, so what lasts longer is for the caller's ledger.
const (
	retryBase   = 20 * time.Millisecond
	retryGrowth = 4
	// throttlePause is the wait after a 429, or a 503 of a throttling host, without Retry-After.
	throttlePause = 250 * time.Millisecond
)

func (c *Client) newRetrier(rt http.RoundTripper) *retryablehttp.Client {
	return &retryablehttp.Client{
		HTTPClient: &http.Client{
			Transport: rt,
			// Redirects are followed in client.go. A Timeout would cut large bodies.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		Logger:       nil, // it would log every URL with its query
		PrepareRetry: c.logRetry,
		RetryWaitMin: retryBase,
		RetryWaitMax: maxWait,
		RetryMax:     c.options.Retries - 1, // beside the first attempt, and the library's own first
		CheckRetry:   c.checkRetry,
		Backoff: func(shortest, longest time.Duration, attempt int, resp *http.Response) time.Duration {
			return pause(shortest, longest, attempt+1, resp)
		},
		ErrorHandler: retryablehttp.PassthroughErrorHandler, // else the last answer is lost
	}
}

// askAgain makes all attempts after a first one that failed in passing.
func (c *Client) askAgain(r *http.Request, resp *http.Response) (*http.Response, error) {
	wait := pause(retryBase, maxWait, 0, resp)
	if resp != nil {
		_, _ = io.CopyN(io.Discard, resp.Body, drainLimit) // so that its connection can be used again
		_ = resp.Body.Close()
	}
	if err := backoff.Wait(r.Context(), wait); err != nil {
		return nil, err
	}
	if err := c.logRetry(r); err != nil {
		return nil, err
	}
	return c.retrier.Do(&retryablehttp.Request{Request: r})
}

// checkRetry never retries what policy refused, nor a wait that belongs to the ledger.
func (c *Client) checkRetry(ctx context.Context, resp *http.Response, err error) (bool, error) {
	ex := exchangeOf(ctx)
	switch {
	case ctx.Err() != nil, ex.req.JSON != nil, err == nil && !isQuicklyRetried(resp.StatusCode),
		ex.req.Once && !ex.throttled:
		return false, nil
	case err != nil:
		k := classify(ctx, err)
		return k.Kind == Transient && !isTimeout(k.Err), nil
	}
	wait := retryAfter(resp.Header, time.Now())
	// The worker has other work meanwhile, except at a host that throttles all of it.
	if ex.req.queued && !ex.throttled && (wait > 0 || resp.StatusCode == http.StatusTooManyRequests) {
		return false, nil
	}
	return wait <= maxWait, nil
}

// pause is what the peer asked for, else shortest, longer with each attempt.
func pause(shortest, longest time.Duration, attempt int, resp *http.Response) time.Duration {
	if resp != nil {
		if wait := retryAfter(resp.Header, time.Now()); wait > 0 {
			return min(wait, longest)
		}
		if resp.StatusCode == http.StatusTooManyRequests ||
			resp.StatusCode == http.StatusServiceUnavailable && exchangeOf(resp.Request.Context()).throttled {
			shortest = throttlePause
		}
	}
	wait := shortest
	for range attempt {
		wait = min(wait*retryGrowth, longest)
	}
	return backoff.Jittered(min(wait, longest), 2)
}

func (c *Client) logRetry(req *http.Request) error {
	ex := exchangeOf(req.Context())
	c.options.Log.Debug("asking again", "url", redact(ex.url), "requests", ex.requests)
	return nil
}
