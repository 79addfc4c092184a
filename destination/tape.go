package destination

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"io"
)

// tape keeps the beginning of a body while it is tried as a document, so that it can be read again as a page. It keeps
// at most pageBytes; a document of which more was read is no page.
type tape struct {
	r    io.ReadCloser
	kept bytes.Buffer
}

// Read implements io.Reader.
func (t *tape) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	if room := pageBytes - t.kept.Len(); room > 0 {
		t.kept.Write(p[:min(n, room)])
	}
	return n, err
}

// Close implements io.Closer.
func (t *tape) Close() error { return t.r.Close() }

// rewind is the body from its start, inflated if need be, as far as a page is of interest.
func (t *tape) rewind() (*bufio.Reader, error) {
	body, err := unpacked(io.LimitReader(io.MultiReader(&t.kept, t.r), pageBytes))
	if err != nil {
		return nil, err
	}
	return bufio.NewReaderSize(io.LimitReader(body, pageBytes), sniffed), nil
}

// packings is how often a body may be packed: a .xml.gz that the server compresses again is two.
const packings = 2

// unpacked is a body inflated if need be, which is told by its content as everywhere. It bounds nothing.
func unpacked(body io.Reader) (*bufio.Reader, error) {
	for range packings {
		packed := bufio.NewReaderSize(body, sniffed)
		if magic, err := packed.Peek(2); err != nil || magic[0] != 0x1F || magic[1] != 0x8B {
			return packed, nil // an empty body, and one that breaks off at once, is for the caller to find
		}
		inflated, err := gzip.NewReader(packed)
		if err != nil {
			return nil, err
		}
		body = inflated
	}
	return bufio.NewReaderSize(body, sniffed), nil
}
