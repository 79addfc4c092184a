package coverage

import "resyncd/store"

// Verdict is how the interval of a notification lies to the position (coverage.md 4).
type Verdict string

// The verdicts. Next: it goes on from the position. Stale: it ends before. Gap: something before it was missed.
// Unknown: it has no usable times, or the set has no position yet.
const (
	Next    Verdict = "next"
	Stale   Verdict = "stale"
	Gap     Verdict = "gap"
	Unknown Verdict = "unknown"
)

// Judge compares the interval of a notification with a position, all in Source time.
func Judge(iv store.Interval, position store.Micros) Verdict {
	switch {
	case !Usable(iv) || !position.Known():
		return Unknown
	case iv.Until <= position:
		return Stale
	case iv.From > position:
		return Gap
	}
	return Next
}
