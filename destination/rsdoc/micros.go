package rsdoc

import (
	"math"
	"time"
)

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
