package feed

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
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
	// The encoding of the XML declaration was used already, and its version is no reason to refuse.
	head, _ = r.Peek(lookAhead)
	if end := bytes.Index(head, []byte("?>")); end > 0 && bytes.HasPrefix(head, []byte("<?xml ")) {
		end += len("?>")
		in.line += bytes.Count(head[:end], []byte{'\n'})
		in.offset += int64(end)
		_, _ = r.Discard(end)
	}
	return in
}

// startsFeed reports whether the document begins with the root of a feed: an XML declaration after it belongs to an
// example in the content.
func startsFeed(b []byte) bool {
	roots := []string{"<rss", "<feed", "<rdf:RDF", "<entry", "<atom:"}
	return slices.ContainsFunc(roots, func(root string) bool { return bytes.HasPrefix(b, []byte(root)) })
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

// lookAhead is how much of a document decides on its encoding and its start.
const lookAhead = 4 << 10

var (
	charsetParam  = regexp.MustCompile(`(?i);\s*charset\s*=\s*["']?\s*([^\s"';,]+)`)
	declaredInXML = regexp.MustCompile(`^[^<]*<\?xml[^>]*?\sencoding\s*=\s*["']([\w.:-]+)["']`)
)

// decode returns body as UTF-8, and a problem for people if its declared encoding is unusable. Invalid bytes are left
// for the input to mend, so that no declaration makes a document unreadable.
func decode(body io.Reader, contentType string) (*bufio.Reader, string) {
	raw := bufio.NewReaderSize(body, lookAhead)
	head, _ := raw.Peek(lookAhead) // an error comes again with the next read
	label, problem := encodingOf(head, contentType)
	if label == "" {
		return raw, problem
	}
	e, _ := charset.Lookup(label)
	return bufio.NewReaderSize(e.NewDecoder().Reader(raw), 4*lookAhead), problem
}

// encodingOf is the encoding of a document by RFC 7303, 3: the byte order mark, else the charset parameter, else the
// XML declaration; "" for UTF-8. An unknown name, or one that the first bytes contradict, is ignored.
func encodingOf(head []byte, contentType string) (label, problem string) {
	switch {
	case bytes.HasPrefix(head, []byte("\xEF\xBB\xBF")):
		return "", ""
	case bytes.HasPrefix(head, []byte("\xFE\xFF")), bytes.HasPrefix(head, []byte("\x00<\x00")):
		return "utf-16be", ""
	case bytes.HasPrefix(head, []byte("\xFF\xFE")), len(head) > 3 && head[0] == '<' && head[1] == 0 && head[3] == 0:
		return "utf-16le", ""
	}
	var said []string
	if m := charsetParam.FindStringSubmatch(contentType); m != nil {
		said = append(said, m[1])
	}
	if m := declaredInXML.FindSubmatch(head); m != nil {
		said = append(said, string(m[1]))
	}
	for _, s := range said {
		e, name := charset.Lookup(s)
		switch {
		case e == nil || name == "replacement" || name == "x-user-defined":
			problem = "encoding " + quote(s) + " is unknown, read as if it had not been named"
		// it would have two bytes each, which the first bytes would show
		case name == "utf-8" || strings.HasPrefix(name, "utf-16"):
			return "", problem
		default:
			return name, problem
		}
	}
	return "", problem
}
