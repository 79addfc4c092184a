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
	"strconv"
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
	b, err := []byte(nil), errTooLarge
	if announced <= most {
		b, err = readAll(http.MaxBytesReader(w, r.Body, most), announced, most, reserved)
	}
	_, large := errors.AsType[*http.MaxBytesError](err)
	switch {
	case err == nil:
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
		return b, nil
	case large, errors.Is(err, errTooLarge):
		drain(w, r, 4*most, requestTime) // so that the sender ends, and reads the reason
		return nil, errTooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, errSlow
	}
	return nil, err
}

// readAll reads r to its end, of which that many bytes are expected (-1: unknown, and no more than most). It reserves
// its buffer before it makes it.
func readAll(r io.Reader, expected, most int64, reserved *reservation) ([]byte, error) {
	const first, unknown = 64 << 10, 4 << 10
	size := int64(unknown)
	if expected >= 0 {
		size, most = min(expected, first)+1, expected // one more, to see the end
	}
	var b []byte
	for ; ; size = min(2*size, max(most, size)+1) {
		if !reserved.extend(size - int64(cap(b))) {
			return nil, errBusy
		}
		b = append(make([]byte, 0, size), b...)
		for len(b) < cap(b) {
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
	b, err := readAll(io.LimitReader(plain, most+1), -1, most+1, reserved)
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

// How long a hub is asked to wait, by reason.
const (
	whileStarting = 5 * time.Second
	whileBusy     = 5 * time.Second
	whileFull     = time.Minute // the inbox drains at the engine's pace
)

// setSafeHeaders keeps browsers from interpreting an answer (S-33), some of which is a stranger's
// text.
func setSafeHeaders(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'")
}

// write sends an answer that depends only on its status: it reveals nothing about tokens (S-62).
func write(w http.ResponseWriter, status int) {
	h := w.Header()
	setSafeHeaders(h)
	if status == http.StatusOK {
		h.Set("Content-Length", "0")
		w.WriteHeader(status)
		return
	}
	text(w, status, http.StatusText(status)+"\n")
}

func text(w http.ResponseWriter, status int, body string) {
	h := w.Header()
	setSafeHeaders(h)
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body) // the peer may be gone
}

// refuse answers without reading the body.
func refuse(w http.ResponseWriter, r *http.Request, status int) {
	const most, patience = 1 << 20, 2 * time.Second
	drain(w, r, most, patience)
	write(w, status)
}

// busy asks the hub to come again (F45).
func busy(w http.ResponseWriter, r *http.Request, wait time.Duration) {
	w.Header().Set("Retry-After", strconv.Itoa(int(wait.Seconds())))
	refuse(w, r, http.StatusServiceUnavailable)
}

// drain discards a body, up to a bound: many clients lose an answer if the connection is reset
// while they send. One that waits for 100 Continue sends nothing.
func drain(w http.ResponseWriter, r *http.Request, most int64, patience time.Duration) {
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		return
	}
	control := http.NewResponseController(w)
	if r.Header.Get("Expect") != "" {
		w.Header().Set("Connection", "close")
		_ = control.SetReadDeadline(time.Now()) // net/http would wait for the body
		return
	}
	_ = control.SetReadDeadline(time.Now().Add(patience))
	//nolint:errorlint // only a bare EOF ends a body
	if n, err := io.CopyN(io.Discard, r.Body, most+1); n > most || err != io.EOF {
		w.Header().Set("Connection", "close")
	}
}
