package coverage

import "resyncd/store"

// Verdict is a result of Judge (coverage.md 4).
type Verdict string

// The verdicts of Judge.
const (
	Next    Verdict = "next"
	Stale   Verdict = "stale"
	Gap     Verdict = "gap"
	Unknown Verdict = "unknown"
)

// Judge compares in Source time.
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
