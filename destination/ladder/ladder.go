// Package ladder knows when to ask a hub again: leases, waits between requests, and the rungs of the fallback ladder.
// It refuses to know the time, the network and the records. Random numbers are in [0, 1).
package ladder

import (
	"time"

	"resyncd/destination/backoff"
)

const (
	// Gap is the least time between two requests for one subscription (F23).
	Gap = 5 * time.Second
	// RetryMost is the longest wait between transient failures (S-30).
	RetryMost = 5 * time.Minute
	// Pending is how long the first accepted request may wait for its verification (S-30, F21).
	Pending = 5 * time.Minute
)

const (
	retryPartly     = RetryMost * 4 / 5 // so that jitter ends at RetryMost
	silentMost      = time.Hour
	refusedFirst    = time.Hour      // S-42
	refusedMost     = 24 * time.Hour // S-42
	unsubscribeMost = time.Hour
)

// Retry is the wait after the n-th failure in a row, from 1 (S-30, F20).
func Retry(n int, random float64) time.Duration {
	return stretch(backoff.Doubled(Gap, n, retryPartly), random/4)
}

// Silent is how long the n-th accepted request in a row may wait for its verification (S-30, F21).
func Silent(n int, random float64) time.Duration {
	return stretch(backoff.Doubled(Pending, n, silentMost), random/10)
}

// Refused is the wait after the n-th refusal in a row: a denial (S-42), or a ladder without a rung that holds (S-30).
func Refused(n int, random float64) time.Duration {
	return stretch(backoff.Doubled(refusedFirst, n, refusedMost), random/10)
}

// Unsubscribe is the wait after the n-th failed attempt: only the hub's load depends on it.
func Unsubscribe(n int, random float64) time.Duration {
	return stretch(backoff.Doubled(Gap, n, unsubscribeMost), random/4)
}

// Within cuts a wait to a quarter of what remains of a lease that is being renewed (S-30, F20).
func Within(wait, remaining time.Duration) time.Duration {
	return max(min(wait, remaining/4), Gap)
}

// After is the longer of our own back-off and the hub's Retry-After. It does not give up a live lease.
func After(own, asked, remaining time.Duration) time.Duration {
	if remaining > 0 && asked >= remaining {
		asked = remaining / 2
	}
	return max(own, asked)
}

// Spread is the wait of one of n overdue subscriptions after a start or a jump of the clock, so that they do not all go
// out at once (S-56).
func Spread(n int, remaining time.Duration, random float64) time.Duration {
	window := min(time.Duration(n-1)*50*time.Millisecond, time.Minute)
	if remaining > 0 {
		window = min(window, remaining/4)
	}
	return scale(max(window, 0), random)
}

func stretch(d time.Duration, share float64) time.Duration { return d + scale(d, share) }

func scale(d time.Duration, share float64) time.Duration { return time.Duration(float64(d) * share) }

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

// Profile is the optional part of a subscribe request.
type Profile struct {
	Verify string // hub.verify, for hubs of PubSubHubbub 0.3; "" omits it
	Lease  bool   // hub.lease_seconds is sent
}

// The fallback ladder (T-05). The third rung joins two steps, because the hub that needs one fails on the other (Q-02,
// Leaving out the secret is no rung: a hub must not be able to switch signatures off.
var rungs = [...]Profile{
	{Lease: true},
	{Lease: true, Verify: "sync"},
	{Verify: "sync"},
	{},
}

// Rungs is the number of rungs.
const Rungs = len(rungs)

// A place is one number, because a Subscription's Profile holds it: rung + Rungs × climbs in vain.

// Rung returns the profile at a place.
func Rung(place int) Profile { return rungs[max(place, 0)%Rungs] }

// Next is the place after a refusal. spent: wait as Refused(Climbs) says, then start at the foot.
func Next(place int) (next int, spent bool) {
	next = max(place, 0) + 1
	return next, next%Rungs == 0
}

// GiveUp is the place after an answer that no other rung would change.
func GiveUp(place int) int { return (Climbs(place) + 1) * Rungs }

// Climbs is how often the ladder was climbed in vain.
func Climbs(place int) int { return max(place, 0) / Rungs }

// Settled is the rung that works, once a hub has verified.
func Settled(place int) int { return max(place, 0) % Rungs }
