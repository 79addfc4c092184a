package fetch

import (
	"net/url"
	"sync/atomic"
)

// origin is all that follows from scheme, host and port of a URL under a policy.
type origin struct {
	policy       *Policy
	scheme, host string // as the URL writes them
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
	s.last.Store(o)
	return o
}

// vouches reports whether u is of the origin that the credentials belong to.
func (p *Policy) vouches(u *url.URL) bool {
	if p == nil || p.Auth == nil || p.AuthOrigin == "" {
		return false
	}
	own, err := url.Parse(p.AuthOrigin)
	return err == nil && own.Host != "" && sameOrigin(own, u)
}
