package feed

import (
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
		if offset := zoneOffset(date[at+1:]); offset != "" {
			return date[:at+1] + offset
		}
	}
	return date
}

// zoneOffset is the offset of a time zone that gofeed does not know, "" for all others.
func zoneOffset(name string) string {
	switch name {
	case "WET":
		return "+0000"
	case "WEST":
		return "+0100"
	case "EET", "SAST":
		return "+0200"
	case "EEST", "MSK":
		return "+0300"
	case "HKT", "SGT", "AWST":
		return "+0800"
	case "JST", "KST":
		return "+0900"
	case "AEST":
		return "+1000"
	case "AEDT":
		return "+1100"
	case "NZST":
		return "+1200"
	case "NZDT":
		return "+1300"
	case "BRT", "ART":
		return "-0300"
	}
	return ""
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

// month is the English abbreviation of a month's name or abbreviation in a western European language.
func month(name string) string {
	if strings.HasPrefix(name, "juin") {
		return "Jun"
	}
	letters := []rune(name)
	switch string(letters[:min(3, len(letters))]) {
	case "jan", "ene", "gen":
		return "Jan"
	case "feb", "fév", "fev":
		return "Feb"
	case "mar", "mär", "mrz", "mrt", "maa":
		return "Mar"
	case "apr", "avr", "abr":
		return "Apr"
	case "may", "mai", "mag", "mei", "maj":
		return "May"
	case "jun", "giu":
		return "Jun"
	case "jul", "jui", "lug":
		return "Jul"
	case "aug", "aoû", "aou", "ago":
		return "Aug"
	case "sep", "set":
		return "Sep"
	case "oct", "okt", "ott", "out":
		return "Oct"
	case "nov":
		return "Nov"
	case "dec", "dez", "déc", "dic":
		return "Dec"
	}
	return name
}
