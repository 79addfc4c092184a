package fetch

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	defaultMaxAnswer   = 4 << 10 // F27
	defaultSendTimeout = 30 * time.Second
	answerTimeout      = 5 * time.Second // for a body, once the status is there
	sendConnections    = 64              // to one host, for messages alone
	idleSenders        = 2048            // idle connections kept over all hosts
	drainLimit         = 64 << 10        // bytes beyond MaxAnswer that are read over to keep a connection
)

// Message is something said to a peer whose answer is short: a request to a hub, a verification, a notification. Only URL
// is needed.
type Message struct {
	Method string // default POST
	URL    string // as in Request
	Policy *Policy
	// Header is sent along. User-Agent, framing and what belongs to a connection are this package's, whatever it says;
	// credentials in it are dropped where a redirect leaves their origin.
	Header http.Header
	Body   []byte // must not change, even for a moment after Send; may be shared by many messages
	// MaxAnswer is how many bytes of the answer's body are kept; default 4 KiB.
	MaxAnswer int64
	// Repeat is on how many hops of 307 and 308 the same message is repeated; 0: every redirect is an answer.
	Repeat int
	// Timeout bounds everything, all hops and the answer included; default 30 s.
	Timeout time.Duration
}

// Answer is what a peer said to a Message.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte // its first MaxAnswer bytes
	// Cut: there was more than Body, or the rest did not come. The status holds all the same.
	Cut        bool
	URL        string        // that answered, after repetitions; not redacted
	RetryAfter time.Duration // as asked for with any status, at most 1 h; 0: it did not say
	Permanent  bool          // it was repeated at least once, and only for 308
}

// withDefaults fills what was left at zero.
func (m Message) withDefaults() Message {
	if m.Method == "" {
		m.Method = http.MethodPost
	}
	if m.MaxAnswer <= 0 {
		m.MaxAnswer = defaultMaxAnswer
	}
	if m.Timeout <= 0 {
		m.Timeout = defaultSendTimeout
	}
	return m
}

// notTheirs are header fields that a Message does not decide: framing, the connection, and what would say more about us
// than was asked (S-25).
var notTheirs = [...]string{"Accept-Encoding", "Connection", "Content-Length", "Expect", "Host", "Keep-Alive",
	"Proxy-Connection", "Referer", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "User-Agent"}

// atOrigin are the fields that stay at the origin they were written for.
var atOrigin = [...]string{"Authorization", "Cookie", "Proxy-Authorization"}

// messageHeader builds the header for the current hop; home tells that it is still the origin of the Message's URL.
func (c *Client) messageHeader(m *Message, ex *exchange, home bool) (http.Header, *kinded) {
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
		for _, name := range atOrigin {
			h.Del(name)
		}
	}
	if ex.at.credentialed {
		ex.policy.Auth.apply(h)
	}
	for _, name := range notTheirs {
		h.Del(name)
	}
	h.Set("User-Agent", c.options.UserAgent)
	h.Set("Accept-Encoding", "identity")
	// Present but empty it is not sent. It tells net/http that a message may be sent again on a new connection when the
	// peer closed an idle one at that very moment: whoever hears it twice must bear that anyway (S-67).
	h["Idempotency-Key"] = nil
	return h, nil
}

// messageRequest builds the request of the current hop.
func (c *Client) messageRequest(m *Message, ex *exchange, home bool) (*http.Request, *kinded) {
	if !isToken(m.Method) || strings.EqualFold(m.Method, http.MethodConnect) {
		return nil, because(Refused, "method %q is not sent", m.Method)
	}
	h, err := c.messageHeader(m, ex, home)
	if err != nil {
		return nil, err
	}
	r := &http.Request{
		Method:     m.Method,
		URL:        ex.url,
		Host:       ex.url.Host,
		Proto:      "HTTP/1.1",
		ProtoMajor: 1,
		ProtoMinor: 1,
		Header:     h,
	}
	if len(m.Body) > 0 {
		r.ContentLength = int64(len(m.Body))
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(m.Body)), nil }
		r.Body, _ = r.GetBody()
	}
	return r, nil
}
