package feed

import (
	"encoding/xml"
	"fmt"
	"strings"
)

// tree reads the element just pushed, up to its end, in limit bytes. stop recognises start tags that cannot be its
// children: its end tag is missing then.
func (p *parser) tree(e openElement, attrs []xml.Attr, limit int, stop func(openElement) bool) (*node, error) {
	p.in.readLimit = p.offset + int64(limit)
	p.parts = 0
	depth := len(p.stack)
	root := p.node(e, attrs)
	path := []*node{root}
	var text []byte
	flush := func() error {
		if len(text) > 0 {
			top := path[len(path)-1]
			top.kids = append(top.kids, &node{text: string(text)})
			text = text[:0]
			p.parts++
		}
		if p.parts > maxParts {
			return entryError(fmt.Sprintf("more than %d parts", maxParts))
		}
		return nil
	}
	for {
		t, err := p.token()
		if err != nil {
			return nil, err
		}
		switch t := t.(type) {
		case xml.CharData:
			text = append(text, t...)
		case xml.ProcInst:
			if err := flush(); err != nil {
				return nil, err
			}
			if t.Target != "xml" {
				p.parts++
				top := path[len(path)-1]
				top.kids = append(top.kids, &node{target: t.Target, text: string(t.Inst)})
			}
		case xml.StartElement:
			if err := flush(); err != nil {
				return nil, err
			}
			e, err := p.push(t)
			if err != nil {
				return nil, err
			}
			if len(path) == 1 && stop(e) {
				p.cut(depth)
				p.unread = t
				return root, nil
			}
			n := p.node(e, t.Attr)
			top := path[len(path)-1]
			top.kids = append(top.kids, n)
			path = append(path, n)
		case xml.EndElement:
			if err := flush(); err != nil {
				return nil, err
			}
			at := p.matchingDepth(t)
			switch {
			case at >= depth:
				p.cut(at - 1)
				path = path[:at-depth]
			case at > 0: // the end of the feed: this element lacks its end tag
				p.cut(depth)
				p.unread = t
				return root, nil
			}
			if len(path) == 0 {
				return root, nil
			}
		}
	}
}

func (p *parser) node(e openElement, attrs []xml.Attr) *node {
	p.parts += 1 + len(attrs)
	n := &node{prefix: e.prefix, local: e.local, uri: e.uri, vocabulary: p.vocabularyOf(e.uri), at: e.at}
	for _, a := range attrs {
		prefix, local := a.Name.Space, a.Name.Local
		if prefix == "xmlns" || prefix == "" && local == "xmlns" {
			continue
		}
		uri := ""
		if prefix != "" {
			uri = p.lookup(prefix)
		}
		if n.has(uri, local) { // not well-formed; the first one counts
			continue
		}
		n.attrs = append(n.attrs, attribute{prefix, local, uri, a.Value})
		if strings.IndexByte(a.Value, ':') > 0 {
			n.uses = p.usesOf(n.uses, a.Value)
		}
	}
	return n
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
