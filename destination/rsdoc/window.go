package rsdoc

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/flate"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/url"
	"unicode/utf8"
)

const (
	// A notification fits into smallWindow (performance.md 4).
	smallWindow = 4 << 10
	fullWindow  = 64 << 10 // for a long list
)

// window is the part of the input that the scanner sees: buf[pos:end] is valid UTF-8. Input is checked once, as it
// arrives, so that no later step needs to.
type window struct {
	src   io.Reader // nil if buf is everything
	buf   []byte
	pos   int
	end   int   // behind the last byte that may be scanned
	raw   int   // behind the last byte read: an incomplete rune may follow end
	base  int64 // offset of buf[0] in the document
	limit int64
	err   error // why nothing follows end
}

// inPlace makes a window over b, which is never written to.
func inPlace(b []byte, limit int64) window {
	w := window{buf: b, raw: len(b), limit: limit, err: io.EOF}
	if int64(len(b)) > limit {
		w.raw, w.err = int(limit), w.overLimit()
	}
	w.check()
	return w
}

func (w *window) offset() int64 { return w.base + int64(w.pos) }

// more adds at least one byte behind end and keeps buf[pos:end], whose position in buf may change.
func (w *window) more() bool {
	if w.err != nil {
		return false
	}
	w.makeRoom()
	for range 100 {
		n, err := w.src.Read(w.buf[w.raw:])
		if n < 0 || n > len(w.buf)-w.raw {
			w.err = errors.New("read the document: the reader returned an impossible count")
			return false
		}
		if room := w.limit - (w.base + int64(w.raw)); int64(n) > room {
			n, err = int(room), w.overLimit()
		}
		w.raw += n
		w.setErr(err)
		was := w.end
		w.check()
		if w.end > was {
			return true
		}
		if w.err != nil {
			return false
		}
	}
	w.err = fmt.Errorf("read the document at byte %d: %w", w.base+int64(w.raw), io.ErrNoProgress)
	return false
}

func (w *window) makeRoom() {
	const enough = 512
	if len(w.buf)-w.raw >= enough {
		return
	}
	kept := w.buf[w.pos:w.raw]
	size := len(w.buf)
	switch {
	case size == 0:
		size = smallWindow
	case size < fullWindow && (len(kept) > size-enough || w.base+int64(w.raw) >= 4*smallWindow):
		size = fullWindow
	case len(kept) > size-enough:
		size *= 2 // one long token; the scanner bounds it
	}
	to := w.buf
	if size > len(w.buf) {
		to = make([]byte, size)
	}
	copy(to, kept)
	w.base += int64(w.pos)
	w.end -= w.pos
	w.raw -= w.pos
	w.buf, w.pos = to, 0
}

func (w *window) setErr(err error) {
	if err != nil && err != io.EOF {
		err = refused(err, w.base+int64(w.raw))
	}
	w.err = err
}

// refused is what an error of the underlying reader, at that byte, says of the document.
func refused(err error, at int64) error {
	var corrupt flate.CorruptInputError
	switch _, over := errors.AsType[*DocumentError](err); {
	case over: // the limit
		return err
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &DocumentError{
			Problem: Truncated, Offset: at, cause: err, Detail: "the transfer was cut short: " + err.Error(),
		}
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), errors.As(err, &corrupt):
		return &DocumentError{
			Problem: Malformed, Offset: at, cause: err, Detail: "the gzip stream is damaged: " + err.Error(),
		}
	}
	return fmt.Errorf("read the document at byte %d: %w", at, err)
}

func (w *window) overLimit() error {
	return &DocumentError{
		Problem: Limit, Offset: w.limit,
		Detail: fmt.Sprintf("the document is longer than the %d bytes allowed", w.limit),
	}
}

// A bad character becomes the error that the scanner meets there.
func (w *window) check() {
	n, bad := validChars(w.buf[w.end:w.raw])
	w.end += n
	at := w.base + int64(w.end)
	if !bad {
		if w.end < w.raw && w.err == io.EOF {
			w.err = &DocumentError{Problem: Truncated, Offset: at, Detail: "the input ends inside a character"}
		}
		return
	}
	rest := w.buf[w.end:w.raw]
	w.raw = w.end
	e := &DocumentError{Problem: WrongEncoding, Offset: at, Detail: "a byte sequence that is not UTF-8"}
	if r, size := utf8.DecodeRune(rest); r != utf8.RuneError || size > 1 {
		e.Problem, e.Detail = Malformed, "a character that XML does not allow"
	} else if at == 0 && (rest[0] == 0xFE || rest[0] == 0xFF) {
		e.Detail = "the document is in UTF-16; only UTF-8 is read"
	}
	w.err = e
}

