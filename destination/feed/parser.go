package feed

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds besides Limits (P8).
const (
	maxToken      = 1 << 20 // bytes of a token outside the entries
	maxParts      = 100_000 // elements, texts and attributes of an entry
	maxAttributes = 256     // of an element
	maxBindings   = 256     // namespace declarations in scope
	maxNamespace  = 1 << 10 // bytes of a namespace: each is written and compared over and over
	maxPrefix     = 256     // also of an undeclared one, from which its namespace is made
	maxProblems   = 20
	maxEntryLinks = 1000 // of an entry: a resolved link may be far longer than the written one
)

// parser knows the nesting of elements, where the standard decoder in its lenient mode gives only tags. It forgives
// missing and superfluous end tags, and can go on behind what cannot be read.
type parser struct {
	in       *input
	d        *xml.Decoder
	limits   Limits
	origin   inherited // of the document
	kind     Kind
	rootURI  string
	stack    []*node // elements without their end yet
	bindings []binding
	unread   xml.Token // to be given again
	line     int       // where the last token began
	offset   int64
	parts    int
}

func newParser(in *input, o Options) *parser {
	p := &parser{in: in, limits: o.Limits}
	p.limits.Entries = cmp.Or(p.limits.Entries, 100_000)
	p.limits.EntryBytes = cmp.Or(p.limits.EntryBytes, 4<<20)
	p.limits.Depth = cmp.Or(p.limits.Depth, 200)
	p.restart()
	return p
}

// restart makes a decoder for the rest, because a decoder keeps its first error for ever.
func (p *parser) restart() {
	p.d = xml.NewDecoder(p.in)
	p.d.Strict = false
	p.d.Entity = xml.HTMLEntity // no others: a document type's are not read
	p.d.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil }
	p.unread = nil
}

// token returns the next token. Its text is valid until the next one.
func (p *parser) token() (xml.Token, error) {
	if t := p.unread; t != nil {
		p.unread = nil
		return t, nil
	}
	p.line, p.offset = p.in.line, p.in.offset
	return p.d.RawToken()
}

// feedToken is token outside the entries.
func (p *parser) feedToken() (xml.Token, error) {
	p.in.readLimit = p.in.offset + maxToken
	return p.token()
}

// asError turns err into the Error that ends the document.
func (p *parser) asError(err error) error {
	var said *Error
	switch {
	case p.in.err != nil:
		return p.in.err
	case errors.As(err, &said):
		return said
	}
	var syntax *xml.SyntaxError
	problem := err.Error()
	switch {
	case errors.Is(err, io.EOF):
		problem = "the document ends before its root does"
		if len(p.stack) == 0 {
			problem = "no XML in it"
		}
	case errors.As(err, &syntax):
		problem = syntax.Msg
	}
	return &Error{Line: p.in.line, Offset: p.in.offset, Problem: problem}
}

// lookup is the namespace of a prefix in scope. The empty prefix of an attribute has none.
func (p *parser) lookup(prefix string) string {
	if prefix == "xml" {
		return nsXML
	}
	if uri, ok := p.bound(prefix); ok {
		return uri
	}
	if prefix == "" {
		return ""
	}
	return usualNamespace(prefix)
}

func (p *parser) bound(prefix string) (string, bool) {
	for i := len(p.bindings) - 1; i >= 0; i-- {
		if b := p.bindings[i]; b.prefix == prefix {
			return b.uri, b.uri != ""
		}
	}
	return "", false
}

// push begins an element: its declarations, base and language hold until it is cut.
func (p *parser) push(t xml.StartElement) (*node, error) {
	n := &node{prefix: t.Name.Space, local: t.Name.Local, outer: len(p.bindings), at: p.origin}
	if depth := len(p.stack); depth > 0 {
		n.at = p.stack[depth-1].at
	}
	if len(p.stack) >= p.limits.Depth {
		return n, entryError(fmt.Sprintf("elements in each other more than %d deep", p.limits.Depth))
	}
	own, longest, prefix := 0, 0, len(n.prefix)
	for _, a := range t.Attr {
		switch {
		case isDeclaration(a.Name):
			b := binding{"", strings.TrimSpace(a.Value)}
			if a.Name.Space != "" {
				b.prefix = a.Name.Local
			}
			p.bindings = append(p.bindings, b)
			longest = max(longest, len(b.uri))
		case a.Name.Space == "xml" && a.Name.Local == "base":
			n.at = n.at.withBase(a.Value)
		case a.Name.Space == "xml" && a.Name.Local == "lang":
			n.at.lang = strings.TrimSpace(a.Value)
		default:
			own++
			prefix = max(prefix, len(a.Name.Space))
		}
	}
	var fault string
	switch {
	case own > maxAttributes:
		fault = fmt.Sprintf("more than %d attributes of <%s>", maxAttributes, clip(n.local))
	case len(p.bindings) > maxBindings:
		fault = fmt.Sprintf("more than %d namespace declarations", maxBindings)
	case longest > maxNamespace:
		fault = fmt.Sprintf("a namespace of more than %d bytes", maxNamespace)
	case prefix > maxPrefix:
		fault = fmt.Sprintf("a prefix of more than %d bytes", maxPrefix)
	// encoding/xml looks at prefix and name as one, and the name may be written without the prefix
	case !beginsName(n.local):
		fault = fmt.Sprintf("invalid XML name: %s", clip(n.local))
	}
	if fault != "" {
		p.bindings = p.bindings[:n.outer]
		return n, entryError(fault)
	}
	n.uri = p.lookup(n.prefix)
	n.vocabulary = p.vocabularyOf(n.uri)
	p.addAttributes(n, t.Attr)
	p.stack = append(p.stack, n)
	return n, nil
}

