package rsdoc

import (
	"bytes"
	"slices"
	"strings"
)

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
