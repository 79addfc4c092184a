package fetch

import (
	"net/url"
	"slices"
)

// route is used instead of net/http's own following, which goes from https to http, leaks the first URL as Referer, and
// knows no scope (F60).
type route struct {
	visited []string
	limit   int
	inScope func(uri string) bool   // nil: everything is
	show    func(u *url.URL) string // without the secrets of messages
}

func (ex *exchange) start() *Error {
	u, err := parseURL(ex.req.URL)
	if err != nil {
		return err
	}
	ex.to(u, u.String())
	if inScope := ex.req.InScope; inScope != nil && !inScope(ex.text) {
		return because(Refused, "outside the scope of the Source; a prefix under scope would allow it")
	}
	return nil
}

func (r *route) next(ex *exchange, status int) *Error {
	from := ex.url
	ex.hop++ // a refused target is a failure of the hop
	r.visited = append(r.visited, ex.text)
	to, err := url.Parse(escapeStray(ex.location))
	if err != nil {
		return because(Broken, "redirected (%d) to something that is no URL", status)
	}
	to = from.ResolveReference(to)
	if err := checkURL(to); err != nil {
		return because(Refused, "redirected (%d): %w", status, err.Err)
	}
	switch {
	case len(r.visited) > r.limit:
		return because(Refused, "more than %d redirects, the last to %s", r.limit, r.show(to))
	case slices.Contains(r.visited, to.String()):
		return because(Refused, "redirects in a circle, back to %s", r.show(to))
	case from.Scheme == "https" && to.Scheme == "http":
		return because(Refused, "redirected (%d) from https down to http: %s", status, r.show(to))
	case r.inScope != nil && !r.inScope(to.String()):
		return because(Refused, "redirected (%d) to %s, outside the scope of the Source; "+
			"a prefix under scope would allow it", status, r.show(to))
	}
	ex.to(to, to.String())
	return nil
}
