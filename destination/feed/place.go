package feed

import (
	"net/url"
	"strings"
)

// under is the place below an xml:base.
func (p place) under(value string) place {
	value = strings.TrimSpace(value)
	u, err := url.Parse(value)
	if err != nil || len(value) > maxReference {
		return p
	}
	if p.base != nil {
		u = p.base.ResolveReference(u)
	}
	u.Fragment, u.RawFragment = "", ""
	p.base, p.declared = u, true
	return p
}
