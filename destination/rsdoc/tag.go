package rsdoc

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
)

// attr has its value normalised and without references.
type attr struct {
	prefix, local, value []byte
	ns                   string // "" without prefix, as on rs:md and rs:ln [7]
}

// The whole tag must be in the window, so it is read again after more input came. Beyond a few KiB the window doubles
// each time: otherwise a peer that sends single bytes makes this quadratic.
func (s *scanner) startTag() error {
	most := s.limits.perTag()
	for {
		n, err := s.parseTag(s.buf[s.pos:min(s.end, s.pos+most)])
		if err != nil {
			return err
		}
		if n > 0 {
			s.tagAt = s.offset()
			return s.enter(n)
		}
		have := s.end - s.pos
		if have >= most {
			return s.errorAt(Limit, 0, fmt.Sprintf("a tag of more than %d bytes", most))
		}
		want := have + 1
		if have > smallWindow {
			want = 2 * have
		}
		for s.end-s.pos < want && s.more() {
		}
		if s.end-s.pos == have {
			return s.truncated("inside a tag")
		}
	}
}

// enter opens the element of a parsed tag: declarations first, because they apply to the tag itself.
func (s *scanner) enter(n int) error {
	if len(s.stack) == 0 && s.begun {
		return s.errorAt(Malformed, 0, "a second root element")
	}
	if len(s.stack) >= s.limits.Depth {
		return s.errorAt(Limit, 0, fmt.Sprintf("elements nested deeper than %d", s.limits.Depth))
	}
	s.begun, s.opened = true, true
	outside := len(s.bindings)
	if s.declares {
		if err := s.declareScopes(outside); err != nil {
			return err
		}
	}
	var ok bool
	full := s.buf[s.pos+1 : s.pos+s.nameEnd]
	prefix, local := split(full, s.colon)
	if s.ns, ok = s.namespace(prefix); !ok {
		return s.errorAt(Malformed, 0, "the prefix "+quote(string(prefix))+" is not declared")
	}
	if err := s.resolveAttrs(); err != nil {
		return err
	}
	s.local = local
	s.push(full, outside)
	s.pos += n
	return nil
}

func (s *scanner) declareScopes(outside int) error {
	kept := s.attrs[:0]
	for _, a := range s.attrs {
		var fault string
		switch {
		case string(a.prefix) == "xmlns":
			fault = s.declare(outside, a.local, a.value)
		case a.prefix == nil && string(a.local) == "xmlns":
			fault = s.declare(outside, nil, a.value)
		default:
			kept = append(kept, a)
		}
		if fault != "" {
			return s.errorAt(Malformed, 0, fault)
		}
	}
	s.attrs = kept
	if len(s.bindings) > s.limits.Attributes {
		return s.errorAt(Limit, 0, fmt.Sprintf("more than %d namespace declarations in force", s.limits.Attributes))
	}
	return nil
}

func (s *scanner) resolveAttrs() error {
	for i := range s.attrs {
		a := &s.attrs[i]
		if a.prefix != nil {
			var ok bool
			if a.ns, ok = s.namespace(a.prefix); !ok {
				return s.errorAt(Malformed, 0, "the prefix "+quote(string(a.prefix))+" is not declared")
			}
		}
		for j := range i {
			if b := &s.attrs[j]; a.ns == b.ns && bytes.Equal(a.local, b.local) {
				return s.errorAt(Malformed, 0, "the attribute "+quote(string(a.local))+" is there twice")
			}
		}
	}
	return nil
}

// parseTag reads name, s.attrs and s.empty at the beginning of b. n is the tag's length, 0 where b ends before it does.
func (s *scanner) parseTag(b []byte) (n int, err error) {
	s.attrs, s.scratch, s.declares = s.attrs[:0], s.scratch[:0], false
	i, colon, err := s.name(b, 1)
	if err != nil || i == len(b) {
		return 0, err
	}
	s.nameEnd, s.colon = i, colon
	for {
		from := i
		for i < len(b) && isSpace(b[i]) {
			i++
		}
		switch {
		case i == len(b):
			return 0, nil
		case b[i] == '>':
			s.empty = false
			return i + 1, nil
		case b[i] == '/' && i+1 == len(b):
			return 0, nil
		case b[i] == '/' && b[i+1] == '>':
			s.empty = true
			return i + 2, nil
		case i == from:
			return 0, s.errorAt(Malformed, i, "no space before an attribute")
		case len(s.attrs) >= s.limits.Attributes:
			return 0, s.errorAt(Limit, i, fmt.Sprintf("a tag with more than %d attributes", s.limits.Attributes))
		}
		i, err = s.attribute(b, i)
		if err != nil || i == len(b) {
			return 0, err
		}
	}
}

