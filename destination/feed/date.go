package feed

import (
	"strings"
	"time"
)

// common is a date in a form that gofeed knows early: before it comes to GMT it tries a hundred others.
func common(date string) string {
	if d, ok := strings.CutSuffix(date, " GMT"); ok {
		if _, err := time.Parse("Mon, 02 Jan 2006 15:04:05", d); err == nil {
			return d + " +0000"
		}
	}
	return date
}

// sensible is a date that can be one: 0000-00-00 and its like are written where there is none. gofeed does not know the
// W3C's years and months, nor RFC 3339 in lower case.
func sensible(t *time.Time, text string) time.Time {
	if t == nil {
		text = strings.ToUpper(strings.TrimSpace(text))
		for _, layout := range []string{time.RFC3339, "2006-01", "2006"} {
			if got, err := time.Parse(layout, text); err == nil {
				t = &got
				break
			}
		}
	}
	if t == nil || t.Year() < 1000 || t.Year() > 9999 {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}
