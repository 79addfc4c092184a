package feed

import (
	"bytes"
	"slices"
	"strings"
)

// writeTag writes a start tag up to its end, or an empty element.
func (c *canonical) writeTag(n *node, declared []binding) {
	c.buf.WriteByte('<')
	c.name(n.prefix, n.local)
	slices.SortFunc(declared, func(a, b binding) int { return strings.Compare(a.prefix, b.prefix) })
	for _, b := range declared {
		c.buf.WriteString(" xmlns")
		if b.prefix != "" {
			c.buf.WriteString(":" + b.prefix)
		}
		c.value(b.uri)
	}
	attrs := n.attrs
	byName := func(a, b attribute) int {
		if d := strings.Compare(a.uri, b.uri); d != 0 {
			return d
		}
		return strings.Compare(a.local, b.local)
	}
	if !slices.IsSortedFunc(attrs, byName) {
		attrs = slices.Clone(attrs)
		slices.SortFunc(attrs, byName)
	}
	for _, a := range attrs {
		c.buf.WriteByte(' ')
		c.name(a.prefix, a.local)
		c.value(a.value)
	}
}

func (c *canonical) end(n *node) {
	c.buf.WriteString("</")
	c.name(n.prefix, n.local)
	c.buf.WriteByte('>')
}

func (c *canonical) name(prefix, local string) {
	if prefix != "" {
		c.buf.WriteString(prefix)
		c.buf.WriteByte(':')
	}
	c.buf.WriteString(local)
}

func (c *canonical) value(s string) {
	c.buf.WriteString(`="`)
	escape(&c.buf, s, true)
	c.buf.WriteByte('"')
}

// escape writes text, or an attribute's value, so that the same string is read again.
func escape(b *bytes.Buffer, s string, value bool) {
	from := 0
	for i := range len(s) {
		var ref string
		switch c := s[i]; {
		case c == '&':
			ref = "&amp;"
		case c == '<':
			ref = "&lt;"
		case c == '>':
			ref = "&gt;"
		case c == '\r':
			ref = "&#xD;"
		case !value:
			continue
		case c == '"':
			ref = "&quot;"
		case c == '\n':
			ref = "&#xA;"
		case c == '\t':
			ref = "&#x9;"
		default:
			continue
		}
		b.WriteString(s[from:i])
		b.WriteString(ref)
		from = i + 1
	}
	b.WriteString(s[from:])
}
