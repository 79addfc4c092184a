package ladder

import "time"

// The part of a lease after which it is renewed (S-55, F33).
const (
	renewEarliest = 8.0 / 15
	renewLatest   = 0.8
)

const (
	// Rotation is the age at which callback and secret are replaced, together (S-52).
	Rotation = 30 * 24 * time.Hour
	// RotationGrace is how long an old callback stays subscribed beside its verified successor, for the hub's first
	// retries (F31).
	RotationGrace = 10 * time.Minute
	// MoveGrace is the grace where the successor has another hub or topic.
	MoveGrace = 30 * time.Second
)

// Renew is how long after its verification a lease is renewed. Leases granted in bulk are not renewed in bulk (F33).
func Renew(granted time.Duration, random float64) time.Duration {
	return max(scale(granted, renewEarliest+(renewLatest-renewEarliest)*random), Gap)
}

// Patience is after how many failed requests in a row the next hub is tried. Leaving a hub with a live lease gains
// nothing yet (F32).
func Patience(live bool) int {
	if live {
		return 8
	}
	return 4
}

// SilentPatience is the same for accepted requests that were never verified.
const SilentPatience = 3