// attribute returns the index behind name = "value", or len(b) where b ends too early.
func (s *scanner) attribute(b []byte, i int) (int, error) {
	from := i
	i, colon, err := s.name(b, i)
	if err != nil {
		return 0, err
	}
	name := b[from:i]
	for i < len(b) && isSpace(b[i]) {
		i++
	}
	if i == len(b) {
		return i, nil
	}
	if b[i] != '=' {
		return 0, s.errorAt(Malformed, i, "an attribute without a value")
	}
	for i++; i < len(b) && isSpace(b[i]); i++ {
	}
	if i == len(b) {
		return i, nil
	}
	mark := b[i]
	if mark != '"' && mark != '\'' {
		return 0, s.errorAt(Malformed, i, "an attribute value without quotation marks")
	}
	i++
	n := bytes.IndexByte(b[i:], mark)
	if n > s.limits.Text || n < 0 && len(b)-i > s.limits.Text {
		return 0, s.errorAt(Limit, i, fmt.Sprintf("an attribute value of more than %d bytes", s.limits.Text))
	}
	if n < 0 {
		return len(b), nil
	}
	value := b[i : i+n]
	if !plain(value) {
		from := len(s.scratch)
		if s.scratch, err = s.expand(s.scratch, value, i, attributeValue); err != nil {
			return 0, err
		}
		value = s.scratch[from:len(s.scratch):len(s.scratch)]
	}
	prefix, local := split(name, colon)
	s.attrs = append(s.attrs, attr{prefix: prefix, local: local, value: value})
	s.declares = s.declares || len(name) >= len("xmlns") && string(name[:len("xmlns")]) == "xmlns"
	return i + n + 1, nil
}

func (s *scanner) endTag() error {
	s.tagAt = s.offset()
	if len(s.stack) == 0 {
		return s.errorAt(Malformed, 0, "an end tag without a start tag")
	}
	want := s.open()
	if err := s.require(2+len(want)+1, "a tag"); err != nil {
		return err
	}
	rest := s.buf[s.pos+2 : s.end]
	if !bytes.HasPrefix(rest, want) || rest[len(want)] != '>' && !isSpace(rest[len(want)]) {
		return s.errorAt(Malformed, 0, "an end tag that does not close <"+clip(want)+">")
	}
	s.pos += 2 + len(want)
	for {
		for s.pos < s.end && isSpace(s.buf[s.pos]) {
			s.pos++
		}
		if s.pos < s.end {
			break
		}
		if !s.more() {
			return s.truncated("inside a tag")
		}
	}
	if s.buf[s.pos] != '>' {
		return s.errorAt(Malformed, 0, "an end tag with more than a name")
	}
	s.pos++
	s.pop()
	return nil
}

// plain reports whether text stands for itself: no reference, no '<', no white space but spaces. It may be false for a
// plain one.
func plain(b []byte) bool {
	const low, high = 0x0101010101010101, 0x8080808080808080
	for ; len(b) >= 8; b = b[8:] {
		x := binary.LittleEndian.Uint64(b)
		amp, lt := x^low*'&', x^low*'<'
		// A byte below 0x20 or equal to '&' or '<' sets its high bit in one of these.
		if ((x-low*0x20)|(amp-low)|(lt-low))&high&^x != 0 {
			return false
		}
	}
	for _, c := range b {
		if c < ' ' || c == '&' || c == '<' {
			return false
		}
	}
	return true
}

const (
	namespaceXML   = "http://www.w3.org/XML/1998/namespace"
	namespaceXMLNS = "http://www.w3.org/2000/xmlns/"
)

// scopes are the namespace declarations in force, innermost last, and the words of a document that repeat.
type scopes struct {
	bindings []binding
	words    map[string]string
}

// binding is a namespace declaration.
type binding struct{ prefix, uri string }

// declare adds a declaration to those of the tag, which begin at first, and returns what is wrong with it.
func (s *scopes) declare(first int, prefix, uri []byte) string {
	switch {
	case string(prefix) == "xmlns" || string(uri) == namespaceXMLNS:
		return "a declaration of the namespace of declarations"
	case (string(prefix) == "xml") != (string(uri) == namespaceXML):
		return "a declaration that changes the prefix xml"
	case prefix != nil && len(uri) == 0:
		return "a declaration that takes a prefix away"
	}
	for _, b := range s.bindings[first:] {
		if b.prefix == string(prefix) {
			return "a namespace declared twice in one tag"
		}
	}
	if n := len(s.bindings); n < cap(s.bindings) { // entries that declare prefixes declare the same ones again
		if last := s.bindings[:n+1][n]; last.prefix == string(prefix) && last.uri == string(uri) {
			s.bindings = s.bindings[:n+1]
			return ""
		}
	}
	s.bindings = append(s.bindings, binding{s.intern(prefix), s.intern(uri)})
	return ""
}

// namespace is that of an element's prefix; false for an undeclared one.
func (s *scopes) namespace(prefix []byte) (string, bool) {
	for i := len(s.bindings) - 1; i >= 0; i-- {
		if s.bindings[i].prefix == string(prefix) {
			return s.bindings[i].uri, true
		}
	}
	switch string(prefix) {
	case "":
		return "", true
	case "xml":
		return namespaceXML, true
	}
	return "", false
}

// nearSitemap reports namespaces that are meant as that of Sitemaps: with https or a slash behind it, of another
// version, or Google's from before.
func nearSitemap(uri string) bool {
	const most = 200
	if len(uri) > most {
		return false
	}
	low := strings.ToLower(uri) + "/"
	return strings.Contains(low, "sitemaps.org/") || strings.Contains(low, "/schemas/sitemap/")
}
