package destination

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"io"
)

// recorder keeps the beginning of a body while it is tried as a document, so that it can be read again as a page.
type recorder struct {
	r    io.ReadCloser
	kept bytes.Buffer
}

func (t *recorder) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	if room := pageBytes - t.kept.Len(); room > 0 {
		t.kept.Write(p[:min(n, room)])
	}
	return n, err
}

func (t *recorder) Close() error { return t.r.Close() }

// rewind is the body from its start, inflated if need be, as far as a page matters.
func (t *recorder) rewind() (*bufio.Reader, error) {
	body, err := unpacked(io.LimitReader(io.MultiReader(&t.kept, t.r), pageBytes))
	if err != nil {
		return nil, err
	}
	return bufio.NewReaderSize(io.LimitReader(body, pageBytes), sniffed), nil
}

// maxPackings is how often a body may be packed: a .xml.gz that the server compresses again is two.
const maxPackings = 2

func unpacked(body io.Reader) (*bufio.Reader, error) {
	for range maxPackings {
		packed := bufio.NewReaderSize(body, sniffed)
		if magic, err := packed.Peek(2); err != nil || magic[0] != 0x1F || magic[1] != 0x8B {
			return packed, nil // the caller finds an empty or broken body
		}
		inflated, err := gzip.NewReader(packed)
		if err != nil {
			return nil, err
		}
		body = inflated
	}
	return bufio.NewReaderSize(body, sniffed), nil
}
