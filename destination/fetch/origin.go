package fetch

import (
	"net/url"
	"strings"
	"sync/atomic"
)

type origin struct {
	policy       *Policy
	scheme, host string
	prefix       string // of its URLs, "" if they write the host differently
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
	if bare := (&url.URL{Scheme: u.Scheme, Host: u.Host}).String(); bare == u.Scheme+"://"+u.Host {
		o.prefix = bare
	}
	s.last.Store(o)
	return o
}

// plain builds a URL without parsing it, where text continues the last origin with characters that no URL escapes.
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

func (p *Policy) ownsAuth(u *url.URL) bool {
	if p == nil || p.Auth == nil || p.AuthOrigin == "" {
		return false
	}
	own, err := url.Parse(p.AuthOrigin)
	return err == nil && own.Host != "" && sameOrigin(own, u)
}
