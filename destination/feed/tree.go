package feed

import (
	"encoding/xml"
	"fmt"
	"strings"
)

// tree reads the element root, which was pushed last, up to its end, in limit bytes. stop recognises elements that
// cannot be its children: its end tag is missing then.
func (p *parser) tree(root *node, limit int, stop func(*node) bool) error {
	p.in.readLimit = p.offset + int64(limit)
	p.parts = 1 + len(root.attrs)
	depth := len(p.stack)
	var text []byte
	for {
		t, err := p.token()
		if err != nil {
			return err
		}
		switch t := t.(type) {
		case xml.CharData:
			text = append(text, t...)
			continue
		case xml.Comment, xml.Directive:
			continue
		}
		top := p.stack[len(p.stack)-1]
		if len(text) > 0 {
			top.kids = append(top.kids, &node{text: string(text)})
			text = text[:0]
			p.parts++
		}
		if p.parts > maxParts {
			return entryError(fmt.Sprintf("more than %d parts", maxParts))
		}
		switch t := t.(type) {
		case xml.ProcInst:
			if t.Target != "xml" {
				p.parts++
				top.kids = append(top.kids, &node{target: t.Target, text: string(t.Inst)})
			}
		case xml.StartElement:
			n, err := p.push(t)
			if err != nil {
				return err
			}
			if top == root && stop(n) {
				p.cut(depth)
				p.unread = t
				return nil
			}
			p.parts += 1 + len(t.Attr)
			top.kids = append(top.kids, n)
		case xml.EndElement:
			at := p.matchingDepth(t)
			switch {
			case at >= depth:
				p.cut(at - 1)
			case at > 0: // the end of the feed: this element lacks its end tag
				p.cut(depth)
				p.unread = t
				return nil
			}
			if len(p.stack) < depth {
				return nil
			}
		}
	}
}

func (n *node) has(uri, local string) bool {
	for _, a := range n.attrs {
		if a.uri == uri && a.local == local {
			return true
		}
	}
	return false
}

// usesOf appends the bound prefixes of a value's words: xsi:type="dc:URI" means a namespace.
func (p *parser) usesOf(uses []binding, value string) []binding {
	const longest, most = 1 << 10, 16
	if len(value) > longest {
		return uses
	}
	for i, word := range strings.Fields(value) {
		if i == most {
			break
		}
		prefix, _, ok := strings.Cut(word, ":")
		if !ok || prefix == "" {
			continue
		}
		if uri, ok := p.bound(prefix); ok {
			uses = append(uses, binding{prefix, uri})
		}
	}
	return uses
}
