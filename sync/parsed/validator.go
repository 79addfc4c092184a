package parsed

import (
	"net/http"
	"strings"
	"time"

	"resyncd/store"
)

// HTTPTime reads an HTTP date as an instant.
func HTTPTime(s string) (store.Micros, bool) {
	if at, ok := fixdate(s); ok {
		return at, true
	}
	t, err := http.ParseTime(s)
	if err != nil {
		return store.NoTime, false
	}
	return store.Micros(t.UnixMicro()), true
}

// fixdate reads the usual form (RFC 9110, 5.6.7) and leaves the rest to net/http: package time is too slow for two
// dates in each small answer.
func fixdate(s string) (store.Micros, bool) {
	const form = "aaa, 00 aaa 0000 00:00:00 GMT"
	if len(s) != len(form) {
		return store.NoTime, false
	}
	for i := range len(form) {
		switch c := form[i]; {
		case c == '0':
			if s[i] < '0' || s[i] > '9' {
				return store.NoTime, false
			}
		case c != 'a' && c != s[i]:
			return store.NoTime, false
		}
	}
	number := func(from, to int) (n int) {
		for _, c := range s[from:to] {
			n = 10*n + int(c-'0')
		}
		return n
	}
	month := strings.Index("JanFebMarAprMayJunJulAugSepOctNovDec", s[8:11])
	weekday := strings.Index("SunMonTueWedThuFriSat", s[:3])
	day, hour, minute, second := number(5, 7), number(17, 19), number(20, 22), number(23, 25)
	if month%3 != 0 || weekday%3 != 0 || hour > 23 || minute > 59 || second > 59 {
		return store.NoTime, false
	}
	t := time.Date(number(12, 16), time.Month(month/3+1), day, hour, minute, second, 0, time.UTC)
	return store.Micros(t.UnixMicro()), t.Day() == day // the month must have the day
}

// WeakFor is the age of a usable Last-Modified.
const WeakFor store.Micros = 2 * 1e6

// Lasting are the validators for a conditional request. A change within the second of Last-Modified would get 304 for
// ever (RFC 9110 8.8.2.2), also by an ETag of time and length.
func Lasting(etag, lastModified string, date store.Micros) (string, string) {
	if at, ok := HTTPTime(lastModified); ok && (!date.Known() || date-at < WeakFor) {
		return "", ""
	}
	return etag, lastModified
}
