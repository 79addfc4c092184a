package callback

import "resyncd/store"

// Verdict is what the interval of a notification means for a position (coverage.md 4).
type Verdict string

// The verdicts. Next: it goes on from the position. Stale: it ends before. Gap: something before it was missed. Unknown:
// it has no usable times, or the set has no position yet.
const (
	Next    Verdict = "next"
	Stale   Verdict = "stale"
	Gap     Verdict = "gap"
	Unknown Verdict = "unknown"
)

// Judge compares the interval of a notification with a position, all in Source time. It is what the inbox row says; the
// engine computes it again under its claim, and only that reading counts.
func Judge(from, until, position store.Micros) Verdict {
	switch {
	case !from.Known() || !until.Known() || !position.Known() || from > until:
		return Unknown
	case until <= position:
		return Stale
	case from > position:
		return Gap
	}
	return Next
}
