package feed

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"
)

// markupState is the position of the input in the markup.
type markupState uint8

const (
	inText markupState = iota // also in a document type
	inTag
	inQuote // in an attribute's value
	inCDATA
	inInstruction
)

// errDropped says that a byte was read and nothing replaces it.
var errDropped = errors.New("nothing to give")

// mend returns the replacement of b, and puts what follows it into pending. It mends what the lenient decoder still
// refuses although the meaning is plain: a '<' that begins no markup, a ']]>' that ends no CDATA section, '--' in a
// comment (comments are left out). It also turns white space in an attribute's value into blanks (XML 1.0, 3.3.3),
// because later a reference looks the same.
func (in *input) mend(b byte) (byte, error) {
	brackets := in.brackets
	in.brackets = 0
	switch b {
	case '<':
		if in.state != inCDATA && in.state != inInstruction {
			return in.handleLess()
		}
	case '>':
		switch {
		case in.state == inText && brackets >= 2:
			return in.escapeAs("gt;"), nil
		case in.state == inTag, in.state == inCDATA && brackets >= 2, in.state == inInstruction && in.last == '?':
			in.state = inText
		}
	case ']':
		in.brackets = brackets + 1
	case '"', '\'':
		switch {
		case in.state == inTag:
			in.state, in.quote = inQuote, b
		case in.state == inQuote && in.quote == b:
			in.state = inTag
		}
	case '\n', '\r', '\t':
		if in.state == inQuote {
			return in.normalizeBlank(b), nil
		}
	}
	return b, nil
}

// handleLess handles a '<' by what follows it.
func (in *input) handleLess() (byte, error) {
	next, _ := in.r.Peek(len("![CDATA["))
	switch {
	case in.state != inText && len(next) > 0 && (next[0] == '!' || next[0] == '?'):
		in.state = inText // invalid in a tag, which the decoder reports
	case bytes.HasPrefix(next, []byte("!--")):
		return 0, in.comment()
	case bytes.HasPrefix(next, []byte("![CDATA[")):
		in.state = inCDATA
	case bytes.HasPrefix(next, []byte("!")):
		in.state = inText
	case bytes.HasPrefix(next, []byte("?")):
		in.state = inInstruction
	case len(next) > 0 && beginsTag(next[0]):
		in.state = inTag
	case len(next) > 0 && in.state != inTag:
		return in.escapeAs("lt;"), nil
	}
	return '<', nil
}

func beginsTag(b byte) bool {
	return 'a' <= b|0x20 && b|0x20 <= 'z' || b == '/' || b == '_' || b == ':' || b >= utf8.RuneSelf
}

// escapeAs replaces a character by its entity.
func (in *input) escapeAs(rest string) byte {
	in.pending = append(in.scratch[:0], rest...)
	return '&'
}

// normalizeBlank replaces an end of line or a tab in an attribute's value.
func (in *input) normalizeBlank(b byte) byte {
	if b == '\r' {
		if next, _ := in.r.Peek(1); len(next) == 1 && next[0] == '\n' {
			_, _ = in.r.Discard(1)
			b = '\n'
		}
	}
	if b == '\n' {
		in.line++
	}
	return ' '
}

func (in *input) comment() error {
	in.state = inText
	n, _ := in.r.Discard(len("!--"))
	in.offset += int64(len("<") + n)
	for dashes := 0; in.offset < in.readLimit; in.offset++ {
		b, err := in.r.ReadByte()
		switch {
		case err != nil:
			return err
		case b == '-':
			dashes++
			continue
		case b == '>' && dashes >= 2:
			in.offset++
			return errDropped
		case b == '\n':
			in.line++
		}
		dashes = 0
	}
	return errLimit
}

// reference reports whether the '&' just read begins a reference to no character of XML, and drops that. Two halves of
// a UTF-16 pair become their character.
func (in *input) reference() bool {
	r, n := in.charRef(0)
	if n == 0 || xmlChar(r) {
		return false
	}
	if 0xD800 <= r && r < 0xDC00 {
		if low, m := in.charRef(n + 1); m > 0 && 0xDC00 <= low && low < 0xE000 {
			in.pending = utf8.AppendRune(in.scratch[:0], 0x10000+(r-0xD800)<<10+(low-0xDC00))
			n += 1 + m
		}
	}
	_, _ = in.r.Discard(n)
	return true
}

// charRef reads the rest of a character reference, behind its '&', skip bytes ahead; n is 0 for none.
func (in *input) charRef(skip int) (r rune, n int) {
	const longest = 12
	b, _ := in.r.Peek(skip + longest)
	if len(b) < skip || skip > 0 && b[skip-1] != '&' {
		return 0, 0
	}
	digits, ok := strings.CutPrefix(string(b[skip:]), "#")
	end := strings.IndexByte(digits, ';')
	if !ok || end < 1 {
		return 0, 0
	}
	base, from := 10, 0
	if digits[0] == 'x' || digits[0] == 'X' {
		base, from = 16, 1
	}
	v, err := strconv.ParseUint(digits[from:end], base, 32)
	if err != nil {
		return 0, 0
	}
	return rune(min(v, utf8.MaxRune+1)), len("#") + end + 1 //nolint:gosec // bounded on this line
}

// xmlChar is the production Char of XML 1.0.
func xmlChar(r rune) bool {
	return r == '\t' || r == '\n' || r == '\r' || ' ' <= r && r <= 0xD7FF || 0xE000 <= r && r <= 0xFFFD ||
		0x10000 <= r && r <= utf8.MaxRune
}
