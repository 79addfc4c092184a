package fetch

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// post is the way out of messages: connections of their own, so that a slow subscriber of ours does not take those that
// resources come over, and none of the pace and circuits of the door, because its users keep their own ledgers.
type post struct{ guarded, trusted *http.Transport }

// newSender builds one of its two pools.
func newSender(o Options, env environment, dialer *net.Dialer) *http.Transport {
	t := newTransport(o, env, dialer)
	t.ResponseHeaderTimeout = 0 // Message.Timeout bounds it; a hub may verify inside of a subscribe request (S-23)
	t.MaxConnsPerHost, t.MaxIdleConnsPerHost, t.MaxIdleConns = sendConnections, sendConnections, idleSenders
	t.ReadBufferSize = 0 // answers are short
	return t
}

func (p *post) close() {
	p.guarded.CloseIdleConnections()
	p.trusted.CloseIdleConnections()
}

// Send says m once and returns what was answered, whatever the status. There are no retries; a redirect is an answer,
// but that a message is repeated as it is at the Location of 307 and 308 if Repeat allows it, each hop under the address
// policy, never from https to http, never in a circle (F26). Where there was no answer, or policy forbids to ask, it is
// an *Error: Stalled if Timeout was over, else as from Get. It names only the origin of the URL, because the path of a
// callback is a secret (P10). Places, rates and circuits of hosts do not apply.
func (c *Client) Send(ctx context.Context, m Message) (*Answer, error) {
	m = m.withDefaults()
	ex := &exchange{policy: m.Policy, origins: &c.origins}
	timed, cancel := context.WithTimeoutCause(ctx, m.Timeout, because(Stalled, "no answer within %s", m.Timeout))
	defer cancel()
	a, k := c.send(timed, &m, ex)
	if k == nil {
		return a, nil
	}
	err := ex.dress(strings.ToLower(m.Method), m.URL, k)
	err.URL = "(a URL that cannot be read)"
	if ex.url != nil {
		err.URL = originOf(ex.url)
	}
	return nil, err
}

// send goes from hop to hop.
func (c *Client) send(ctx context.Context, m *Message, ex *exchange) (*Answer, *kinded) {
	first, k := parseURL(m.URL)
	if k != nil {
		return nil, k
	}
	ex.to(first, first.String())
	way := route{permanent: true, limit: m.Repeat, show: originOf}
	for {
		a, k := c.sendOnce(ctx, m, ex, sameOrigin(first, ex.url))
		if k != nil {
			return nil, k
		}
		a.Permanent = ex.hop > 0 && way.permanent
		again := a.Status == http.StatusTemporaryRedirect || a.Status == http.StatusPermanentRedirect
		if ex.location = a.Header.Get("Location"); m.Repeat <= 0 || !again || ex.location == "" {
			return a, nil
		}
		if k := way.next(ex, a.Status); k != nil {
			return nil, k
		}
	}
}

// sendOnce is one hop.
func (c *Client) sendOnce(ctx context.Context, m *Message, ex *exchange, home bool) (*Answer, *kinded) {
	if c.closed.Load() {
		return nil, &kinded{kind: Canceled, err: ErrClosed}
	}
	req, k := c.messageRequest(m, ex, home)
	if k != nil {
		return nil, k
	}
	transport := c.post.guarded
	if ex.at.trusted {
		transport = c.post.trusted
	}
	resp, err := transport.RoundTrip(req.WithContext(ctx))
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

// readAnswer reads the start of a body, and a little over its end to keep the connection. However it ends, there was an
// answer: a peer that drips is not waited for.
func (c *Client) readAnswer(b io.ReadCloser, m *Message) (kept []byte, cut bool) {
	if b == http.NoBody {
		return nil, false
	}
	late := time.AfterFunc(answerTimeout, func() { _ = b.Close() })
	defer func() {
		late.Stop()
		_ = b.Close()
	}()
	kept, err := io.ReadAll(io.LimitReader(b, m.MaxAnswer))
	n := int64(len(kept))
	if err == nil && n == m.MaxAnswer {
		var over int64
		over, err = io.Copy(io.Discard, io.LimitReader(b, drainLimit))
		n += over
		cut = over > 0
	}
	c.countBytes(m.Policy, int(n))
	return kept, cut || err != nil && !errors.Is(err, io.EOF)
}

// originOf is a URL without all that may be a secret.
func originOf(u *url.URL) string { return u.Scheme + "://" + printable(u.Host) + "/…" }
