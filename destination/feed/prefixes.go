package feed

import (
	"slices"
	"strings"
)

// declaration is one that an element makes, and what it hides.
type declaration struct {
	binding
	hidden string
	fresh  bool // it hides nothing
}

func (c *canonical) reset() {
	c.buf.Reset()
	c.scope, c.usuals, c.hoisted, c.local, c.most = map[string]string{}, map[string]string{}, c.hoisted[:0], c.local[:0], 0
}

// written is n as it is written: its own namespace and XHTML's without a prefix, well-known ones with their usual prefix.
// It is n where that is so already, and where a usual prefix stands for something else there.
func (c *canonical) written(n *node) *node {
	same := c.prefix(n) == n.prefix
	for _, a := range n.attrs {
		same = same && c.usual(a.prefix, a.uri) == a.prefix
	}
	if same {
		return n
	}
	m := *n
	m.prefix, m.attrs = c.prefix(n), slices.Clone(n.attrs)
	for i, a := range m.attrs {
		m.attrs[i].prefix = c.usual(a.prefix, a.uri)
	}
	if m.ambiguous() {
		return n
	}
	return &m
}

// prefix is the one that an element is to be written with.
func (c *canonical) prefix(n *node) string {
	if n.uri == c.own || n.uri == nsXHTML {
		return ""
	}
	return c.usual(n.prefix, n.uri)
}

// usual is the prefix that a namespace is nearly always given; that which was read where there is none.
func (c *canonical) usual(read, uri string) string {
	if uri == "" || uri == nsXML || len(uri) > maxKnown {
		return read
	}
	prefix, known := c.usuals[uri]
	if !known {
		prefix = usualPrefix(uri)
		c.usuals[uri] = prefix
	}
	if prefix == "" {
		return read
	}
	return prefix
}

// ambiguous tells whether a prefix would stand for two namespaces in one tag.
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

// need sees to it that all prefixes of an element are declared.
func (c *canonical) need(n *node) {
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
