package feed

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
)

const xmlDeclaration = `<?xml version="1.0" encoding="UTF-8"?>` + "\n"

// canonical writes elements so that equal meaning gives equal bytes: namespaces are declared where the written element
// begins, whatever element of the feed declared them, attributes are sorted, the entry's own namespace and XHTML's have
// no prefix and well-known ones their usual prefix, CDATA becomes text, comments are left out. The rest stays: text,
// unknown elements, prefixes of other vocabularies.
type canonical struct {
	buf bytes.Buffer
	// bytes, about: without it, much declared and often used would grow beyond all bounds (P8)
	limit   int
	own     string    // namespace of the root
	hoisted []binding // declared on the root: the first namespace of each prefix
	local   []binding // declared in enclosing elements, where a prefix changes its meaning
	full    bool      // more were in scope somewhere than may be
}

const (
	maxHoisted  = 64  // declarations on the root; further prefixes are declared where they are used
	maxDeclared = 192 // declarations in scope; fewer than maxBindings, so that the output can be read
	// An entry may grow by this factor, as if all of it had to be escaped, and by mostAdded for the feed's
	// declarations.
	mostGrowth = 8
	mostAdded  = 32 << 10
)

// writeDocument writes n as a document of its own of about limit bytes at most, with base as its xml:base unless that
// is "", and with the inherited language.
func (c *canonical) writeDocument(n *node, base string, limit int) ([]byte, error) {
	c.reset()
	c.own, c.limit = n.uri, limit
	root := *n
	root.attrs = slices.DeleteFunc(slices.Clone(n.attrs), func(a attribute) bool {
		return a.uri == nsXML && (a.local == "base" || a.local == "lang")
	})
	bare := len(root.attrs) == 0
	if base != "" {
		root.attrs = append(root.attrs, attribute{"xml", "base", nsXML, base})
	}
	if n.at.lang != "" {
		root.attrs = append(root.attrs, attribute{"xml", "lang", nsXML, n.at.lang})
	}
	top := c.normalize(&root)
	c.declarePrefixes(top)
	c.writeBody(top, "\n  ")
	if c.full {
		return nil, entryError(fmt.Sprintf("more than %d namespaces at once", maxDeclared))
	}
	body := bytes.Clone(c.buf.Bytes())
	if bare && len(body) == 0 { // white space, or a language of nothing: all such entries would be equal
		return nil, entryError("it is empty")
	}

	c.buf.Reset()
	c.buf.WriteString(xmlDeclaration)
	c.writeTag(top, slices.DeleteFunc(c.hoisted, func(b binding) bool { return b.uri == "" }))
	if len(body) == 0 {
		c.buf.WriteString("/>\n")
	} else {
		c.buf.WriteByte('>')
		c.buf.Write(body)
		c.buf.WriteByte('\n')
		c.end(top)
		c.buf.WriteByte('\n')
	}
	if c.buf.Len() > c.limit {
		return nil, entryError(fmt.Sprintf("as a document of its own it has more than %d bytes", c.limit))
	}
	return bytes.Clone(c.buf.Bytes()), nil
}

// writeBody writes the content of n, each part on a line: white space there means nothing.
func (c *canonical) writeBody(n *node, line string) {
	for _, k := range n.kids {
		switch {
		case structural(k):
			c.buf.WriteString(line)
			c.writeElement(k, line)
		case k.isElement() || k.target != "":
			c.buf.WriteString(line)
			c.node(k)
		default:
			if s := strings.TrimSpace(k.text); s != "" {
				c.buf.WriteString(line)
				c.buf.WriteString(textEscapes.Replace(s))
			}
		}
	}
}

// structural reports an element that holds other elements and no text.
func structural(n *node) bool {
	switch n.name(atomVocabulary) {
	case "author", "contributor", "source":
		return len(n.kids) > 0
	}
	switch n.name(report) {
	case "content", "row":
		return len(n.kids) > 0
	}
	return false
}

// innerMarkup is the markup in n, a title, without its namespaces; cut behind the greatest length of a title.
func (c *canonical) innerMarkup(n *node) string {
	c.reset()
	c.own, c.limit = "", maxTitle
	for _, k := range n.kids {
		c.node(k)
	}
	return c.buf.String()
}

func (c *canonical) node(n *node) {
	switch {
	case n.target != "":
		c.buf.WriteString("<?" + n.target + " ")
		c.buf.WriteString(n.text)
		c.buf.WriteString("?>")
		return
	case !n.isElement():
		c.buf.WriteString(textEscapes.Replace(n.text))
		return
	}
	c.writeElement(n, "")
}

// writeElement writes an element, its content on lines of its own unless line, the beginning of its own line, is "".
func (c *canonical) writeElement(n *node, line string) {
	if c.full || c.buf.Len() > c.limit {
		return // refused
	}
	n = c.normalize(n)
	outer := len(c.local)
	c.declarePrefixes(n)
	c.writeTag(n, slices.Clone(c.local[outer:]))
	if len(n.kids) == 0 {
		c.buf.WriteString("/>")
	} else {
		c.buf.WriteByte('>')
		if line != "" {
			c.writeBody(n, line+"  ")
			c.buf.WriteString(line)
		} else {
			for _, k := range n.kids {
				c.node(k)
			}
		}
		c.end(n)
	}
	c.local = c.local[:outer]
}

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
	attrs := slices.SortedFunc(slices.Values(n.attrs), func(a, b attribute) int {
		return cmp.Or(strings.Compare(a.uri, b.uri), strings.Compare(a.local, b.local))
	})
	for _, a := range attrs {
		c.buf.WriteByte(' ')
		c.name(a.prefix, a.local)
		c.value(a.value)
	}
}

func (c *canonical) value(s string) { c.buf.WriteString(`="` + valueEscapes.Replace(s) + `"`) }

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

func (c *canonical) reset() {
	c.buf.Reset()
	c.hoisted, c.local, c.full = c.hoisted[:0], c.local[:0], false
}

// normalize is n with its written prefixes: its own namespace and XHTML's without one, well-known ones with their usual
// prefix. It is n itself if a usual prefix has another meaning there.
func (c *canonical) normalize(n *node) *node {
	m := *n
	m.prefix, m.attrs = usualPrefix(n.prefix, n.uri), slices.Clone(n.attrs)
	if n.uri == c.own || n.uri == nsXHTML {
		m.prefix = ""
	}
	for i, a := range m.attrs {
		m.attrs[i].prefix = usualPrefix(a.prefix, a.uri)
	}
	if m.ambiguous() {
		return n
	}
	return &m
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
	same := func(other binding) bool { return other.prefix == b.prefix }
	now := slices.IndexFunc(c.hoisted, same)
	bound := now >= 0 && c.hoisted[now].uri == b.uri
	for _, l := range c.local {
		if same(l) {
			now, bound = 0, l.uri == b.uri
		}
	}
	switch {
	case bound:
	case now < 0 && (len(c.hoisted) < maxHoisted || b.prefix == ""):
		c.hoisted = append(c.hoisted, b)
	default:
		c.local = append(c.local, b)
	}
	c.full = c.full || len(c.hoisted)+len(c.local) > maxDeclared
}
