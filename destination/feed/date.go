package feed

import (
	_ "embed"
	"slices"
	"strings"
	"time"
)

// maxDate is more than the bytes of any date, so that no long text is tried in vain (P8).
const maxDate = 100

// The layouts of the dates that feeds have, of two readings of a date the usual one first; those with a zone's name are
// behind the empty line.
//
//go:embed dates.txt
var layoutText string

var numberLayouts, zoneLayouts = func() ([]string, []string) {
	numbers, zones, _ := strings.Cut(strings.TrimSpace(layoutText), "\n\n")
	return strings.Split(numbers, "\n"), strings.Split(zones, "\n")
}()

// zoneOffsets are those of time zones with a name, wherever it stands; of two zones with one name that of North
// America, or of western Europe.
var zoneOffsets = map[string]string{
	"EST": "-0500", "EDT": "-0400", "CST": "-0600", "CDT": "-0500", "MST": "-0700", "MDT": "-0600", "PST": "-0800",
	"PDT": "-0700", "WEST": "+0100", "BST": "+0100", "CET": "+0100", "CEST": "+0200", "EET": "+0200",
	"EEST": "+0300",
}

// lastOffsets are those of zones whose names only count as the last word of a date, in place of an offset.
var lastOffsets = map[string]string{
	"WET": "+0000", "WEST": "+0100", "EET": "+0200", "SAST": "+0200", "EEST": "+0300", "MSK": "+0300",
	"HKT": "+0800", "SGT": "+0800", "AWST": "+0800", "JST": "+0900", "KST": "+0900", "AEST": "+1000", "AEDT": "+1100",
	"NZST": "+1200", "NZDT": "+1300", "BRT": "-0300", "ART": "-0300",
}

// parseDate reads a date in any of the forms that feeds have: those of the layouts, the W3C's years and months,
// RFC 3339 in lower case and RFC 822 in other languages. It is zero for anything else, and for 0000-00-00 and its like,
// which stand for no date.
func parseDate(text string) time.Time {
	text = strings.TrimSpace(text)
	if len(text) > maxDate {
		return time.Time{}
	}
	t, ok := layoutDate(text)
	for _, layout := range []string{time.RFC3339, "2006-01", "2006"} {
		if !ok {
			t, ok = parseAs(layout, strings.ToUpper(text))
		}
	}
	if !ok {
		t = translatedDate(text)
	}
	if t.Year() < 1000 || t.Year() > 9999 {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}

// layoutDate reads a date by the layouts.
func layoutDate(text string) (time.Time, bool) {
	at := strings.LastIndexByte(text, ' ') + 1
	if offset := lastOffsets[text[at:]]; offset != "" {
		text = text[:at] + offset
	}
	if t, ok := parseAsAny(numberLayouts, text); ok {
		return t, true
	}
	t, ok := parseAsAny(zoneLayouts, text)
	if zone, _ := t.Zone(); ok && zoneOffsets[zone] != "" { // a name alone is taken for UTC
		return parseAs(time.DateTime+" -0700", t.Format("2006-01-02 15:04:05.999999999 ")+zoneOffsets[zone])
	}
	return t, ok
}

func parseAsAny(layouts []string, text string) (time.Time, bool) {
	for _, layout := range layouts {
		if t, ok := parseAs(layout, text); ok {
			return t, true
		}
	}
	return time.Time{}, false
}

// parseAs takes a zone that is not known for UTC, wherever this machine is.
func parseAs(layout, text string) (time.Time, bool) {
	t, err := time.ParseInLocation(layout, text, time.UTC)
	return t, err == nil
}

// translatedDate reads "[Mi,] 3. Dez 2025 09:39[:21] [GMT][+02:00]", in the languages that month knows; it is zero for
// anything else.
func translatedDate(text string) time.Time {
	f := strings.Fields(strings.ToLower(text))
	if len(f) > 1 && strings.Trim(f[0], "0123456789.") != "" { // the weekday, often wrong
		f = f[1:]
	}
	if len(f) < 4 || len(f) > 5 {
		return time.Time{}
	}
	offset := "+0000"
	if len(f) == 5 {
		offset = strings.ReplaceAll(strings.TrimPrefix(strings.TrimPrefix(f[4], "gmt"), "utc"), ":", "")
		if offset == "" || offset == "z" {
			offset = "+0000"
		}
	}
	date := strings.TrimSuffix(f[0], ".") + " " + month(f[1]) + " " + f[2] + " " + f[3] + " " + offset
	t, _ := parseAsAny([]string{"2 Jan 2006 15:04:05 -0700", "2 Jan 2006 15:04 -0700", "2 Jan 06 15:04:05 -0700"}, date)
	return t
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
