package feed

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
)

// input hands a document to the decoder byte by byte: UTF-8 that XML allows, whatever came. It drops characters that XML
// does not know (also as references), reads a byte that is no UTF-8 as windows-1252 has it, mends markup, counts lines, and
// holds the decoder, which keeps a token of any size, to a limit.
type input struct {
	r       *bufio.Reader
	pending []byte // to be given before anything of r
	scratch [utf8.UTFMax]byte
	last    byte // given last
	// Where in the markup we are: the quote that an attribute's value ends with, and how many ']' were given just now.
	state    lexed
	quote    byte
	brackets int
	line     int
	offset   int64
	fence    int64 // offset up to which bytes are given
	err      error // of the reader below
}

// newInput begins at the first '<' of the document, or at its XML declaration where something else comes before that:
// byte order marks, blank lines, the warnings of a broken script.
func newInput(r *bufio.Reader) *input {
	in := &input{r: r, line: 1, fence: 1<<63 - 1}
	head, _ := r.Peek(lookAhead)
	at := max(0, bytes.IndexByte(head, '<'))
	if i := bytes.Index(head[at:], []byte("<?xml ")); i > 0 && !startsFeed(head[at:]) {
		at += i
	}
	in.line += bytes.Count(head[:at], []byte{'\n'})
	_, _ = r.Discard(at)
	in.declaration()
	return in
}

// startsFeed tells whether what stands first is the root of a feed: an XML declaration behind it is somebody's example.
func startsFeed(b []byte) bool {
	for _, name := range []string{"rss", "feed", "rdf:RDF", "entry", "atom:"} {
		if bytes.HasPrefix(b[1:], []byte(name)) {
			return true
		}
	}
	return false
}

// declaration skips the XML declaration: what it says of the encoding was heeded, and its version is no reason to refuse.
func (in *input) declaration() {
	head, _ := in.r.Peek(lookAhead)
	if !bytes.HasPrefix(head, []byte("<?xml ")) {
		return
	}
	if end := bytes.Index(head, []byte("?>")); end > 0 {
		end += len("?>")
		in.line += bytes.Count(head[:end], []byte{'\n'})
		in.offset += int64(end)
		_, _ = in.r.Discard(end)
	}
}

// Read gives single bytes too; the decoder takes ReadByte.
func (in *input) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	b, err := in.ReadByte()
	if err != nil {
		return 0, err
	}
	p[0] = b
	return 1, nil
}

// ReadByte returns the next byte, errFence beyond the limit, or the error of the reader below.
func (in *input) ReadByte() (byte, error) {
	if in.offset >= in.fence {
		return 0, errFence
	}
	b, err := in.next()
	if err != nil {
		if err != io.EOF {
			in.err = fmt.Errorf("read a feed: %w", err)
		}
		return 0, err
	}
	in.offset++
	in.last = b
	if b == '\n' {
		in.line++
	}
	return b, nil
}

func (in *input) next() (byte, error) {
	for {
		if len(in.pending) > 0 {
			b := in.pending[0]
			in.pending = in.pending[1:]
			return b, nil
		}
		b, err := in.r.ReadByte()
		if err != nil {
			return 0, err
		}
		switch {
		case b >= utf8.RuneSelf:
			if in.wide(b) {
				in.brackets = 0
			}
		case b == '&' && in.state != inCDATA && in.reference():
		case b >= ' ' || b == '\n' || b == '\t' || b == '\r':
			if b, err = in.mend(b); err != errSwallowed { //nolint:errorlint // our own
				return b, err
			}
		}
	}
}

// wide takes a character of several bytes, of which first is read, into pending; it is false where XML has no such character.
func (in *input) wide(first byte) bool {
	var seq [utf8.UTFMax]byte
	seq[0] = first
	rest, _ := in.r.Peek(utf8.UTFMax - 1)
	n := 1 + copy(seq[1:], rest)
	r, size := utf8.DecodeRune(seq[:n])
	if r == utf8.RuneError && size == 1 {
		r = charmap.Windows1252.DecodeByte(first)
	}
	_, _ = in.r.Discard(size - 1)
	if !xmlChar(r) {
		return false
	}
	in.pending = utf8.AppendRune(in.scratch[:0], r)
	return true
}
