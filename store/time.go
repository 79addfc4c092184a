package store

import (
	"math"
	"time"
)

// Micros is an instant: microseconds since 1970 UTC. It is in Source time unless a field says local.
type Micros int64

// NoTime is the absence of an instant; it is stored as NULL.
const NoTime Micros = math.MinInt64

// Known reports whether m is an instant.
func (m Micros) Known() bool { return m != NoTime }

// Time is m as a time.Time in UTC; the zero time for NoTime.
func (m Micros) Time() time.Time {
	if m == NoTime {
		return time.Time{}
	}
	return time.UnixMicro(int64(m)).UTC()
}

// MicrosOf cuts t to microseconds; the zero time is NoTime.
func MicrosOf(t time.Time) Micros {
	if t.IsZero() {
		return NoTime
	}
	return Micros(t.UnixMicro())
}
