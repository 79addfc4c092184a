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
	answerTimeout      = 5 * time.Second // for a body, after the status
	sendConnections    = 64              // to one host
	idleSenders        = 2048            // over all hosts
	drainLimit         = 64 << 10        // beyond MaxAnswer, to keep a connection
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
	// MaxAnswer is how many bytes of the answer's body are kept; default 4 KiB.
	MaxAnswer int64
	// Repeat is over how many hops of 307 and 308 the message is repeated.
	Repeat int
	// Timeout bounds all hops and the answer; default 30 s.
	Timeout time.Duration
}

// Answer is the answer to a Message.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
	// Cut says that Body is not all. The status is valid all the same.
	Cut        bool
	URL        string        // that answered, not redacted
	RetryAfter time.Duration // with any status, at most 1 h
}

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

// reservedHeaders would change the framing, or reveal more than needed (S-25).
var reservedHeaders = [...]string{"Accept-Encoding", "Connection", "Content-Length", "Expect", "Host", "Keep-Alive",
	"Proxy-Connection", "Referer", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "User-Agent"}

var originHeaders = [...]string{"Authorization", "Cookie", "Proxy-Authorization"}

func (c *Client) messageHeader(m *Message, ex *exchange, home bool) (http.Header, *classified) {
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

func (c *Client) messageRequest(m *Message, ex *exchange, home bool) (*http.Request, *classified) {
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
