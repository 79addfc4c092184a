package fetch

import (
	"net/url"
	"strings"
	"sync/atomic"
)

// origin is all that follows from scheme, host and port of a URL under a policy.
type origin struct {
	policy       *Policy
	scheme, host string // as the URL writes them
	prefix       string // of its URLs, "" if they do not write the host as it is
	target       string // host:port
	trusted      bool   // the operator wrote that host down
	credentialed bool   // it is where the policy's credentials belong
}

// origins remembers the last one. A Source's resources come from one origin, thousands in a row, and splitting, joining and
// comparing its parts anew for each was a twentieth of what a small download allocated.
type origins struct{ last atomic.Pointer[origin] }

func (s *origins) of(u *url.URL, p *Policy) *origin {
	if o := s.last.Load(); o != nil && o.policy == p && o.host == u.Host && o.scheme == u.Scheme {
		return o
	}
	o := &origin{policy: p, scheme: u.Scheme, host: u.Host, target: hostPort(u), trusted: p.trusts(u), credentialed: p.vouches(u)}
	if bare := (&url.URL{Scheme: u.Scheme, Host: u.Host}).String(); bare == u.Scheme+"://"+u.Host {
		o.prefix = bare
	}
	s.last.Store(o)
	return o
}

// plain is the URL of a text that needs no reading: after the prefix of the last origin it is a path of letters, digits and what
// else no URL escapes. It is what parseURL would return, and the text its String: to take most texts to pieces, only to put them
// together again, cost a small download as much as half of its hash.
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

// vouches reports whether u is of the origin that the credentials belong to.
func (p *Policy) vouches(u *url.URL) bool {
	if p == nil || p.Auth == nil || p.AuthOrigin == "" {
		return false
	}
	own, err := url.Parse(p.AuthOrigin)
	return err == nil && own.Host != "" && sameOrigin(own, u)
}
