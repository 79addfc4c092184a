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
func (t *tape) rewind() (io.Reader, error) {
	body := bufio.NewReader(io.LimitReader(io.MultiReader(&t.kept, t.r), pageBytes))
	if magic, err := body.Peek(2); err != nil || magic[0] != 0x1F || magic[1] != 0x8B {
		return body, nil // an empty page is for the caller to find
	}
	inflated, err := gzip.NewReader(body)
	if err != nil {
		return nil, err
	}
	return io.LimitReader(inflated, pageBytes), nil
}
