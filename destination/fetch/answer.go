package fetch

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
)

func (ex *exchange) answer(resp *http.Response) (*Response, *Error) {
	req, info := &ex.req, &ex.response.Info
	describe(info, ex, resp)
	if err := checkAnswer(req, ex, resp, info); err != nil {
		_ = resp.Body.Close()
		ex.releaseSlot()
		return nil, err
	}
	b := &ex.body
	*b = body{exchange: ex, src: resp.Body, sent: resp.Request}
	b.out = (*watched)(b)
	if err := applyCoding(req, info, b); err != nil {
		_ = b.Close()
		return nil, err
	}
	if req.MaxBytes > 0 {
		if max(info.Length, info.Total) > req.MaxBytes {
			_ = b.Close()
			return nil, tooLarge(req.MaxBytes)
		}
		ex.capped = capped{r: b.out, left: req.MaxBytes, max: req.MaxBytes}
		if info.Status == http.StatusPartialContent {
			ex.capped.left -= req.RangeFrom
		}
		b.out = &ex.capped
	}
	ex.response.Body = b
	return &ex.response, nil
}

func describe(info *Info, ex *exchange, resp *http.Response) {
	h := resp.Header
	*info = Info{
		Status:       resp.StatusCode,
		URL:          ex.text,
		NotModified:  resp.StatusCode == http.StatusNotModified,
		ETag:         h.Get("Etag"),
		LastModified: h.Get("Last-Modified"),
		Type:         h.Get("Content-Type"),
		Encoding:     contentCoding(h),
		Length:       resp.ContentLength,
		Total:        resp.ContentLength,
		Date:         answerDate(h),
		Header:       h,
		Requests:     ex.requests,
	}
	info.CloseDelimited = resp.ContentLength < 0 && len(resp.TransferEncoding) == 0
	if info.NotModified {
		info.Length, info.Total, info.CloseDelimited = 0, -1, false
	}
}

func checkAnswer(req *Request, ex *exchange, resp *http.Response, info *Info) *Error {
	switch {
	case info.NotModified && !conditional(resp.Request):
		return because(Broken, "answered 304 although no validator was sent") // F59
	case info.NotModified, info.Status == http.StatusOK, info.Status == http.StatusNoContent && req.NoContent:
		return nil
	case info.Status == http.StatusPartialContent:
		return checkRange(req, info)
	}
	wait := retryAfter(resp.Header, time.Now())
	k := &Error{Kind: kindOfStatus(info.Status, wait > 0), Status: info.Status}
	if k.Kind == Throttled {
		k.RetryAfter = wait
	}
	said := ""
	if text := quoteBody(ex, resp); text != "" {
		said = ": it says " + text
	}
	k.Err = fmt.Errorf("answered %d %s%s", info.Status, http.StatusText(info.Status), said)
	return k
}

func conditional(sent *http.Request) bool {
	return sent.Header.Get("If-None-Match") != "" || sent.Header.Get("If-Modified-Since") != ""
}

func checkRange(req *Request, info *Info) *Error {
	if req.RangeFrom <= 0 {
		return because(Broken, "answered 206 although no range was asked for")
	}
	said := info.Header.Get("Content-Range")
	start, end, total, ok := contentRange(said)
	switch {
	case !ok:
		return because(Broken, "answered 206 with the Content-Range %q", said)
	case start != req.RangeFrom || end != total-1:
		return because(Broken, "asked for the bytes from %d, answered %q", req.RangeFrom, said)
	case info.Length >= 0 && info.Length != total-start:
		return because(Broken, "answered %q with %d bytes", said, info.Length)
	}
	info.Total = total
	return nil
}

// An unknown total is not accepted.
func contentRange(v string) (first, last, total int64, ok bool) {
	rest, ok := strings.CutPrefix(strings.ToLower(strings.TrimSpace(v)), "bytes ")
	if !ok {
		return 0, 0, 0, false
	}
	span, size, ok1 := strings.Cut(rest, "/")
	a, b, ok2 := strings.Cut(span, "-")
	var errs [3]error
	first, errs[0] = strconv.ParseInt(strings.TrimSpace(a), 10, 64)
	last, errs[1] = strconv.ParseInt(strings.TrimSpace(b), 10, 64)
	total, errs[2] = strconv.ParseInt(strings.TrimSpace(size), 10, 64)
	ok = ok1 && ok2 && errs == [3]error{} && first >= 0 && last >= first && total > last
	return first, last, total, ok
}

