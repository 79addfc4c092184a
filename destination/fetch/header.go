package fetch

import (
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// header has no Referer and no cookies; credentials go to their own origin only.
func (c *Client) header(ex *exchange) http.Header {
	req := &ex.req
	h := make(http.Header, 8)
	if ex.at.credentialed {
		req.Policy.Auth.apply(h)
	}
	h.Set("User-Agent", c.options.UserAgent)
	h.Set("Accept-Encoding", "identity")
	if req.Gzip {
		h.Set("Accept-Encoding", "gzip")
	}
	setValidator(h, "If-None-Match", req.ETag)
	setValidator(h, "If-Modified-Since", req.LastModified)
	if req.NoCache {
		h.Set("Cache-Control", "no-cache")
		h.Set("Pragma", "no-cache")
	}
	if req.RangeFrom > 0 {
		h.Set("Range", "bytes="+strconv.FormatInt(req.RangeFrom, 10)+"-")
		setValidator(h, "If-Range", req.IfRange)
	}
	return h
}

// setValidator drops a value that cannot be sent.
func setValidator(h http.Header, name, value string) {
	if value != "" && isHeaderValue(value) {
		h.Set(name, value)
	}
}

func (a *Auth) apply(h http.Header) {
	for name, value := range a.Headers {
		if isToken(name) && isHeaderValue(value) {
			h.Set(name, value)
		}
	}
	switch {
	case a.Bearer != "":
		setValidator(h, "Authorization", "Bearer "+a.Bearer)
	case a.BasicUser != "" || a.BasicPassword != "":
		pair := a.BasicUser + ":" + a.BasicPassword
		h.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(pair)))
	}
	// Framing is net/http's and the range is this package's.
	for _, name := range [...]string{"Range", "If-Range", "Connection", "Transfer-Encoding", "Content-Length", "Te",
		"Host"} {
		h.Del(name)
	}
}

// secrets are the strings that a peer must not get repeated in a message.
func (ex *exchange) secrets() []string {
	all := []string{ex.url.RawQuery}
	if !ex.at.credentialed {
		return all
	}
	a := ex.req.Policy.Auth
	all = append(all, a.Bearer, a.BasicPassword,
		base64.StdEncoding.EncodeToString([]byte(a.BasicUser+":"+a.BasicPassword)))
	for _, v := range a.Headers {
		all = append(all, v)
	}
	return all
}

func (ex *exchange) conceal(text string) string {
	for _, s := range ex.secrets() {
		if len(s) > 3 {
			text = strings.ReplaceAll(text, s, "…")
		}
	}
	return text
}

func isHeaderValue(v string) bool {
	return strings.IndexFunc(v, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) < 0
}

func isToken(name string) bool {
	return name != "" && strings.IndexFunc(name, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune("()<>@,;:\\\"/[]?={}", r)
	}) < 0
}

// retryAfter reads Retry-After: seconds or an HTTP date by the peer's own clock (F74), at most one hour (F53).
func retryAfter(h http.Header, now time.Time) time.Duration {
	v := strings.Trim(h.Get("Retry-After"), " \t")
	if v == "" {
		return 0
	}
	if strings.Trim(v, "0123456789") == "" {
		secs, _ := strconv.ParseUint(v, 10, 64) // the most there is, of a number beyond that
		return time.Duration(min(secs, uint64(retryAfterCap/time.Second))) * time.Second
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0
	}
	if date := answerDate(h); !date.IsZero() {
		now = date
	}
	// Sub saturates, so the year 9999 is never negative.
	return min(max(at.Sub(now), 0), retryAfterCap)
}

func answerDate(h http.Header) time.Time {
	t, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}
