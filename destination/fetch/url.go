package fetch

import (
	"net"
	"net/url"
	"strings"
	"sync/atomic"
)

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
