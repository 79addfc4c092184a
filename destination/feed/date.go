package feed

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"
)

// maxDate is more than the bytes of any date, so that no long text is tried in vain (P8).
const maxDate = 100

// parseDate reads a date in any of the forms that feeds have: RFC 3339, RFC 822 in several languages, the W3C's years
// and months, and what people write by hand. It is zero for anything else, and for 0000-00-00 and its like, which stand
// for no date.
func parseDate(text string) time.Time {
	text = strings.ToUpper(strings.TrimSpace(text))
	if len(text) > maxDate {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t = looseDate(text)
	}
	if t.Year() < 1000 || t.Year() > 9999 {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}

// The parts of a date once its words are in order. With half a day or a zone's name, a date of numbers is American.
var (
	dayLayouts = []string{"2006-1-2", "2 Jan 2006", "Jan 2 2006", "2 Jan 06", "2-Jan-06", "2006 Jan 2", "2.1.2006",
		"2006/1/2", "2-1-2006", "1-2-2006"}
	numberLayouts   = []string{"2/1/2006", "1/2/2006"}
	americanLayouts = []string{"1/2/2006", "2/1/2006"}
	clockLayouts    = []string{" 15:4:5", " 15:4", "", " 3:4:5 PM", " 3:4 PM", " 15"}
	wholeLayouts    = []string{"2006-1", "2006", "06/1/2 15:4", "06-1-2 15:4", "15:4 2.1.2006",
		"2006-1-2 15:4:5:00"}
)

// looseDate is zero for what is no date.
func looseDate(text string) time.Time {
	text, offset, american := cutZone(strings.Join(orderedWords(text), " "))
	layouts := numberLayouts
	if american {
		layouts = americanLayouts
	}
	for _, day := range slices.Concat(dayLayouts, layouts) {
		for _, clock := range clockLayouts {
			if t, err := time.Parse(day+clock+" -0700", text+offset); err == nil {
				return t
			}
		}
	}
	for _, whole := range wholeLayouts {
		if t, err := time.Parse(whole+" -0700", text+offset); err == nil {
			return t
		}
	}
	return time.Time{}
}

var (
	notes    = strings.NewReplacer(",", " ", "A.M.", " AM", "P.M.", " PM", " AT ", " ", " - ", " ", "(", " ", ")", " ")
	isoClock = regexp.MustCompile(`^(\d{4}-\d{1,2}-\d{1,2})T(\d)`)
	halfDay  = regexp.MustCompile(`(\d) ?([AP]M)\b`)
)

// orderedWords are the words of a date without its weekday, which is often wrong; the month is in English, and a year
// behind the clock stands behind the day.
func orderedWords(text string) []string {
	text = isoClock.ReplaceAllString(notes.Replace(text), "$1 $2")
	words := strings.Fields(halfDay.ReplaceAllString(text, "$1 $2"))
	var names []int // of the first three words, those that are neither numbers nor offsets
	for i, w := range words[:min(len(words), 3)] {
		if strings.IndexByte("0123456789+-", w[0]) < 0 {
			names = append(names, i)
		}
	}
	if len(names) > 0 && names[0] < 2 && (len(names) > 1 || month(words[names[0]]) == "") {
		words = slices.Delete(words, names[0], names[0]+1)
	}
	for i, w := range words[:min(len(words), 2)] {
		words[i] = cmp.Or(month(w), strings.TrimSuffix(w, "."))
	}
	if len(words) > 3 && strings.Contains(words[2], ":") {
		isYear := func(w string) bool { return len(w) == 4 && strings.Trim(w, "0123456789") == "" }
		if at := slices.IndexFunc(words, isYear); at > 2 {
			year := words[at]
			words = slices.Insert(slices.Delete(words, at, at+1), 2, year)
		}
	}
	return words
}

// How a date ends: behind its clock half a day, a zone's name, an offset, or several; without one an offset.
var (
	behindClock = regexp.MustCompile(`^(.*?\d:\d\d?(?::\d\d?(?:\.\d+)?)?(?: ([AP]M))?)` +
		`:? ?([A-Z]*) ?-?([+-]\d\d?:?\d\d|[+-]\d\d)?(?::\d\d)?(?: [A-Z]+| 00)?$`)
	behindDay = regexp.MustCompile(`^(.*\d) ([+-]\d\d:?\d\d)$`)
)

// cutZone returns the offset of a date as " -0700": UTC without one, and for a zone that is not known.
func cutZone(date string) (rest, offset string, american bool) {
	if m := behindClock.FindStringSubmatch(date); m != nil {
		date, american = m[1], m[2]+m[3] != ""
		offset = cmp.Or(m[4], zoneOffsets[m[3]])
	} else if m := behindDay.FindStringSubmatch(date); m != nil {
		date, offset = m[1], m[2]
	}
	offset = strings.ReplaceAll(offset, ":", "")
	switch len(offset) {
	case len(""):
		offset = "+0000"
	case len("-07"):
		offset += "00"
	case len("-700"):
		offset = offset[:1] + "0" + offset[1:]
	}
	return date, " " + offset, american
}

// zoneOffsets are those of time zones with a name; of two zones with one name that of North America, or of western
// Europe.
var zoneOffsets = map[string]string{
	"EST": "-0500", "EDT": "-0400", "CST": "-0600", "CDT": "-0500", "MST": "-0700", "MDT": "-0600", "PST": "-0800",
	"PDT": "-0700", "BRT": "-0300", "ART": "-0300", "WEST": "+0100", "BST": "+0100", "CET": "+0100", "CEST": "+0200",
	"EET": "+0200", "EEST": "+0300", "SAST": "+0200", "MSK": "+0300", "HKT": "+0800", "SGT": "+0800", "AWST": "+0800",
	"JST": "+0900", "KST": "+0900", "AEST": "+1000", "AEDT": "+1100", "NZST": "+1200", "NZDT": "+1300",
}

// months are how names of the months begin in western European languages.
var months = [12]string{
	"JAN ENE GEN", "FEB FÉV FEV", "MAR MÄR MRZ MRT MAA", "APR AVR ABR", "MAY MAI MAG MEI MAJ", "JUN GIU JUIN",
	"JUL JUI LUG", "AUG AOÛ AOU AGO", "SEP SET", "OCT OKT OTT OUT", "NOV", "DEC DEZ DÉC DIC",
}

// month is the English abbreviation of a month's name or abbreviation, "" for another word.
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
	return ""
}
