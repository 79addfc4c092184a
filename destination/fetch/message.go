package fetch

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	maxAnswer          = 4 << 10 // of a body are kept (F27)
	defaultSendTimeout = 30 * time.Second
	answerTimeout      = 5 * time.Second // for a body, after the status
	sendConnections    = 64              // to one host
	idleSenders        = 2048            // over all hosts
	drainLimit         = 64 << 10        // beyond maxAnswer, to keep a connection
)

// Message is a request whose answer is short.
type Message struct {
	Method string // default POST
	URL    string // as in Request
	Policy *Policy
	// Header is sent along. Credentials are dropped where a redirect leaves their origin.
	Header http.Header
	// Body must not change, even for a moment after Send.
	Body []byte
	// Repeat is over how many hops of 307 and 308 the message is repeated.
	Repeat int
	// Timeout bounds all hops and the answer; default 30 s.
	Timeout time.Duration
}

// Answer is the answer to a Message.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte // at most 4 KiB
	// Cut says that Body is not all. The status is valid all the same.
	Cut        bool
	URL        string        // that answered, not redacted
	RetryAfter time.Duration // with any status, at most 1 h
}

// reservedHeaders would change the framing, or reveal more than needed (S-25).
var reservedHeaders = [...]string{"Accept-Encoding", "Connection", "Content-Length", "Expect", "Host", "Keep-Alive",
	"Proxy-Connection", "Referer", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "User-Agent"}

var originHeaders = [...]string{"Authorization", "Cookie", "Proxy-Authorization"}

func (c *Client) messageHeader(m *Message, ex *exchange, home bool) (http.Header, *Error) {
	h := make(http.Header, len(m.Header)+4)
	for name, values := range m.Header {
		for _, v := range values {
			if !isToken(name) || !isHeaderValue(v) {
				return nil, because(Refused, "its header %q cannot be sent", name)
			}
			h.Add(name, v)
		}
	}
	if !home {
		for _, name := range originHeaders {
			h.Del(name)
		}
	}
	if ex.at.credentialed {
		ex.req.Policy.Auth.apply(h)
	}
	for _, name := range reservedHeaders {
		h.Del(name)
	}
	h.Set("User-Agent", c.options.UserAgent)
	h.Set("Accept-Encoding", "identity")
	// An empty entry is not sent, but lets net/http repeat a message when the peer closed an idle connection at that
	// moment; receivers must bear duplicates anyway (S-67).
	h["Idempotency-Key"] = nil
	return h, nil
}

func (c *Client) messageRequest(m *Message, ex *exchange, home bool) (*http.Request, *Error) {
	if !isToken(m.Method) || strings.EqualFold(m.Method, http.MethodConnect) {
		return nil, because(Refused, "method %q is not sent", m.Method)
	}
	h, err := c.messageHeader(m, ex, home)
	if err != nil {
		return nil, err
	}
	r, bad := http.NewRequest(m.Method, "", bytes.NewReader(m.Body)) //nolint:noctx // sendOnce gives it one
	if bad != nil {
		return nil, because(Refused, "method %q is not sent", m.Method)
	}
	r.URL, r.Host, r.Header = ex.url, ex.url.Host, h
	return r, nil
}

// newSender is for messages. Their connections are their own, so that a slow subscriber does not take those of
// resources.
func newSender(o Options, env environment, dialer *net.Dialer) *http.Transport {
	t := newTransport(o, env, dialer)
	t.ResponseHeaderTimeout = 0 // Message.Timeout bounds it (S-23)
	t.MaxConnsPerHost, t.MaxIdleConnsPerHost, t.MaxIdleConns = sendConnections, sendConnections, idleSenders
	t.ReadBufferSize = 0 // answers are short
	return t
}

// Send sends m once and returns the answer, whatever the status. Repeat allows the message to follow 307 and 308: under
// the address policy, never from https to http, never in a circle (F26).
//
// Without an answer it returns an *Error, which names only the origin of the URL, because the path of a callback is a
// secret (P10). Slots, rates and circuits of hosts do not apply.
func (c *Client) Send(ctx context.Context, m Message) (*Answer, error) {
	m.Method = cmp.Or(m.Method, http.MethodPost)
	if m.Timeout <= 0 {
		m.Timeout = defaultSendTimeout
	}
	ex := &exchange{client: c, req: Request{URL: m.URL, Policy: m.Policy}}
	timed, cancel := context.WithTimeoutCause(ctx, m.Timeout, because(Stalled, "no answer within %s", m.Timeout))
	defer cancel()
	a, k := c.send(timed, &m, ex)
	if k == nil {
		return a, nil
	}
	err := ex.wrap(strings.ToLower(m.Method), k)
	err.URL = "(a URL that cannot be read)"
	if ex.url != nil {
		err.URL = originOf(ex.url)
	}
	return nil, err
}

func (c *Client) send(ctx context.Context, m *Message, ex *exchange) (*Answer, *Error) {
	if k := ex.start(); k != nil {
		return nil, k
	}
	first := ex.url
	way := route{limit: m.Repeat, show: originOf}
	for {
		a, k := c.sendOnce(ctx, m, ex, sameOrigin(first, ex.url))
		if k != nil {
			return nil, k
		}
		again := a.Status == http.StatusTemporaryRedirect || a.Status == http.StatusPermanentRedirect
		if ex.location = a.Header.Get("Location"); m.Repeat <= 0 || !again || ex.location == "" {
			return a, nil
		}
		if k := way.next(ex, a.Status); k != nil {
			return nil, k
		}
	}
}

func (c *Client) sendOnce(ctx context.Context, m *Message, ex *exchange, home bool) (*Answer, *Error) {
	if c.closed.Load() {
		return nil, &Error{Kind: Canceled, Err: ErrClosed}
	}
	req, k := c.messageRequest(m, ex, home)
	if k != nil {
		return nil, k
	}
	resp, err := c.messages.to(ex.at).RoundTrip(req.WithContext(ctx))
	if !neverSent(err) {
		c.countRequest(m.Policy)
		ex.requests++
	}
	if err != nil {
		return nil, classify(ctx, err)
	}
	a := &Answer{Status: resp.StatusCode, Header: resp.Header, URL: ex.text,
		RetryAfter: retryAfter(resp.Header, time.Now())}
	a.Body, a.Cut = c.readAnswer(resp.Body, m)
	return a, nil
}

// The status is an answer even where the body fails or drips.
func (c *Client) readAnswer(b io.ReadCloser, m *Message) (kept []byte, cut bool) {
	if b == http.NoBody {
		return nil, false
	}
	late := time.AfterFunc(answerTimeout, func() { _ = b.Close() })
	defer func() {
		late.Stop()
		_ = b.Close()
	}()
	kept, err := io.ReadAll(io.LimitReader(b, maxAnswer))
	n := int64(len(kept))
	if err == nil && n == maxAnswer {
		var over int64
		over, err = io.Copy(io.Discard, io.LimitReader(b, drainLimit))
		n += over
		cut = over > 0
	}
	c.countBytes(m.Policy, int(n))
	return kept, cut || err != nil && !errors.Is(err, io.EOF)
}

func originOf(u *url.URL) string { return u.Scheme + "://" + printable(u.Host) + "/…" }
