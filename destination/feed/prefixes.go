package feed

import (
	"slices"
	"strings"
)

// declaration is a declaration of an element, and what it hides.
type declaration struct {
	binding
	hidden string
	fresh  bool // it hides nothing
}

func (c *canonical) reset() {
	c.buf.Reset()
	c.scope, c.prefixes = map[string]string{}, map[string]string{}
	c.hoisted, c.local, c.most = c.hoisted[:0], c.local[:0], 0
}

// normalize is n with its written prefixes: its own namespace and XHTML's without one, well-known ones with their usual
// prefix. It is n itself if nothing changes, or if a usual prefix has another meaning there.
func (c *canonical) normalize(n *node) *node {
	same := c.prefixOf(n) == n.prefix
	for _, a := range n.attrs {
		same = same && c.usualPrefixOf(a.prefix, a.uri) == a.prefix
	}
	if same {
		return n
	}
	m := *n
	m.prefix, m.attrs = c.prefixOf(n), slices.Clone(n.attrs)
	for i, a := range m.attrs {
		m.attrs[i].prefix = c.usualPrefixOf(a.prefix, a.uri)
	}
	if m.ambiguous() {
		return n
	}
	return &m
}

// prefixOf is the prefix to write for an element.
func (c *canonical) prefixOf(n *node) string {
	if n.uri == c.own || n.uri == nsXHTML {
		return ""
	}
	return c.usualPrefixOf(n.prefix, n.uri)
}

// usualPrefixOf is the usual prefix of a namespace, else the one read.
func (c *canonical) usualPrefixOf(read, uri string) string {
	if uri == "" || uri == nsXML || len(uri) > maxKnown {
		return read
	}
	prefix, known := c.prefixes[uri]
	if !known {
		prefix = usualPrefix(uri)
		c.prefixes[uri] = prefix
	}
	if prefix == "" {
		return read
	}
	return prefix
}

// ambiguous reports whether a prefix would stand for two namespaces in one tag.
func (n *node) ambiguous() bool {
	all := append([]binding{{n.prefix, n.uri}}, n.uses...)
	for _, a := range n.attrs {
		if a.prefix != "" {
			all = append(all, binding{a.prefix, a.uri})
		}
	}
	slices.SortFunc(all, func(a, b binding) int { return strings.Compare(a.prefix, b.prefix) })
	for i := range all[1:] {
		if all[i].prefix == all[i+1].prefix && all[i].uri != all[i+1].uri {
			return true
		}
	}
	return false
}

// declarePrefixes declares the missing prefixes of an element.
func (c *canonical) declarePrefixes(n *node) {
	c.declare(binding{n.prefix, n.uri})
	for _, a := range n.attrs {
		if a.prefix != "" {
			c.declare(binding{a.prefix, a.uri})
		}
	}
	for _, b := range n.uses {
		c.declare(b)
	}
}

func (c *canonical) declare(b binding) {
	if b.prefix == "xml" || b.prefix == "xmlns" {
		return
	}
	now, bound := c.scope[b.prefix]
	switch {
	case bound && now == b.uri:
		return
	case !bound && (len(c.hoisted) < maxHoisted || b.prefix == ""):
		c.hoisted = append(c.hoisted, b)
	default:
		c.local = append(c.local, declaration{b, now, !bound})
	}
	c.scope[b.prefix] = b.uri
	c.most = max(c.most, len(c.hoisted)+len(c.local))
}
