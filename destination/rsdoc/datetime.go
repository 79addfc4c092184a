package rsdoc

import (
	"fmt"
	"math"
	"time"
)

// ParseMicros reads a W3C Datetime [7], cut to the microsecond. A time needs its zone; a date alone is its first
// instant in UTC [digest 6]. White space around is ignored, and a leap second (:60) is the second after it.
func ParseMicros(s string) (Micros, error) {
	m, fault := parseMicros(s)
	if fault != "" {
		return NoTime, fmt.Errorf("read %s as a W3C datetime: %s", quote(s), fault)
	}
	return m, nil
}

// parseMicros returns NoTime and what is wrong, or the instant. It allocates nothing.
func parseMicros[T text](s T) (Micros, string) {
	s = trimSpace(s)
	seconds, rest, fault := parseDate(s)
	if fault != "" {
		return NoTime, fault
	}
	var micros int64
	if len(rest) > 0 {
		clock, fraction, fault := parseClock(rest)
		if fault != "" {
			return NoTime, fault
		}
		seconds, micros = seconds+clock, fraction
	}
	m := Micros(seconds*1_000_000 + micros)
	if m < minDatetime || m > maxDatetime {
		return NoTime, "outside the years 0000 to 9999"
	}
	return m, ""
}

// parseDate reads YYYY, YYYY-MM or YYYY-MM-DD: seconds since 1970 and the rest, which is empty or begins with T.
func parseDate[T text](s T) (seconds int64, rest T, fault string) {
	year, ok := number(s, 0, 4)
	if !ok {
		return 0, rest, "no year of four digits at the start"
	}
	month, day := 1, 1
	if len(s) > 4 {
		if s[4] != '-' {
			return 0, rest, "no - after the year"
		}
		if month, ok = number(s, 5, 2); !ok || month < 1 || month > 12 {
			return 0, rest, "no month from 01 to 12"
		}
	}
	if len(s) > 7 {
		if s[7] != '-' {
			return 0, rest, "no - after the month"
		}
		if day, ok = number(s, 8, 2); !ok {
			return 0, rest, "no such day of the month"
		}
		if rest = s[10:]; len(rest) > 0 && rest[0] != 'T' && rest[0] != 't' {
			return 0, rest, "no T after the date"
		}
	}
	leap := year%4 == 0 && (year%100 != 0 || year%400 == 0)
	first, next := daysBefore[month-1], daysBefore[month]
	if leap && month >= 2 {
		next++
	}
	if leap && month > 2 {
		first++
	}
	if day < 1 || day > next-first {
		return 0, rest, "no such day of the month"
	}
	const daysTo1970 = 719_528 // from the first day of the year 0
	leaps := (year+3)/4 - (year+99)/100 + (year+399)/400
	return int64(365*year+leaps+first+day-1-daysTo1970) * 86400, rest, ""
}

// daysBefore counts the days of a year before each month, but for the leap day. The package time takes a quarter
// longer for a list.
var daysBefore = [...]int{0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365}

// parseClock reads Thh:mm, optional seconds and fraction, and the zone: seconds after midnight UTC and microseconds.
func parseClock[T text](s T) (seconds, micros int64, fault string) {
	hour, ok := number(s, 1, 2)
	if !ok || hour > 23 {
		return 0, 0, "no hour of two digits up to 23"
	}
	minute, ok := number(s, 4, 2)
	if !ok || s[3] != ':' || minute > 59 {
		return 0, 0, "no minute of two digits up to 59"
	}
	second, i := 0, 6
	if i < len(s) && s[i] == ':' {
		if second, ok = number(s, 7, 2); !ok || second > 60 {
			return 0, 0, "no second of two digits up to 60"
		}
		i = 9
		if i < len(s) && s[i] == '.' {
			i++
			first := i
			for scale := int64(100_000); i < len(s) && isDigit(s[i]); i++ {
				micros += int64(s[i]-'0') * scale
				scale /= 10
			}
			if i == first {
				return 0, 0, "no digit after the point"
			}
		}
	}
	zone, fault := parseZone(s[i:])
	return int64(hour*3600+minute*60+second) - zone, micros, fault
}

// parseZone reads Z or ±hh:mm: seconds east of UTC.
func parseZone[T text](s T) (int64, string) {
	if len(s) == 0 {
		return 0, "a time without a zone (Z or ±hh:mm)"
	}
	if len(s) == 1 && (s[0] == 'Z' || s[0] == 'z') {
		return 0, ""
	}
	hour, okH := number(s, 1, 2)
	minute, okM := number(s, 4, 2)
	if len(s) != 6 || s[0] != '+' && s[0] != '-' || !okH || s[3] != ':' || !okM || hour > 23 || minute > 59 {
		return 0, "no zone of the form Z or ±hh:mm at the end"
	}
	east := int64(hour*3600 + minute*60)
	if s[0] == '-' {
		east = -east
	}
	return east, ""
}

func number[T text](s T, i, n int) (v int, ok bool) {
	if len(s) < i+n {
		return 0, false
	}
	for ; n > 0; n-- {
		if !isDigit(s[i]) {
			return 0, false
		}
		v = v*10 + int(s[i]-'0')
		i++
	}
	return v, true
}

// Micros is an instant: microseconds since 1970 UTC, in Source time. Its absence is NoTime, not the zero value.
type Micros int64

// Interval is a span of Source time, closed at both ends [7, 12].
type Interval struct{ From, Until Micros }

// NoTime is the absence of an instant.
const NoTime Micros = math.MinInt64

// Four digits of year.
const (
	minDatetime Micros = -62_167_219_200_000_000 // 0000-01-01T00:00:00Z
	maxDatetime Micros = 253_402_300_799_999_999 // 9999-12-31T23:59:59.999999Z
)

// Known reports whether m is an instant.
func (m Micros) Known() bool { return m != NoTime }

// String is RFC 3339 in UTC, with a fraction only if it is not zero; NoTime is "". ParseMicros reads it back.
func (m Micros) String() string {
	if !m.Known() {
		return ""
	}
	return m.Time().Format("2006-01-02T15:04:05.999999Z07:00")
}

// Time is m as a time in UTC; NoTime is the zero time.
func (m Micros) Time() time.Time {
	if !m.Known() {
		return time.Time{}
	}
	return time.UnixMicro(int64(m)).UTC()
}

// MicrosOf is t cut to the microsecond. The zero time is NoTime; a time out of range becomes the nearest in range.
func MicrosOf(t time.Time) Micros {
	const last = math.MaxInt64/1_000_000 - 1
	switch s := t.Unix(); {
	case t.IsZero():
		return NoTime
	case s > last:
		return math.MaxInt64
	case s < -last:
		return math.MinInt64 + 1
	}
	return Micros(t.UnixMicro())
}
