package ladder

import "time"

// The part of a lease after which it is renewed (S-55, F33): two thirds on average.
const (
	renewEarliest = 8.0 / 15
	renewLatest   = 0.8
)

// Ages and graces of callbacks and secrets (CONTRIBUTING.md 8, F31, F32).
const (
	// Rotation is the age at which callback and secret are replaced, together (S-52).
	Rotation = 30 * 24 * time.Hour
	// RotationGrace is how long an old callback stays subscribed beside its verified successor at the same hub: long
	// enough for the hub's first retries of what it could not deliver to the old one.
	RotationGrace = 10 * time.Minute
	// MoveGrace is the grace where the successor has another hub or topic.
	MoveGrace = 30 * time.Second
)

// Renew is how long after its verification a lease is renewed: a random part between renewEarliest
// and renewLatest, so that leases granted in bulk are not renewed in bulk (F33). It is never less
// than Gap (F23).
func Renew(granted time.Duration, random float64) time.Duration {
	return max(scale(granted, renewEarliest+(renewLatest-renewEarliest)*random), Gap)
}

// Patience is after how many failed requests in a row the next hub is tried, if there is one. A hub
// with a live lease gets more, because leaving it gains nothing yet (F32).
func Patience(live bool) int {
	if live {
		return 8
	}
	return 4
}

// SilentPatience is the same for accepted requests that were never verified.
const SilentPatience = 3
