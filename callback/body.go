package callback

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// Reasons for refusing a notification.
var (
	errTooLarge  = errors.New("the notification is larger than allowed")
	errSignature = errors.New("the signature is not right")
	errGone      = errors.New("the subscription has ended")
	errFull      = errors.New("the inbox is full")
	errBusy      = errors.New("there is no room for another notification just now")
	errSlow      = errors.New("the notification did not come in time")
	errCoding    = errors.New("the content coding is not understood")
)

// A decoded body may be this many times its coded size, beyond a first megabyte (S-84).
const (
	maxRatio   = 200
	ratioGrace = 1 << 20
)

// readBody reads a body up to most bytes into reserved memory. An announced length alone costs
// nothing.
func readBody(w http.ResponseWriter, r *http.Request, most int64, reserved *reservation) ([]byte, error) {
	announced := r.ContentLength // -1: chunked
	if announced > most {
		drainTooLarge(w, r, r.Body, most)
		return nil, errTooLarge
	}
	body := r.Body
	b, err := grow(http.MaxBytesReader(w, body, most), announced, most, reserved)
	var large *http.MaxBytesError
	switch {
	case err == nil:
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
		return b, nil
	case errors.As(err, &large):
		drainTooLarge(w, r, body, most)
		return nil, errTooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, errSlow
	}
	return nil, err
}

// drainTooLarge lets a sender finish a notification that is too large, so that it reads the reason.
func drainTooLarge(w http.ResponseWriter, r *http.Request, body io.Reader, most int64) {
	drain(w, r, body, 4*most, requestTime)
}

// grow reads r to its end, but at most one byte more than expected (-1: unknown) or most.
func grow(r io.Reader, expected, most int64, reserved *reservation) ([]byte, error) {
	const first, unknown = 64 << 10, 4 << 10
	size := int64(unknown)
	if expected >= 0 {
		size, most = min(expected, first)+1, expected
	}
	if !reserved.extend(size) {
		return nil, errBusy
	}
	b := make([]byte, 0, size)
	for {
		if len(b) == cap(b) {
			next := min(2*int64(cap(b)), max(most+2, int64(cap(b))+1))
			if !reserved.extend(next - int64(cap(b))) {
				return nil, errBusy
			}
			larger := make([]byte, len(b), next)
			copy(larger, b)
			b = larger
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err == io.EOF { //nolint:errorlint // only a bare EOF ends a body
			return b, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the notification: %w", err)
		}
	}
}

// codingOf reads Content-Encoding; "" is identity.
func codingOf(h http.Header) string {
	var codings []string
	for _, line := range h.Values("Content-Encoding") {
		for c := range strings.SplitSeq(line, ",") {
			if c = strings.ToLower(strings.TrimSpace(c)); c != "" && c != "identity" {
				codings = append(codings, strings.TrimPrefix(c, "x-"))
			}
		}
	}
	return strings.Join(codings, ", ")
}

// decode undoes a content coding. Its errors are errTooLarge, errBusy and errCoding.
func decode(coding string, raw []byte, most int64, reserved *reservation) ([]byte, error) {
	var plain io.ReadCloser
	var err error
	switch coding {
	case "gzip":
		plain, err = gzip.NewReader(bytes.NewReader(raw))
	case "deflate":
		plain, err = zlib.NewReader(bytes.NewReader(raw))
	default:
		return nil, errCoding
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errCoding, err)
	}
	defer func() { _ = plain.Close() }()
	most = min(most, max(ratioGrace, maxRatio*int64(len(raw))))
	b, err := grow(io.LimitReader(plain, most+1), -1, most, reserved)
	switch {
	case errors.Is(err, errBusy):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errCoding, err)
	case int64(len(b)) > most:
		return nil, errTooLarge
	}
	return b, nil
}