func isDeclaration(name xml.Name) bool {
	return name.Space == "xmlns" || name.Space == "" && name.Local == "xmlns"
}

func (p *parser) addAttributes(n *node, attrs []xml.Attr) {
	for _, a := range attrs {
		if isDeclaration(a.Name) {
			continue
		}
		uri := ""
		if a.Name.Space != "" {
			uri = p.lookup(a.Name.Space)
		}
		if slices.ContainsFunc(n.attrs, func(b attribute) bool { return b.uri == uri && b.local == a.Name.Local }) {
			continue // not well-formed; the first one counts
		}
		n.attrs = append(n.attrs, attribute{a.Name.Space, a.Name.Local, uri, a.Value})
		if strings.IndexByte(a.Value, ':') > 0 {
			n.uses = p.usesOf(n.uses, a.Value)
		}
	}
}

// cut ends all elements deeper than depth.
func (p *parser) cut(depth int) {
	if depth < len(p.stack) {
		p.bindings = p.bindings[:p.stack[depth].outer]
		p.stack = p.stack[:depth]
	}
}

// matchingDepth is the depth of the innermost element that an end tag can mean; 0 for none.
func (p *parser) matchingDepth(t xml.EndElement) int {
	for i := len(p.stack); i > 0; i-- {
		if e := p.stack[i-1]; e.prefix == t.Name.Space && strings.EqualFold(e.local, t.Name.Local) {
			return i
		}
	}
	return 0
}

// vocabularyOf is what an element of this document belongs to. An element without a namespace, or in RSS with the
// root's own, belongs to the format.
func (p *parser) vocabularyOf(uri string) vocabulary {
	v := vocabularyOf(uri)
	switch {
	case p.kind == Atom && v == unnamed:
		return atomVocabulary
	case p.kind == RSS && (v == unnamed || v == rdfVocabulary || v == foreign && uri == p.rootURI):
		return rssVocabulary
	}
	return v
}

func clip(s string) string { return s[:min(len(s), 40)] }

// beginsName reports whether a name may begin as s does.
func beginsName(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return r == '_' || unicode.Is(unicode.Nl, r) || unicode.IsLetter(r) && !unicode.Is(unicode.Lm, r)
}

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

// Sniff finds the kind of a feed by the document's root element, whatever its content type says (S-65). head is its
// beginning, best with the whole root tag; of contentType only a charset counts. Entries and items without their
// namespace are no feed here, though Read reads them: too much other XML has such roots.
func Sniff(contentType string, head []byte) Kind {
	for _, end := range []string{"", ">", `">`, `'>`, `="">`, "?>"} { // the root tag may be cut
		text, _ := decode(io.MultiReader(bytes.NewReader(head), strings.NewReader(end)), contentType)
		p := newParser(newInput(text), Options{})
		e, err := p.root(inherited{})
		if err == nil {
			v := vocabularyOf(e.uri)
			if strings.EqualFold(e.local, "entry") && v == unnamed ||
				strings.EqualFold(e.local, "item") && v != rssVocabulary {
				return None
			}
			return p.kind
		}
		var said *Error
		if errors.As(err, &said) {
			return None
		}
	}
	return None
}

// root reads up to the root's start tag and decides on the kind. Its error is an *Error where the root is no feed's.
func (p *parser) root(at inherited) (*node, error) {
	p.origin = at
	t, err := p.startTag()
	if err != nil {
		return nil, err
	}
	line, offset := p.line, p.offset
	e, err := p.push(t)
	if err != nil {
		return nil, err
	}
	p.rootURI = e.uri
	v := vocabularyOf(e.uri)
	switch strings.ToLower(e.local) {
	case "feed", "entry":
		if v == atomVocabulary || v == unnamed {
			p.kind = Atom
		}
	case "deleted-entry":
		if v == tombstones {
			p.kind = Atom
		}
	case "rss", "item": // of any namespace, because RSS has many
		p.kind = RSS
	case "rdf":
		if v == rdfVocabulary || v == unnamed {
			if err := p.rdf(); err != nil {
				return nil, err
			}
		}
	}
	if p.kind == None {
		return nil, &Error{line, offset, "no feed: its root is <" + clip(e.local) + ">"}
	}
	e.vocabulary = p.vocabularyOf(e.uri)
	return e, nil
}

// rdf separates RSS 1.0 from other uses of RDF: it declares a namespace of RSS, or begins with a channel.
func (p *parser) rdf() error {
	if slices.ContainsFunc(p.bindings, func(b binding) bool { return vocabularyOf(b.uri) == rssVocabulary }) {
		p.kind = RSS
		return nil
	}
	t, err := p.startTag()
	if err != nil {
		return err
	}
	p.unread = t
	if strings.EqualFold(t.Name.Local, "channel") {
		p.kind = RSS
	}
	return nil
}

// startTag skips to the next start tag.
func (p *parser) startTag() (xml.StartElement, error) {
	for {
		t, err := p.feedToken()
		if err != nil {
			return xml.StartElement{}, err
		}
		if t, ok := t.(xml.StartElement); ok {
			return t, nil
		}
	}
}
