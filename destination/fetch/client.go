// Package fetch is the only way to the network: it knows how to request one URL politely, safely and within bounds, or
// to send a message there. It refuses to know what the bytes mean, where they go and whether they were wanted.
package fetch

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-retryablehttp"
)

// Client sends requests, for the whole process and any number of goroutines.
type Client struct {
	options   Options
	hosts     *hosts
	resources *roundTripper
	messages  transports
	retrier   *retryablehttp.Client
	origins   origins

	all    Meter
	closed atomic.Bool

	small, large sync.Pool // copy buffers of Download
}

// New returns a Client, to be closed with Close.
func New(o Options) *Client { return newClient(o, environment{}) }

func newClient(o Options, env environment) *Client {
	o = o.withDefaults()
	c := &Client{options: o, hosts: newHosts(o)}
	guarded, trusted := newGuard(o.Allow).dialers(env.resolver)
	c.resources = &roundTripper{c, transports{newTransport(o, env, guarded), newTransport(o, env, trusted)}}
	c.messages = transports{newSender(o, env, guarded), newSender(o, env, trusted)}
	c.retrier = c.newRetrier(c.resources)
	c.small.New = func() any { b := make([]byte, smallBuffer); return &b }
	c.large.New = func() any { b := make([]byte, largeBuffer); return &b }
	return c
}

// Close drops idle connections; later requests fail with ErrClosed.
func (c *Client) Close() {
	c.closed.Store(true)
	c.resources.close()
	c.messages.close()
}

// Requests counts what was sent, retries and redirects included.
func (c *Client) Requests() int64 { return c.all.Requests() }

// Bytes counts received bytes of usable bodies and of answers to Send.
func (c *Client) Bytes() int64 { return c.all.Bytes() }

// Get returns a usable answer: 200, 206 to a range, 304 to validators. Everything else is an *Error.
func (c *Client) Get(ctx context.Context, req Request) (*Response, error) {
	ex := &exchange{client: c, req: req}
	resp, err := c.follow(ex.within(ctx), ex)
	if err != nil && req.JSON != nil {
		return nil, ex.wrap("post", err)
	}
	if err != nil {
		return nil, ex.wrap("get", err)
	}
	return resp, nil
}

func (c *Client) follow(ctx context.Context, ex *exchange) (*Response, *Error) {
	if err := ex.start(); err != nil {
		return nil, err
	}
	way := route{limit: redirectLimit, inScope: ex.req.InScope, show: redact}
	for {
		resp, err := c.ask(ctx, ex)
		if err != nil {
			return nil, err
		}
		if !isRedirect(resp.StatusCode) || ex.location == "" ||
			ex.req.JSON != nil && resp.StatusCode < http.StatusTemporaryRedirect {
			return ex.answer(resp)
		}
		_ = resp.Body.Close()
		if err := way.next(ex, resp.StatusCode); err != nil {
			return nil, err
		}
	}
}

func (c *Client) ask(ctx context.Context, ex *exchange) (*http.Response, *Error) {
	r := (&http.Request{
		Method:     http.MethodGet,
		URL:        ex.url,
		Proto:      "HTTP/1.1",
		ProtoMajor: 1,
		ProtoMinor: 1,
		Header:     c.header(ex),
	}).WithContext(ctx)
	if body := ex.req.JSON; body != nil {
		r.Method, r.ContentLength = http.MethodPost, int64(len(body))
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		r.Body, _ = r.GetBody()
	}
	// The first attempt is made without the copies of the retry library and of http.Client (performance.md 2).
	resp, err := c.resources.RoundTrip(r)
	if again, _ := c.checkRetry(ctx, resp, err); again && c.options.Retries > 0 {
		resp, err = c.askAgain(r, resp)
	}
	if err != nil {
		return nil, classify(ctx, err)
	}
	return resp, nil
}

func (ex *exchange) wrap(op string, k *Error) *Error {
	e := *k
	e.Op, e.Hop, e.Requests = op, ex.hop, ex.requests
	if ex.url != nil {
		e.URL = redact(ex.url)
	} else {
		e.URL = RedactURL(ex.req.URL)
	}
	return &e
}

// Meter counts the requests and bytes of one Policy. A nil Meter counts nothing.
type Meter struct {
	requests atomic.Int64
	bytes    atomic.Int64
}

// Requests counts what was sent, retries and redirects included.
func (m *Meter) Requests() int64 {
	if m == nil {
		return 0
	}
	return m.requests.Load()
}

// Bytes counts bytes of bodies, before decoding.
func (m *Meter) Bytes() int64 {
	if m == nil {
		return 0
	}
	return m.bytes.Load()
}

func (c *Client) countRequest(p *Policy) {
	c.all.requests.Add(1)
	if p != nil && p.Meter != nil {
		p.Meter.requests.Add(1)
	}
}

func (c *Client) countBytes(p *Policy, n int) {
	c.all.bytes.Add(int64(n))
	if p != nil && p.Meter != nil {
		p.Meter.bytes.Add(int64(n))
	}
}

