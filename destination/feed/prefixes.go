package feed

// declaration is one that an element makes, and what it hides.
type declaration struct {
	binding
	hidden string
	fresh  bool // it hides nothing
}

func (c *canonical) reset() {
	c.buf.Reset()
	c.scope, c.hoisted, c.local, c.most = map[string]string{}, c.hoisted[:0], c.local[:0], 0
}

// prefix is the one that an element is written with.
func (c *canonical) prefix(n *node) string {
	if c.atom && n.uri == nsAtom {
		return ""
	}
	return n.prefix
}

// need sees to it that all prefixes of an element are declared.
func (c *canonical) need(n *node, prefix string) {
	c.declare(binding{prefix, n.uri})
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
