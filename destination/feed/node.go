package feed

import (
	"net/url"
	"strings"
)

// node is a part of an entry: an element, a processing instruction, or text, which has neither name.
type node struct {
	prefix, local, uri string
	vocabulary         vocabulary
	attrs              []attribute
	uses               []binding // prefixes named in attribute values
	target             string    // of a processing instruction
	text               string
	kids               []*node
	at                 inherited
	outer              int // bindings in scope around it
}

type attribute struct{ prefix, local, uri, value string }

type binding struct{ prefix, uri string }

// inherited is what an element has from those around it.
type inherited struct {
	base     *url.URL // nil: unknown
	declared bool     // base comes from an xml:base
	lang     string
}

func (n *node) isElement() bool { return n.local != "" }

// name is the element's name in lower case if it belongs to v, else "".
func (n *node) name(v vocabulary) string {
	if n.vocabulary != v {
		return ""
	}
	return strings.ToLower(n.local)
}

// child is the first child of a name, nil for none.
func (n *node) child(v vocabulary, name string) *node {
	for _, k := range n.kids {
		if k.isElement() && k.name(v) == name {
			return k
		}
	}
	return nil
}

// childText is the trimmed text of the first child of a name that has text.
func (n *node) childText(v vocabulary, name string) string {
	for _, k := range n.kids {
		if k.isElement() && k.name(v) == name {
			if s := strings.TrimSpace(k.content()); s != "" {
				return s
			}
		}
	}
	return ""
}

// attr is the value of an attribute without a namespace in any letter case; the exact name goes first.
func (n *node) attr(name string) string {
	found := ""
	for _, a := range n.attrs {
		if a.uri != "" || !strings.EqualFold(a.local, name) {
			continue
		}
		if a.local == name {
			return a.value
		}
		found = a.value
	}
	return found
}

func (n *node) content() string {
	if !n.isElement() {
		if n.target != "" {
			return ""
		}
		return n.text
	}
	if len(n.kids) == 1 && !n.kids[0].isElement() {
		return n.kids[0].content()
	}
	var b strings.Builder
	n.appendText(&b)
	return b.String()
}

func (n *node) appendText(b *strings.Builder) {
	for _, k := range n.kids {
		if k.isElement() {
			k.appendText(b)
		} else if k.target == "" {
			b.WriteString(k.text)
		}
	}
}

// resolve makes ref absolute. An absolute or unresolvable one stays as it is.
func (p inherited) resolve(ref string) string {
	ref = strings.TrimSpace(ref)
	if p.base == nil || len(ref) > maxReference || absolute(ref) {
		return ref
	}
	u, err := p.base.Parse(ref)
	if err != nil {
		return ref
	}
	return u.String()
}

// maxReference bounds what is resolved; longer references stay as they are.
const maxReference = 8 << 10

func absolute(ref string) bool {
	for i := range len(ref) {
		switch c := ref[i]; {
		case c == ':':
			return i > 0
		case 'a' <= c|0x20 && c|0x20 <= 'z':
		case i > 0 && ('0' <= c && c <= '9' || c == '+' || c == '-' || c == '.'):
		default:
			return false
		}
	}
	return false
}

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
