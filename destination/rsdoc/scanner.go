package rsdoc

import (
	"bytes"
	"io"
	"slices"
	"strings"
)

type token uint8

const (
	tokEnd   token = iota // also of an empty element
	tokStart              // ns, local and attrs describe it
	tokEOF                // the root is closed and the input ended
)

// scanner cuts XML 1.0 with namespaces into tags. It insists on a well-formed document from the first byte to the last,
// without document type, in UTF-8. Its slices are valid until the next call of next.
//
// Unlike encoding/xml it holds no token on the heap (performance.md 4).
type scanner struct {
	window
	scopes
	limits Limits

	// The element of the last tokStart.
	ns    string
	local []byte
	attrs []attr
	tagAt int64 // offset of the last tag

	nameEnd  int  // of the element's name in the tag
	colon    int  // its offset in the name, 0 for none
	declares bool // the tag may declare namespaces

	// collect appends the text up to the next tag to text.
	collect bool
	text    []byte

	stack   []frame
	names   []byte // the qualified names of the open elements
	scratch []byte // attribute values that were unescaped
	empty   bool   // the tokEnd of an empty element is due
	begun   bool   // the root was seen
	opened  bool   // any markup was seen
}

type frame struct {
	name     int // its begin in scanner.names
	bindings int // how many were in force outside
}

func (s *scanner) next() (token, error) {
	if s.empty {
		s.empty = false
		s.pop()
		return tokEnd, nil
	}
	for {
		done, err := s.upToMarkup()
		if done || err != nil {
			return tokEOF, err
		}
		if err := s.require(2, "a tag"); err != nil {
			return tokEOF, err
		}
		switch s.buf[s.pos+1] {
		case '/':
			return tokEnd, s.endTag()
		case '!':
			err = s.declaration()
		case '?':
			err = s.instruction()
		default:
			return tokStart, s.startTag()
		}
		if err != nil {
			return tokEOF, err
		}
	}
}

func (s *scanner) start() {
	for s.end-s.pos < 3 && s.more() {
	}
	if bytes.HasPrefix(s.buf[s.pos:s.end], []byte("\xEF\xBB\xBF")) {
		s.pos += 3
	}
}

// upToMarkup moves to the next '<'. done reports that the input ended behind the root.
func (s *scanner) upToMarkup() (done bool, err error) {
	if len(s.stack) > 0 {
		return false, s.charData()
	}
	for {
		for s.pos < s.end && isSpace(s.buf[s.pos]) {
			s.pos++
		}
		switch {
		case s.pos < s.end && s.buf[s.pos] == '<':
			return false, nil
		case s.pos < s.end && s.begun:
			return false, s.errorAt(Malformed, 0, "text after the end of the root element")
		case s.pos < s.end:
			return false, s.errorAt(NotXML, 0, "text before the root element")
		case s.more():
		case s.err == io.EOF && s.begun:
			return true, nil
		case s.err == io.EOF && s.offset() == 0:
			return false, s.errorAt(Truncated, 0, "the document is empty")
		default:
			return false, s.truncated("before the root element")
		}
	}
}

// require has at least n bytes of the token at pos in the window.
func (s *scanner) require(n int, what string) error {
	for s.end-s.pos < n {
		if !s.more() {
			return s.truncated("inside " + what)
		}
	}
	return nil
}

// truncated is the window's error, or the early end.
func (s *scanner) truncated(where string) error {
	if s.err != io.EOF {
		return s.err
	}
	return s.errorAt(Truncated, s.end-s.pos, "the input ends "+where)
}

func (s *scanner) errorAt(p Problem, i int, detail string) error {
	return &DocumentError{Problem: p, Offset: s.offset() + int64(i), Detail: detail}
}

func (s *scanner) push(qname []byte, outside int) {
	s.stack = append(s.stack, frame{name: len(s.names), bindings: outside})
	s.names = append(s.names, qname...)
}

func (s *scanner) pop() {
	top := s.stack[len(s.stack)-1]
	s.stack = s.stack[:len(s.stack)-1]
	s.names = s.names[:top.name]
	s.bindings = s.bindings[:top.bindings]
}

func (s *scanner) open() []byte { return s.names[s.stack[len(s.stack)-1].name:] }

// intern shares the few values that repeat in a document: namespaces, media types, relations, codings.
func (s *scopes) intern(b []byte) string {
	const most, longest = 64, 128
	switch string(b) { // these very strings, so that comparing a name's namespace looks at no byte
	case NamespaceSitemap:
		return NamespaceSitemap
	case NamespaceRS:
		return NamespaceRS
	}
	if known, ok := s.words[string(b)]; ok {
		return known
	}
	word := string(b)
	if len(b) <= longest && len(s.words) < most {
		if s.words == nil {
			s.words = make(map[string]string)
		}
		s.words[word] = word
	}
	return word
}

const maxInstruction = 1 << 10

// Document types and entities are refused: no document needs them, and classical attacks use them.
func (s *scanner) declaration() error {
	s.opened = true
	if err := s.require(3, "a tag"); err != nil {
		return err
	}
	switch s.buf[s.pos+2] {
	case '-':
		return s.comment()
	case '[':
		return s.cdata()
	}
	const doctype = "<!doctype"
	for s.end-s.pos < len(doctype)+5 && s.more() {
	}
	b := s.buf[s.pos:s.end]
	if len(b) < len(doctype) || !foldEqual(b[:len(doctype)], doctype) {
		return s.errorAt(Forbidden, 0, "a markup declaration")
	}
	if len(b) >= len(doctype)+5 && foldEqual(b[len(doctype)+1:len(doctype)+5], "html") {
		return s.errorAt(Forbidden, 0, pageDetail)
	}
	return s.errorAt(Forbidden, 0, "a document type declaration")
}

