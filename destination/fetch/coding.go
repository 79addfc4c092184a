package fetch

import (
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strings"
)

// A decoded body may be this many times its coded size, beyond a first megabyte.
const (
	maxRatio   = 200
	ratioGrace = 1 << 20
)

// contentCoding reads Content-Encoding; "" is identity, several codings are joined in order.
func contentCoding(h http.Header) string {
	var codings []string
	for _, line := range h.Values("Content-Encoding") {
		for _, c := range strings.Split(line, ",") {
			switch c = strings.ToLower(strings.TrimSpace(c)); c {
			case "", "identity":
			case "x-gzip":
				codings = append(codings, "gzip")
			default:
				codings = append(codings, c)
			}
		}
	}
	return strings.Join(codings, ", ")
}

// applyCoding decodes gzip that nobody asked for, except where the declared length says that the coded bytes are the
// resource: some servers label every .tar.gz as coded (F57).
func applyCoding(req *Request, info *Info, b *body) *Error {
	switch {
	case info.NotModified || info.Encoding == "":
		return nil
	case info.Encoding != "gzip":
		return because(Broken, "sent with the content coding %q, which was not asked for", info.Encoding)
	case req.Gzip, req.wireLength > 0 && info.Total == req.wireLength:
		return nil
	case info.Status == http.StatusPartialContent:
		return because(Broken, "sent a range of a gzip stream, which was not asked for")
	}
	info.Length, info.Total = -1, -1
	b.out = &inflater{coded: &counter{r: b.out}}
	return nil
}

type inflater struct {
	coded   *counter
	gz      *gzip.Reader
	decoded int64
}

func (f *inflater) Read(p []byte) (int, error) {
	if f.gz == nil {
		gz, err := gzip.NewReader(f.coded)
		if err == io.EOF { //nolint:errorlint // empty, but labelled
			return 0, io.EOF
		}
		if err != nil {
			return 0, f.classifyRead(err)
		}
		f.gz = gz
	}
	n, err := f.gz.Read(p)
	if f.decoded += int64(n); f.decoded > ratioGrace && f.decoded > maxRatio*f.coded.n {
		return 0, because(Broken, "its gzip stream grows to more than %d times its size", maxRatio)
	}
	if err != nil && err != io.EOF { //nolint:errorlint
		err = f.classifyRead(err)
	}
	return n, err
}

func (f *inflater) classifyRead(err error) error {
	if k, ok := errors.AsType[*Error](err); ok {
		return k
	}
	return because(Broken, "it is no valid gzip stream: %w", err)
}

type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}
