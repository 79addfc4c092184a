package feed

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
)

// input gives a document to the decoder byte by byte, as UTF-8 that XML allows. It drops characters that XML does not
// allow (also as references), reads an invalid byte as windows-1252, mends markup, counts lines, and limits tokens,
// because the decoder holds one of any size.
type input struct {
	r       *bufio.Reader
	pending []byte // given before anything of r
	scratch [utf8.UTFMax]byte
	last    byte // the last byte given
	// The position in the markup, the quote that ends an attribute's value, and the number of ']' just given.
	state     markupState
	quote     byte
	brackets  int
	line      int
	offset    int64
	readLimit int64 // offset up to which bytes are given
	err       error // of the underlying reader
}

// newInput begins at the first '<' of the document, or at its XML declaration where something else precedes it: byte
// order marks, blank lines, the warnings of a broken script.
func newInput(r *bufio.Reader) *input {
	in := &input{r: r, line: 1, readLimit: 1<<63 - 1}
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

// startsFeed reports whether the document begins with the root of a feed: an XML declaration after it belongs to an
// example in the content.
func startsFeed(b []byte) bool {
	for _, name := range []string{"rss", "feed", "rdf:RDF", "entry", "atom:"} {
		if bytes.HasPrefix(b[1:], []byte(name)) {
			return true
		}
	}
	return false
}

// declaration skips the XML declaration: its encoding was used already, and its version is no reason to refuse.
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

// Read also gives single bytes; the decoder uses ReadByte.
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

// ReadByte returns the next byte, errLimit beyond the limit, or the error of the underlying reader.
func (in *input) ReadByte() (byte, error) {
	if in.offset >= in.readLimit {
		return 0, errLimit
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
			if in.readRune(b) {
				in.brackets = 0
			}
		case b == '&' && in.state != inCDATA && in.reference():
		case b >= ' ' || b == '\n' || b == '\t' || b == '\r':
			if b, err = in.mend(b); err != errDropped { //nolint:errorlint // our own
				return b, err
			}
		}
	}
}

// readRune takes a multi-byte character beginning with first into pending; false where XML has no such character.
func (in *input) readRune(first byte) bool {
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
