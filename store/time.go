package store

import (
	"math"
	"time"
)

// Micros is an instant: microseconds since 1970 UTC. It is in Source time unless a field says local.
type Micros int64

// NoTime is the absence of an instant; it is stored as NULL.
const NoTime Micros = math.MinInt64

// Beginning and Forever are the first and the last instant. An interval from the beginning holds
// everything before its end.
const (
	Beginning = NoTime + 1
	Forever   = Micros(math.MaxInt64)
)

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

// Earliest is the earlier of two instants of which either may be unknown.
func Earliest(a, b Micros) Micros {
	if !a.Known() || b.Known() && b < a {
		return b
	}
	return a
}
