package rsdoc

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
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
			return nil, fmt.Errorf("inflate the document: %w", gzipError(err))
		}
		r = gzipReader{inflated}
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

type gzipReader struct{ r io.Reader }

func (g gzipReader) Read(p []byte) (int, error) {
	n, err := g.r.Read(p)
	if err != nil && err != io.EOF {
		err = gzipError(err)
	}
	return n, err
}

func gzipError(err error) error {
	var corrupt flate.CorruptInputError
	switch {
	case err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF):
		return &DocumentError{Problem: Truncated, Detail: "the gzip stream ends too early", cause: io.ErrUnexpectedEOF}
	case errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) || errors.As(err, &corrupt):
		return &DocumentError{Problem: Malformed, Detail: "the gzip stream is damaged: " + err.Error(), cause: err}
	}
	return err // of the underlying reader
}
