package fetch

import (
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// retryAfter reads Retry-After: seconds or an HTTP date by the peer's own clock (F74), at most one hour (F53).
func retryAfter(h http.Header, now time.Time) time.Duration {
	v := strings.Trim(h.Get("Retry-After"), " \t")
	if v == "" {
		return 0
	}
	if secs, ok := clampedSeconds(v); ok {
		return time.Duration(secs) * time.Second
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

// clampedSeconds reads digits of any number without overflow.
func clampedSeconds(v string) (secs int64, ok bool) {
	limit := int64(retryAfterCap / time.Second)
	for i := range len(v) {
		if v[i] < '0' || v[i] > '9' {
			return 0, false
		}
		secs = min(secs*10+int64(v[i]-'0'), limit)
	}
	return secs, true
}

// dates remembers the last Date, which all answers of a second share.
type dates struct{ last atomic.Pointer[date] }

type date struct {
	text string
	at   time.Time
}

func (d *dates) of(h http.Header) time.Time {
	text := h.Get("Date")
	if last := d.last.Load(); last != nil && last.text == text {
		return last.at
	}
	at := answerDate(h)
	if !at.IsZero() {
		d.last.Store(&date{text, at})
	}
	return at
}

func answerDate(h http.Header) time.Time {
	v := h.Get("Date")
	if v == "" {
		return time.Time{}
	}
	t, err := http.ParseTime(v)
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}