// validChars counts whole characters of XML 1.0 in UTF-8; bad reports that the next one cannot be completed.
func validChars(b []byte) (n int, bad bool) {
	const low, high = 0x0101010101010101, 0x8080808080808080
	for n < len(b) {
		// Eight at a time, while none is a control character or beyond ASCII.
		for n+8 <= len(b) {
			x := binary.LittleEndian.Uint64(b[n:])
			if ((x-low*0x20)|x)&high != 0 {
				break
			}
			n += 8
		}
		for stop := min(n+8, len(b)); n < stop; {
			c := b[n]
			if c >= utf8.RuneSelf {
				r, size := utf8.DecodeRune(b[n:])
				if r == utf8.RuneError && size == 1 {
					return n, utf8.FullRune(b[n:])
				}
				if r == 0xFFFE || r == 0xFFFF {
					return n, true
				}
				n += size
				continue
			}
			if c < ' ' && c != '\n' && c != '\t' && c != '\r' {
				return n, true
			}
			n++
		}
	}
	return n, false
}

// A .xml.gz that the server compresses again is packed twice.
const maxGzipLayers = 2

// Open is NewReader for a document that may be packed with gzip, which its content shows [digest 18].
// Options.Limits.Bytes bounds the inflated size. A cut or damaged gzip stream is an error even behind the root's end
// tag.
//
// An error is that of the first read, as Next would return it.
func Open(r io.Reader, o Options) (*Reader, error) {
	for range maxGzipLayers {
		packed := bufio.NewReaderSize(r, smallWindow)
		magic, err := packed.Peek(2)
		if err != nil && err != io.EOF {
			return nil, fmt.Errorf("read the beginning of the document: %w", err)
		}
		if !isGzip(magic) {
			return NewReader(packed, o), nil
		}
		inflated, err := gzip.NewReader(packed)
		if err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, fmt.Errorf("inflate the document: %w", refused(err, 0))
		}
		r = inflated
	}
	return NewReader(r, o), nil
}

// OpenBytes is Open for a document in memory, which must not change before the reader is done.
func OpenBytes(b []byte, o Options) (*Reader, error) {
	if isGzip(b) {
		return Open(bytes.NewReader(b), o)
	}
	return newReader(inPlace(b, o.Limits.withDefaults().Bytes), o), nil
}

func isGzip(b []byte) bool { return len(b) >= 2 && b[0] == 0x1F && b[1] == 0x8B }

// Limits bound what a document may cost (P8). A zero field means its default.
type Limits struct {
	// Bytes is the size of the whole document after inflating.
	Bytes int64
	// Depth is how deep elements may nest.
	Depth int
	// Attributes is how many a tag may have, and how many namespaces may be in force.
	Attributes int
	// Text is the most bytes of an attribute's value and of the text of loc or lastmod. A tag, and the links of one
	// owner together, may take four times as much.
	Text int
}

const maxLinks = 1_000 // rs:ln of one entry, or of the root

// withDefaults is generous in bytes, because real Sources exceed the 50 MB of the Sitemap protocol [digest 15].
func (l Limits) withDefaults() Limits {
	return Limits{
		Bytes: cmp.Or(l.Bytes, 8<<30), Depth: cmp.Or(l.Depth, 32), Attributes: cmp.Or(l.Attributes, 64),
		Text: cmp.Or(l.Text, 64<<10),
	}
}

func (l Limits) perTag() int { return 4 * max(l.Text, 1<<10) }

// Options of a reader. The zero value reads with the default limits.
type Options struct {
	// Base resolves relative references: the document's final URI [digest 6]. Without it they are bad.
	Base   *url.URL
	Limits Limits
	// Assume is the kind of a document whose root does not state one [digest 18].
	Assume Kind
	// Faulty has Next return unusable entries whose Loc can be read (Entry.Fault).
	Faulty bool
}
