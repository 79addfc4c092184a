package feed

import (
	"slices"
	"strings"
	"time"
)

// gofeedDate rewrites a date to a form that gofeed tries early, because it tries a hundred others before GMT. A zone
// name becomes an offset: gofeed takes an unknown one for this machine's, or for UTC.
func gofeedDate(date string) string {
	if d, ok := strings.CutSuffix(date, " GMT"); ok {
		if _, err := time.Parse("Mon, 02 Jan 2006 15:04:05", d); err == nil {
			return d + " +0000"
		}
	}
	if at := strings.LastIndexByte(date, ' '); at > 0 {
		if offset := zoneOffsets[date[at+1:]]; offset != "" {
			return date[:at+1] + offset
		}
	}
	return date
}

// zoneOffsets are those of time zones that gofeed does not know.
var zoneOffsets = map[string]string{
	"WET": "+0000", "WEST": "+0100", "EET": "+0200", "SAST": "+0200", "EEST": "+0300", "MSK": "+0300",
	"HKT": "+0800", "SGT": "+0800", "AWST": "+0800", "JST": "+0900", "KST": "+0900", "AEST": "+1000", "AEDT": "+1100",
	"NZST": "+1200", "NZDT": "+1300", "BRT": "-0300", "ART": "-0300",
}

// plausible parses a date, but drops 0000-00-00 and its like, which stand for no date. It knows the W3C's years and
// months, RFC 3339 in lower case and RFC 822 in other languages, which gofeed does not.
func plausible(t *time.Time, text string) time.Time {
	if t == nil {
		text = strings.ToUpper(strings.TrimSpace(text))
		for _, layout := range []string{time.RFC3339, "2006-01", "2006"} {
			if got, err := time.Parse(layout, text); err == nil {
				t = &got
				break
			}
		}
	}
	if t == nil {
		t = translatedDate(text)
	}
	if t == nil || t.Year() < 1000 || t.Year() > 9999 {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}

// translatedDate reads "[Mi,] 3. Dez 2025 09:39[:21] [GMT][+02:00]", in the languages that month knows; nil for
// anything else.
func translatedDate(text string) *time.Time {
	f := strings.Fields(strings.ToLower(text))
	if len(f) > 1 && strings.Trim(f[0], "0123456789.") != "" { // the weekday, often wrong
		f = f[1:]
	}
	if len(f) < 4 || len(f) > 5 {
		return nil
	}
	offset := "+0000"
	if len(f) == 5 {
		offset = strings.ReplaceAll(strings.TrimPrefix(strings.TrimPrefix(f[4], "gmt"), "utc"), ":", "")
		if offset == "" || offset == "z" {
			offset = "+0000"
		}
	}
	date := strings.TrimSuffix(f[0], ".") + " " + month(f[1]) + " " + f[2] + " " + f[3] + " " + offset
	for _, layout := range []string{"2 Jan 2006 15:04:05 -0700", "2 Jan 2006 15:04 -0700", "2 Jan 06 15:04:05 -0700"} {
		if t, err := time.Parse(layout, date); err == nil {
			return &t
		}
	}
	return nil
}

// months are how names of the months begin in western European languages.
var months = [12]string{
	"jan ene gen", "feb fév fev", "mar mär mrz mrt maa", "apr avr abr", "may mai mag mei maj", "jun giu juin",
	"jul jui lug", "aug aoû aou ago", "sep set", "oct okt ott out", "nov", "dec dez déc dic",
}

// month is the English abbreviation of a month's name or abbreviation.
func month(name string) string {
	letters := []rune(name)
	for _, length := range []int{4, 3} { // juin is no juillet
		begin := string(letters[:min(length, len(letters))])
		for i, names := range months {
			if slices.Contains(strings.Fields(names), begin) {
				return time.Month(i + 1).String()[:3]
			}
		}
	}
	return name
}
