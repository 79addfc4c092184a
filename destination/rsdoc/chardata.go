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
			if err := s.takeText(b[:n]); err != nil {
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

func (s *scanner) takeText(b []byte) error {
	if plain(b) && bytes.IndexByte(b, ']') < 0 {
		return s.appendText(b)
	}
	if j := bytes.Index(b, []byte("]]>")); j >= 0 {
		return s.errorAt(Malformed, j, "]]> outside of a CDATA section")
	}
	for i := 0; i < len(b); {
		n := bytes.IndexByte(b[i:], '&')
		if n < 0 {
			n = len(b) - i
		}
		if err := s.appendText(b[i : i+n]); err != nil {
			return err
		}
		if i += n; i == len(b) {
			break
		}
		r, n, fault := reference(b[i:])
		if fault != "" {
			return s.errorAt(Malformed, i, fault)
		}
		if s.collect {
			s.text = utf8.AppendRune(s.text, r)
		}
		i += n
	}
	return nil
}

// Each line end becomes one newline (XML 1.0, 2.11).
func (s *scanner) appendText(b []byte) error {
	if !s.collect {
		return nil
	}
	if len(s.text)+len(b) > s.limits.Text {
		return &DocumentError{
			Problem: Limit, Offset: s.tagAt,
			Detail: fmt.Sprintf("more than %d bytes of text in an element", s.limits.Text),
		}
	}
	for len(b) > 0 {
		n := bytes.IndexByte(b, '\r')
		if n < 0 {
			s.text = append(s.text, b...)
			return nil
		}
		s.text = append(append(s.text, b[:n]...), '\n')
		if b = b[n+1:]; len(b) > 0 && b[0] == '\n' {
			b = b[1:]
		}
	}
	return nil
}

// attrValue resolves the references of an attribute's value and turns white space into spaces (XML 1.0, 3.3.3). The
// result is in s.scratch.
func (s *scanner) attrValue(b []byte, i int) ([]byte, error) {
	from := len(s.scratch)
	for j := 0; j < len(b); j++ {
		switch c := b[j]; c {
		case '<':
			return nil, s.errorAt(Malformed, i+j, "a '<' in an attribute value")
		case '&':
			r, n, fault := reference(b[j:])
			if fault != "" {
				return nil, s.errorAt(Malformed, i+j, fault)
			}
			s.scratch = utf8.AppendRune(s.scratch, r)
			j += n - 1
		case '\r':
			if j+1 < len(b) && b[j+1] == '\n' {
				j++
			}
			s.scratch = append(s.scratch, ' ')
		case '\n', '\t':
			s.scratch = append(s.scratch, ' ')
		default:
			s.scratch = append(s.scratch, c)
		}
	}
	return s.scratch[from:len(s.scratch):len(s.scratch)], nil
}

// reference reads one of the five predefined entities or a character reference at the beginning of b.
func reference(b []byte) (r rune, n int, fault string) {
	end := bytes.IndexByte(b[:min(len(b), maxReference)], ';')
	if end < 0 {
		return 0, 0, "an & that begins no reference"
	}
	name := b[1:end]
	switch string(name) {
	case "amp":
		return '&', end + 1, ""
	case "lt":
		return '<', end + 1, ""
	case "gt":
		return '>', end + 1, ""
	case "quot":
		return '"', end + 1, ""
	case "apos":
		return '\'', end + 1, ""
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
