package rsdoc

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Leading zeros included.
const maxReference = 32

// charData takes the text at pos up to the next '<', piece by piece.
func (s *scanner) charData() error {
	if !s.collect {
		// The usual case: white space between two tags.
		for s.pos < s.end && isSpace(s.buf[s.pos]) {
			s.pos++
		}
	}
	for {
		b := s.buf[s.pos:s.end]
		if len(b) > 0 && b[0] == '<' {
			return nil
		}
		n := bytes.IndexByte(b, '<')
		whole := n >= 0
		if !whole {
			n = safeCut(b)
		}
		if n > 0 {
			if j := bytes.Index(b[:n], []byte("]]>")); j >= 0 {
				return s.errorAt(Malformed, j, "]]> outside of a CDATA section")
			}
			if err := s.keepExpanded(b[:n], content); err != nil {
				return err
			}
			s.pos += n
		}
		if whole {
			return nil
		}
		if !s.more() {
			return s.truncated("before the end tag of <" + clip(s.open()) + ">")
		}
	}
}

// safeCut is how much of b can be taken before more is read: no half reference, nor a possible beginning of "]]>" or of
// a line end of two characters.
func safeCut(b []byte) int {
	tail := max(0, len(b)-maxReference)
	if i := bytes.LastIndexByte(b[tail:], '&'); i >= 0 && bytes.IndexByte(b[tail+i:], ';') < 0 {
		return tail + i
	}
	n := len(b)
	for n > 0 && len(b)-n < 2 && b[n-1] == ']' {
		n--
	}
	if n > 0 && b[n-1] == '\r' {
		n--
	}
	return n
}

// keep appends to the text of the element, where it is asked for.
func (s *scanner) keep(b []byte) error {
	if !s.collect {
		return nil
	}
	if len(s.text)+len(b) > s.limits.Text {
		return &DocumentError{
			Problem: Limit, Offset: s.tagAt,
			Detail: fmt.Sprintf("more than %d bytes of text in an element", s.limits.Text),
		}
	}
	s.text = append(s.text, b...)
	return nil
}

func (s *scanner) keepExpanded(b []byte, in place) error {
	if plain(b) {
		return s.keep(b)
	}
	b, err := s.expand(s.scratch[:0], b, 0, in)
	if err != nil {
		return err
	}
	s.scratch = b[:0]
	return s.keep(b)
}

// place is where a text stands.
type place uint8

const (
	content place = iota
	attributeValue
	section // of CDATA
)

// expand appends b, which is at offset i of the token, to dst: references resolved, each line end one newline (XML 1.0,
// 2.11), and in an attribute's value all white space spaces (3.3.3).
func (s *scanner) expand(dst, b []byte, i int, in place) ([]byte, error) {
	for j := 0; j < len(b); j++ {
		from := j
		for j < len(b) && b[j] >= ' ' && b[j] != '&' && b[j] != '<' {
			j++
		}
		if dst = append(dst, b[from:j]...); j == len(b) {
			break
		}
		c := b[j]
		switch {
		case c == '&' && in != section:
			r, n, fault := reference(b[j:])
			if fault != "" {
				return nil, s.errorAt(Malformed, i+j, fault)
			}
			dst = utf8.AppendRune(dst, r)
			j += n - 1
			continue
		case c == '<' && in == attributeValue:
			return nil, s.errorAt(Malformed, i+j, "a '<' in an attribute value")
		case c == '\r' && j+1 < len(b) && b[j+1] == '\n':
			continue
		case c == '\r':
			c = '\n'
		}
		if in == attributeValue && isSpace(c) {
			c = ' '
		}
		dst = append(dst, c)
	}
	return dst, nil
}

// A map takes four times as long.
var entities = [...]struct {
	name string
	char rune
}{{"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}}

// reference reads one of the five predefined entities or a character reference at the beginning of b.
func reference(b []byte) (r rune, n int, fault string) {
	end := bytes.IndexByte(b[:min(len(b), maxReference)], ';')
	if end < 0 {
		return 0, 0, "an & that begins no reference"
	}
	name := b[1:end]
	for _, e := range entities {
		if e.name == string(name) {
			return e.char, end + 1, ""
		}
	}
	if len(name) < 2 || name[0] != '#' {
		return 0, 0, "a reference to an entity that XML does not predefine"
	}
	digits, radix := name[1:], 10
	if digits[0] == 'x' {
		digits, radix = digits[1:], 16
	}
	code, err := strconv.ParseUint(string(digits), radix, 31)
	if err != nil {
		return 0, 0, "a character reference that is no number"
	}
	if !xmlChar(rune(code)) {
		return 0, 0, "a reference to a character that XML does not allow"
	}
	return rune(code), end + 1, ""
}

// xmlChar is the production Char of XML 1.0.
func xmlChar(r rune) bool {
	return r == '\t' || r == '\n' || r == '\r' || ' ' <= r && r <= 0xD7FF || 0xE000 <= r && r <= 0xFFFD ||
		0x10000 <= r && r <= utf8.MaxRune
}
