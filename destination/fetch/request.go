package fetch

import (
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
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

	// JSON, if set, is POSTed, once however it fails: the second try is to ask for each resource. Of redirects only 307
	// and 308 are followed.
	JSON []byte

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

// strong reports whether an ETag is fit for If-Range.
func strong(etag string) bool {
	return len(etag) > 2 && etag[0] == '"' && etag[len(etag)-1] == '"'
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
	if req.JSON != nil {
		h.Set("Content-Type", "application/json")
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

// parseURL escapes invalid bytes and stray percent signs first: otherwise net/url re-encodes the whole path and turns
// %2F into / (F80, F81).
func parseURL(raw string) (*url.URL, *Error) {
	rest, ok := cutScheme(raw)
	if !ok {
		return nil, because(Refused, "not an absolute http or https URL")
	}
	head := len(raw) - len(rest)
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		head += i
	} else {
		head = len(raw)
	}
	if clean := escapeStray(raw[head:]); clean != raw[head:] {
		raw = raw[:head] + clean
	}
	u, err := url.Parse(raw)
	if err != nil {
		// url.Error repeats the whole URL, secrets included.
		return nil, because(Refused, "not a URL that can be asked for")
	}
	return u, checkURL(u)
}

func cutScheme(raw string) (rest string, ok bool) {
	for _, p := range [...]string{"http://", "https://"} {
		if len(raw) > len(p) && strings.EqualFold(raw[:len(p)], p) {
			return raw[len(p):], true
		}
	}
	return "", false
}

// checkURL refuses URLs that this package never requests, and drops the fragment.
func checkURL(u *url.URL) *Error {
	u.Fragment, u.RawFragment = "", ""
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return because(Refused, "scheme %q is not asked for, only http and https", u.Scheme)
	case u.Opaque != "" || u.Hostname() == "":
		return because(Refused, "not an absolute http or https URL")
	case !plainZone(u.Host):
		return because(Refused, "the zone of the address is not a name of letters and digits")
	case u.User != nil:
		return because(Refused, "user name or password in the URL: put credentials under auth of the Source")
	}
	return nil
}

// plainZone reports whether a zone can be written in a URL and read again, which net/url does not guarantee.
func plainZone(host string) bool {
	_, zone, ok := strings.Cut(host, "%")
	if !ok || host[0] != '[' {
		return true
	}
	zone, _, _ = strings.Cut(zone, "]")
	for i := range len(zone) {
		if !unreserved(zone[i]) {
			return false
		}
	}
	return true
}

// unreserved is RFC 3986, 2.3.
func unreserved(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '.', c == '_', c == '~':
		return true
	}
	return false
}

// validURLByte are the bytes that a URL may contain beside the unreserved ones.
const validURLByte = "!$&'()*+,;=:@/?[]#"

func escapeStray(s string) string {
	ok := func(i int) bool {
		c := s[i]
		switch {
		case unreserved(c):
			return true
		case c == '%':
			return i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2])
		}
		return strings.IndexByte(validURLByte, c) >= 0
	}
	clean := 0
	for clean < len(s) && ok(clean) {
		clean++
	}
	if clean == len(s) {
		return s
	}
	const digits = "0123456789ABCDEF"
	b := append(make([]byte, 0, len(s)+16), s[:clean]...)
	for i := clean; i < len(s); i++ {
		if ok(i) {
			b = append(b, s[i])
			continue
		}
		b = append(b, '%', digits[s[i]>>4], digits[s[i]&15])
	}
	return string(b)
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// hostPort is the address dialled for u. A name in another script is compared as written.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "80"
		if u.Scheme == "https" {
			port = "443"
		}
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && hostPort(a) == hostPort(b)
}

// RedactURL is a URL for logs and messages: no userinfo, no fragment, an ellipsis for the query (P10).
func RedactURL(raw string) string {
	u, err := parseURL(raw)
	if u == nil {
		return "(a URL that cannot be read)"
	}
	if err != nil {
		u.User = nil
	}
	return redact(u)
}

func redact(u *url.URL) string {
	s := u.Scheme + "://" + printable(u.Host) + u.EscapedPath()
	if u.RawQuery != "" {
		s += "?…"
	}
	return s
}

type origin struct {
	policy       *Policy
	scheme, host string
	target       string
	trusted      bool
	credentialed bool
}

// The resources of a Source share one origin, and deriving it costs a small download noticeably.
type origins struct{ last atomic.Pointer[origin] }

func (s *origins) of(u *url.URL, p *Policy) *origin {
	if o := s.last.Load(); o != nil && o.policy == p && o.host == u.Host && o.scheme == u.Scheme {
		return o
	}
	o := &origin{policy: p, scheme: u.Scheme, host: u.Host, target: hostPort(u), trusted: p.trusts(u),
		credentialed: p.ownsAuth(u)}
	s.last.Store(o)
	return o
}

func (p *Policy) ownsAuth(u *url.URL) bool {
	if p == nil || p.Auth == nil || p.AuthOrigin == "" {
		return false
	}
	own, err := url.Parse(p.AuthOrigin)
	return err == nil && own.Host != "" && sameOrigin(own, u)
}
