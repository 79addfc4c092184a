package rsdoc

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"net/url"
)

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

const (
	maxLinks    = 1_000 // rs:ln of one entry, or of the root
	maxWarnings = 8
)

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
