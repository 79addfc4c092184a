package fetch

import (
	"net/url"
	"strings"
	"sync/atomic"
)

// origin is what follows from scheme, host and port of a URL under a policy.
type origin struct {
	policy       *Policy
	scheme, host string // as the URL writes them
	prefix       string // of its URLs, "" if they write the host differently
	target       string // host:port
	trusted      bool   // the operator listed that host
	credentialed bool   // the policy's credentials belong there
}

// origins remembers the last origin. The resources of a Source come from one origin, and to derive
// it anew for each costs a small download noticeably.
type origins struct{ last atomic.Pointer[origin] }

func (s *origins) of(u *url.URL, p *Policy) *origin {
	if o := s.last.Load(); o != nil && o.policy == p && o.host == u.Host && o.scheme == u.Scheme {
		return o
	}
	o := &origin{policy: p, scheme: u.Scheme, host: u.Host, target: hostPort(u), trusted: p.trusts(u),
		credentialed: p.ownsAuth(u)}
	if bare := (&url.URL{Scheme: u.Scheme, Host: u.Host}).String(); bare == u.Scheme+"://"+u.Host {
		o.prefix = bare
	}
	s.last.Store(o)
	return o
}

// plain builds a URL without parsing it: after the prefix of the last origin, text is a path of
// characters that no URL escapes. The result equals that of parseURL and String equals text;
// parsing and printing most URLs costs a small download much of its time.
func (s *origins) plain(text string) (*url.URL, bool) {
	o := s.last.Load()
	if o == nil || o.prefix == "" {
		return nil, false
	}
	path, ok := strings.CutPrefix(text, o.prefix)
	if !ok || path == "" || path[0] != '/' {
		return nil, false
	}
	for i := range len(path) {
		if c := path[i]; c != '/' && !unreserved(c) {
			return nil, false
		}
	}
	return &url.URL{Scheme: o.scheme, Host: o.host, Path: path}, true
}

// ownsAuth reports whether u is of the origin that the credentials belong to.
func (p *Policy) ownsAuth(u *url.URL) bool {
	if p == nil || p.Auth == nil || p.AuthOrigin == "" {
		return false
	}
	own, err := url.Parse(p.AuthOrigin)
	return err == nil && own.Host != "" && sameOrigin(own, u)
}
