package fetch

import (
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
	b.out = b.raw()
	if err := applyCoding(req, info, b); err != nil {
		_ = b.Close()
		return nil, err
	}
	if req.MaxBytes > 0 {
		if max(info.Length, info.Total) > req.MaxBytes {
			_ = b.Close()
			return nil, tooLarge(req.MaxBytes)
		}
		ex.capped = capped{r: b.out, left: req.MaxBytes - req.rangeStart(info.Status), max: req.MaxBytes}
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

func (r *Request) rangeStart(status int) int64 {
	if status == http.StatusPartialContent {
		return r.RangeFrom
	}
	return 0
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
