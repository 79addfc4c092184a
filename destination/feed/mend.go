package feed

import (
	"bytes"
	"errors"
	"unicode/utf8"
)

// lexed is where in the markup the input stands.
type lexed uint8

const (
	inText lexed = iota // also in a document type
	inTag
	inQuote // in an attribute's value
	inCDATA
	inInstruction
)

// errSwallowed says that there is no byte to give in place of the one that was read.
var errSwallowed = errors.New("nothing to give")

// mend gives the byte to be read in place of b, what follows it being in pending. It mends what the decoder, lenient as it
// is, refuses, though what was meant is plain: a '<' that begins no markup, a ']]>' that ends no CDATA section, '--' in a
// comment (comments are left out). And it makes white space in an attribute's value blanks (XML 1.0, 3.3.3), which later
// can't be told from what a reference stands for.
func (in *input) mend(b byte) (byte, error) {
	brackets := in.brackets
	in.brackets = 0
	switch b {
	case '<':
		if in.state != inCDATA && in.state != inInstruction {
			return in.opening()
		}
	case '>':
		switch {
		case in.state == inText && brackets >= 2:
			return in.refer("gt;"), nil
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
			return in.blank(b), nil
		}
	}
	return b, nil
}

// opening takes a '<', by what follows it.
func (in *input) opening() (byte, error) {
	next, _ := in.r.Peek(len("![CDATA["))
	switch {
	case in.state != inText && len(next) > 0 && (next[0] == '!' || next[0] == '?'):
		in.state = inText // in a tag it can't be, which the decoder will tell
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
		return in.refer("lt;"), nil
	}
	return '<', nil
}

func beginsTag(b byte) bool {
	return 'a' <= b|0x20 && b|0x20 <= 'z' || b == '/' || b == '_' || b == ':' || b >= utf8.RuneSelf
}

// refer gives a character by its entity.
func (in *input) refer(rest string) byte {
	in.pending = append(in.scratch[:0], rest...)
	return '&'
}

// blank takes an end of line or a tab in an attribute's value.
func (in *input) blank(b byte) byte {
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

// comment skips the rest of a comment.
func (in *input) comment() error {
	in.state = inText
	n, _ := in.r.Discard(len("!--"))
	in.offset += int64(len("<") + n)
	for dashes := 0; in.offset < in.fence; in.offset++ {
		b, err := in.r.ReadByte()
		switch {
		case err != nil:
			return err
		case b == '-':
			dashes++
			continue
		case b == '>' && dashes >= 2:
			in.offset++
			return errSwallowed
		case b == '\n':
			in.line++
		}
		dashes = 0
	}
	return errFence
}
