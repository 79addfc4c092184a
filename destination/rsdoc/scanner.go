package rsdoc

import (
	"bytes"
	"io"
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