// exchange is the state of one Get or Send. It travels in the context, because retryablehttp hands nothing else
// through.
type exchange struct {
	client    *Client
	req       Request  // of Send only URL and Policy
	url       *url.URL // of the current hop
	text      string   // url.String()
	at        *origin
	hop       int
	requests  int
	throttled bool // the host throttles all requests
	location  string
	slot      *host // held until the body is closed

	// Allocated with the exchange, because small downloads would pay for each one.
	body     body
	capped   capped
	response Response
}

func (ex *exchange) notifyWait(begins bool, at time.Time) {
	if ex.req.Waiting != nil {
		ex.req.Waiting(begins, at)
	}
}

type exchangeKey struct{}

func (ex *exchange) within(ctx context.Context) context.Context {
	return context.WithValue(ctx, exchangeKey{}, ex)
}

func exchangeOf(ctx context.Context) *exchange {
	ex, _ := ctx.Value(exchangeKey{}).(*exchange)
	return ex
}

func (ex *exchange) to(u *url.URL) {
	ex.url, ex.text, ex.at = u, u.String(), ex.client.origins.of(u, ex.req.Policy)
	ex.location = ""
}

// releaseSlot ends the use of the host's slot, if the exchange holds one for its body.
func (ex *exchange) releaseSlot() {
	if ex.slot != nil {
		ex.slot.release()
		ex.slot = nil
	}
}

// route is used instead of net/http's own following, which goes from https to http, leaks the first URL as Referer, and
// knows no scope (F60).
type route struct {
	visited []string
	limit   int
	inScope func(uri string) bool   // nil: everything is
	show    func(u *url.URL) string // without the secrets of messages
}

func (ex *exchange) start() *Error {
	u, err := parseURL(ex.req.URL)
	if err != nil {
		return err
	}
	ex.to(u)
	if inScope := ex.req.InScope; inScope != nil && !inScope(ex.text) {
		return because(Refused, "outside the scope of the Source; a prefix under scope would allow it")
	}
	return nil
}

func (r *route) next(ex *exchange, status int) *Error {
	from := ex.url
	ex.hop++ // a refused target is a failure of the hop
	r.visited = append(r.visited, ex.text)
	to, err := url.Parse(escapeStray(ex.location))
	if err != nil {
		return because(Broken, "redirected (%d) to something that is no URL", status)
	}
	to = from.ResolveReference(to)
	if err := checkURL(to); err != nil {
		return because(Refused, "redirected (%d): %w", status, err.Err)
	}
	switch {
	case len(r.visited) > r.limit:
		return because(Refused, "more than %d redirects, the last to %s", r.limit, r.show(to))
	case slices.Contains(r.visited, to.String()):
		return because(Refused, "redirects in a circle, back to %s", r.show(to))
	case from.Scheme == "https" && to.Scheme == "http":
		return because(Refused, "redirected (%d) from https down to http: %s", status, r.show(to))
	case r.inScope != nil && !r.inScope(to.String()):
		return because(Refused, "redirected (%d) to %s, outside the scope of the Source; "+
			"a prefix under scope would allow it", status, r.show(to))
	}
	ex.to(to)
	return nil
}

// Options configure a Client. The zero value allows public addresses only.
type Options struct {
	// UserAgent is sent with every request; default "resyncd".
	UserAgent string
	// Allow lists the networks beyond public addresses that may be dialled (network.allow).
	Allow []netip.Prefix
	// Concurrency is the most requests under way at one host; default 16. The number adapts to the host (F53).
	Concurrency int
	// IdleTimeout cuts a transfer that moves nothing for this long; default 60 s (F54). There is no total timeout.
	IdleTimeout time.Duration
	// Retries is how often one Get quickly retries a transient failure; default 2, below 0 for never.
	Retries int
	// Log receives retries and changes of pace at Debug; nil for silence.
	Log *slog.Logger
}

const (
	defaultUserAgent   = "resyncd"
	defaultConcurrency = 16
	defaultIdle        = 60 * time.Second
	defaultRetries     = 2

	// Without a minimum rate one byte now and then would hold a connection for ever (F54).
	minRate       = 64
	minRateWindow = 60 * time.Second
	// A longer wait, for Retry-After or the circuit, comes back at once as Throttled.
	maxWait = 2 * time.Second

	dialTimeout      = 10 * time.Second // F54
	tlsTimeout       = 10 * time.Second
	headerTimeout    = 30 * time.Second
	idleConnection   = 90 * time.Second
	headerLimit      = 256 << 10 // P8
	errorBodyLimit   = 4 << 10   // F27
	openDocuments    = 64        // beside those of resources
	errorBodyTimeout = 5 * time.Second
	redirectLimit    = 5         // F60
	retryAfterCap    = time.Hour // F53
)

func (o Options) withDefaults() Options {
	o.UserAgent = cmp.Or(o.UserAgent, defaultUserAgent)
	o.Retries = max(0, cmp.Or(o.Retries, defaultRetries))
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Concurrency <= 0 {
		o.Concurrency = defaultConcurrency
	}
	if o.IdleTimeout <= 0 {
		o.IdleTimeout = defaultIdle
	}
	return o
}
