package feed

import (
	"net/url"
	"strings"
)

// withBase is what elements below inherit under an xml:base.
func (p inherited) withBase(value string) inherited {
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