// quoteBody quotes the start of a plain error page (F27).
func quoteBody(ex *exchange, resp *http.Response) string {
	switch media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); media {
	case "text/plain", "application/json", "application/problem+json":
	default:
		return ""
	}
	page, _ := io.ReadAll(resp.Body)
	text := ex.conceal(strings.Join(strings.Fields(string(page)), " "))
	if len(text) > 200 {
		text = text[:200] + "…"
	}
	if text == "" {
		return ""
	}
	return strconv.Quote(text)
}

// body is a response body that stalls only for a bounded time (F54).
type body struct {
	exchange *exchange
	sent     *http.Request // its context ends the body
	src      io.ReadCloser
	out      io.Reader   // src watched, perhaps decoded, perhaps capped
	idle     *time.Timer // closes the body when a read takes too long
	err      error       // sticky

	waited time.Duration // in the current window, waiting for the peer
	moved  int64
}

// Read implements io.Reader; errors other than io.EOF are *Error.
func (b *body) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.out.Read(p)
	if err == nil {
		return n, nil
	}
	if err != io.EOF { //nolint:errorlint // a wrapped EOF would not be the end of the body
		err = b.exchange.wrap("read", b.classifyRead(err))
	}
	b.err = err
	return n, err
}

func (b *body) classifyRead(err error) *Error {
	if k, ok := errors.AsType[*Error](err); ok {
		return k
	}
	k := classify(b.sent.Context(), err)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		k.Err = fmt.Errorf("body was cut short: %w", err)
	}
	return k
}

// Close may be called twice, but not beside Read.
func (b *body) Close() error {
	if b.src == nil {
		return nil
	}
	err := b.src.Close()
	b.src = nil
	b.exchange.releaseSlot()
	if b.err == nil {
		b.err = b.exchange.wrap("read", because(Canceled, "read of a closed body"))
	}
	return err
}

// watched is the body as it comes. Only the wait for the peer counts, so that a slow local disk cuts no transfer.
type watched body

func (w *watched) Read(p []byte) (int, error) {
	c := w.exchange.client
	limit := c.options.IdleTimeout
	if w.idle == nil {
		src := w.src
		w.idle = time.AfterFunc(limit, func() { _ = src.Close() })
	} else {
		w.idle.Reset(limit)
	}
	began := time.Now()
	w.exchange.notifyWait(true, began)
	n, err := w.src.Read(p)
	ended := time.Now()
	w.exchange.notifyWait(false, ended)
	rang := !w.idle.Stop()
	c.countBytes(w.exchange.req.Policy, n)
	if rang && err != io.EOF { //nolint:errorlint // as above
		return n, because(Stalled, "nothing came for %s", limit)
	}
	if err != nil {
		if err != io.EOF { //nolint:errorlint // as above
			err = (*body)(w).classifyRead(err)
		}
		return n, err
	}
	return n, w.tooSlow(n, ended.Sub(began))
}

func (w *watched) tooSlow(n int, waited time.Duration) error {
	w.waited += waited
	w.moved += int64(n)
	if w.waited < minRateWindow {
		return nil
	}
	moved, took := w.moved, w.waited
	w.waited, w.moved = 0, 0
	if float64(moved) >= minRate*took.Seconds() {
		return nil
	}
	return because(Stalled, "only %d bytes came in %s", moved, took.Round(time.Second))
}

// capped fails with TooLarge beyond max bytes (F56).
type capped struct {
	r    io.Reader
	left int64
	max  int64
}

func (c *capped) Read(p []byte) (int, error) {
	if int64(len(p)) > c.left+1 {
		p = p[:c.left+1]
	}
	n, err := c.r.Read(p)
	if int64(n) > c.left {
		n = int(c.left)
		c.left = 0
		return n, tooLarge(c.max)
	}
	c.left -= int64(n)
	return n, err
}

func tooLarge(limit int64) *Error {
	return because(TooLarge, "more than the allowed %d bytes", limit)
}

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