func (s *scanner) comment() error {
	if err := s.require(4, "a comment"); err != nil {
		return err
	}
	if s.buf[s.pos+3] != '-' {
		return s.errorAt(Malformed, 0, "<! followed by neither a comment nor a CDATA section")
	}
	s.pos += 4
	if err := s.upTo("--", "a comment", false); err != nil {
		return err
	}
	if err := s.require(1, "a comment"); err != nil {
		return err
	}
	if s.buf[s.pos] != '>' {
		return s.errorAt(Malformed, -len("--"), "-- inside a comment")
	}
	s.pos++
	return nil
}

// upTo moves behind the next mark. With keep what lies before it counts as text.
func (s *scanner) upTo(mark, inside string, keep bool) error {
	for {
		b := s.buf[s.pos:s.end]
		n := bytes.Index(b, []byte(mark))
		whole := n >= 0
		if !whole {
			n = max(0, len(b)-len(mark)+1)
			if n > 0 && b[n-1] == '\r' { // with the next byte it may be one line end
				n--
			}
		}
		if keep {
			if err := s.keepExpanded(b[:n], section); err != nil {
				return err
			}
		}
		s.pos += n
		if whole {
			s.pos += len(mark)
			return nil
		}
		if !s.more() {
			return s.truncated("inside " + inside)
		}
	}
}

func (s *scanner) cdata() error {
	const opening = "<![CDATA["
	if err := s.require(len(opening), "a CDATA section"); err != nil {
		return err
	}
	if string(s.buf[s.pos:s.pos+len(opening)]) != opening {
		return s.errorAt(Malformed, 0, "<![ followed by something else than CDATA[")
	}
	if len(s.stack) == 0 {
		return s.errorAt(Malformed, 0, "a CDATA section outside of the root element")
	}
	s.pos += len(opening)
	return s.upTo("]]>", "a CDATA section", true)
}

func (s *scanner) instruction() error {
	late := s.opened
	s.opened = true
	for {
		b := s.buf[s.pos:min(s.end, s.pos+maxInstruction)]
		i, colon, err := s.name(b, 2)
		if err != nil {
			return err
		}
		if i < len(b) {
			name := b[2:i]
			if colon > 0 || b[i] != '?' && !isSpace(b[i]) {
				return s.errorAt(Malformed, i, "a processing instruction without a proper name")
			}
			if !foldEqual(name, "xml") {
				s.pos += i
				return s.upTo("?>", "a processing instruction", false)
			}
			if late || string(name) != "xml" {
				return s.errorAt(Malformed, 0, "an XML declaration that is not at the beginning of the document")
			}
			return s.xmlDeclaration()
		}
		if len(b) == maxInstruction {
			return s.errorAt(Limit, 0, "a processing instruction with a name of more than 1024 bytes")
		}
		if !s.more() {
			return s.truncated("inside a processing instruction")
		}
	}
}

// Only the encoding matters: we read UTF-8, of which US-ASCII is a part. The pseudo-attributes have the form of
// attributes, so they are read as a tag.
func (s *scanner) xmlDeclaration() error {
	n := -1
	for n < 0 {
		if n = bytes.Index(s.buf[s.pos:min(s.end, s.pos+maxInstruction)], []byte("?>")); n >= 0 {
			break
		}
		if s.end-s.pos >= maxInstruction {
			return s.errorAt(Limit, 0, "an XML declaration of more than 1024 bytes")
		}
		if !s.more() {
			return s.truncated("inside the XML declaration")
		}
	}
	tag := append([]byte("<"), s.buf[s.pos+2:s.pos+n]...)
	m, err := s.parseTag(append(tag, '>'))
	if err != nil || m != len(tag)+1 || s.empty {
		return s.errorAt(Malformed, 0, "an XML declaration that cannot be read")
	}
	order := []string{"version", "encoding", "standalone"}
	for i, a := range s.attrs {
		at := slices.Index(order, string(a.local))
		if at < 0 || i == 0 && at > 0 || a.prefix != nil {
			return s.errorAt(Malformed, 0, "an XML declaration with something else than version, encoding, standalone")
		}
		order = order[at+1:]
	}
	if len(s.attrs) == 0 {
		return s.errorAt(Malformed, 0, "an XML declaration without a version")
	}
	version := string(s.attrs[0].value)
	if len(version) < 3 || !strings.HasPrefix(version, "1.") || strings.Trim(version[2:], "0123456789") != "" {
		return s.errorAt(Malformed, 0, "XML of version "+quote(version)+"; only 1.0 is read")
	}
	if len(s.attrs) > 1 && string(s.attrs[1].local) == "encoding" {
		switch encoding := string(s.attrs[1].value); strings.ToLower(encoding) {
		case "utf-8", "utf8", "us-ascii", "ascii":
		default:
			return s.errorAt(WrongEncoding, 0, "the document declares the encoding "+quote(encoding)+
				"; only UTF-8 is read")
		}
	}
	s.pos += n + 2
	return nil
}
