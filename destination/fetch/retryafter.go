package fetch

import (
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// retryAfter reads Retry-After: seconds or an HTTP date, at most one hour (F53). A date is measured
// against the peer's own clock where it sent one (F74). Anything else, also a negative number or a
// past date, is 0.
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
	// Sub saturates, so a date in the year 9999 is a large duration, never a negative one.
	return min(max(at.Sub(now), 0), retryAfterCap)
}

// clampedSeconds reads digits of any number without overflow: more seconds than an hour are an hour.
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

// dates remembers the last parsed Date: all answers of a second share it, and parsing it for each
// small resource is measurable.
type dates struct{ last atomic.Pointer[date] }

type date struct {
	text string
	at   time.Time
}

// of is answerDate.
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

// answerDate reads the Date header; zero if it is absent or unreadable.
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
