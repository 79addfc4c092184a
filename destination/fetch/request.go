package fetch

import (
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Policy is what one configured Source may cause to be requested. It is read only.
type Policy struct {
	// Trusted are the hosts that the operator listed, as host or host:port. They may be dialled whatever their address.
	Trusted []string
	// Auth goes to AuthOrigin only.
	Auth *Auth
	// AuthOrigin is the Source's own scheme://host[:port]. While it is empty no credentials are sent.
	AuthOrigin string
	// Concurrency and Rate, in requests a second, bound what is asked of each host of this Source (0: as the client).
	Concurrency int
	Rate        float64
	Meter       *Meter
}

// Auth are credentials. Any way of printing them shows a placeholder (P10).
type Auth struct {
	Bearer        string
	BasicUser     string // if Bearer is empty
	BasicPassword string
	Headers       map[string]string // e.g. an API key
}

// Format implements fmt.Formatter.
func (Auth) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "(credentials)") }

// LogValue implements slog.LogValuer.
func (Auth) LogValue() slog.Value { return slog.StringValue("(credentials)") }

// MarshalText implements encoding.TextMarshaler.
func (Auth) MarshalText() ([]byte, error) { return []byte("(credentials)"), nil }

// Request is a request for one URL. Only URL is needed.
type Request struct {
	// URL is absolute, http or https, without userinfo. What a URL may not contain is percent-encoded, nothing is
	// decoded (F80, F81).
	URL    string
	Policy *Policy

	// ETag and LastModified are validators from an earlier answer: with either the answer may be NotModified.
	ETag, LastModified string
	// NoCache asks intermediate caches for a fresh copy (F59).
	NoCache bool
	// Gzip is for documents: gzip is requested and handed through undecoded. Without it identity is requested, and a
	// gzip coding sent all the same is decoded (F57).
	//
	// The body of a document takes no slot at the host: the resources that it lists are fetched meanwhile.
	Gzip bool
	// NoContent takes a 204 for an answer without a body.
	NoContent bool
	// InScope, if set, decides about the URL and every redirect target (F51, F60).
	InScope func(uri string) bool
	// MaxBytes bounds the body as handed out (and the whole resource of a range), 0 for no bound (F56).
	MaxBytes int64
	// RangeFrom requests the rest from this byte on, if the strong ETag IfRange still holds, else everything.
	RangeFrom int64
	IfRange   string

	// Once turns quick retries off, except at a host that throttles all requests.
	Once bool

	// Waiting, if set, is called when a wait for the peer begins (true) and ends (false). Waits for a slot and pauses
	// between tries do not count.
	Waiting func(begins bool, at time.Time)

	queued bool // Download: the caller's queue waits out a Retry-After
	// wireLength is the length that a Download declared, 0 unknown (F57).
	wireLength int64
}

// Info is everything about an answer except its body.
type Info struct {
	Status int // 200, 204, 206 or 304
	// URL is the final URL, after redirects, without fragment.
	URL          string
	NotModified  bool
	ETag         string // with its quotes
	LastModified string
	Type         string
	// Encoding is the Content-Encoding in lower case, "" for identity.
	Encoding string
	Length   int64     // -1 if unknown or decoded here
	Total    int64     // of the whole resource; -1 unknown
	Date     time.Time // the Source's clock; zero if unreadable
	Header   http.Header
	// CloseDelimited says that a cut would look like the body's end (F55).
	CloseDelimited bool
	Requests       int
}

// strongETag reports whether ETag is fit for If-Range.
func (i *Info) strongETag() bool {
	return len(i.ETag) > 2 && i.ETag[0] == '"' && i.ETag[len(i.ETag)-1] == '"'
}

// Response is a usable answer. Body must be closed: until then that of a resource holds one of the host's slots. Its
// errors are *Error.
type Response struct {
	Info
	Body io.ReadCloser
}

// header has no Referer and no cookies; credentials go to their own origin only.
func (c *Client) header(ex *exchange) http.Header {
	req := &ex.req
	h := make(http.Header, 8)
	if ex.at.credentialed {
		req.Policy.Auth.apply(h)
	}
	h.Set("User-Agent", c.options.UserAgent)
	h.Set("Accept-Encoding", "identity")
	if req.Gzip {
		h.Set("Accept-Encoding", "gzip")
	}
	setValidator(h, "If-None-Match", req.ETag)
	setValidator(h, "If-Modified-Since", req.LastModified)
	if req.NoCache {
		h.Set("Cache-Control", "no-cache")
		h.Set("Pragma", "no-cache")
	}
	if req.RangeFrom > 0 {
		h.Set("Range", "bytes="+strconv.FormatInt(req.RangeFrom, 10)+"-")
		setValidator(h, "If-Range", req.IfRange)
	}
	return h
}

// setValidator drops a value that cannot be sent.
func setValidator(h http.Header, name, value string) {
	if value != "" && isHeaderValue(value) {
		h.Set(name, value)
	}
}

func (a *Auth) apply(h http.Header) {
	for name, value := range a.Headers {
		if isToken(name) && isHeaderValue(value) {
			h.Set(name, value)
		}
	}
	switch {
	case a.Bearer != "":
		setValidator(h, "Authorization", "Bearer "+a.Bearer)
	case a.BasicUser != "" || a.BasicPassword != "":
		h.Set("Authorization", "Basic "+a.basic())
	}
	// Framing is net/http's and the range is this package's.
	for _, name := range [...]string{"Range", "If-Range", "Connection", "Transfer-Encoding", "Content-Length", "Te",
		"Host"} {
		h.Del(name)
	}
}

func (a *Auth) basic() string {
	return base64.StdEncoding.EncodeToString([]byte(a.BasicUser + ":" + a.BasicPassword))
}

// conceal takes out what a peer must not get repeated in a message.
func (ex *exchange) conceal(text string) string {
	secrets := []string{ex.url.RawQuery}
	if ex.at.credentialed {
		a := ex.req.Policy.Auth
		secrets = append(secrets, a.Bearer, a.BasicPassword, a.basic())
		secrets = slices.AppendSeq(secrets, maps.Values(a.Headers))
	}
	for _, s := range secrets {
		if len(s) > 3 {
			text = strings.ReplaceAll(text, s, "…")
		}
	}
	return text
}

func isHeaderValue(v string) bool {
	return strings.IndexFunc(v, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) < 0
}

func isToken(name string) bool {
	return name != "" && strings.IndexFunc(name, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune("()<>@,;:\\\"/[]?={}", r)
	}) < 0
}

// retryAfter reads Retry-After: seconds or an HTTP date by the peer's own clock (F74), at most one hour (F53).
func retryAfter(h http.Header, now time.Time) time.Duration {
	v := strings.Trim(h.Get("Retry-After"), " \t")
	if v == "" {
		return 0
	}
	if strings.Trim(v, "0123456789") == "" {
		secs, _ := strconv.ParseUint(v, 10, 64) // the most there is, of a number beyond that
		return time.Duration(min(secs, uint64(retryAfterCap/time.Second))) * time.Second
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0
	}
	if date := answerDate(h); !date.IsZero() {
		now = date
	}
	// Sub saturates, so the year 9999 is never negative.
	return min(max(at.Sub(now), 0), retryAfterCap)
}

func answerDate(h http.Header) time.Time {
	t, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}
