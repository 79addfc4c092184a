package subscribe

// This file holds when a hub is asked again: leases, waits between requests, and the rungs of the fallback ladder, as
// functions of numbers alone. Random numbers are in [0, 1).

import (
	"time"

	"resyncd/destination/backoff"
)

const (
	// gap is the least time between two requests for one subscription (F23).
	gap = 5 * time.Second
	// retryMost is the longest wait between transient failures (S-30).
	retryMost = 5 * time.Minute
	// pendingWait is how long the first accepted request may wait for its verification (S-30, F21).
	pendingWait = 5 * time.Minute
)

const (
	retryPartly     = retryMost * 4 / 5 // so that jitter ends at retryMost
	silentMost      = time.Hour
	refusedFirst    = time.Hour      // S-42
	refusedMost     = 24 * time.Hour // S-42
	unsubscribeMost = time.Hour
)

// retryWait is the wait after the n-th failure in a row, from 1 (S-30, F20).
func retryWait(n int, random float64) time.Duration {
	return stretch(backoff.Doubled(gap, n, retryPartly), random/4)
}

// silentWait is how long the n-th accepted request in a row may wait for its verification (S-30, F21).
func silentWait(n int, random float64) time.Duration {
	return stretch(backoff.Doubled(pendingWait, n, silentMost), random/10)
}

// refusedWait is the wait after the n-th refusal in a row: a denial (S-42), or a ladder without a rung that holds
// (S-30).
func refusedWait(n int, random float64) time.Duration {
	return stretch(backoff.Doubled(refusedFirst, n, refusedMost), random/10)
}

// unsubscribeWait is the wait after the n-th failed attempt: only the hub's load depends on it.
func unsubscribeWait(n int, random float64) time.Duration {
	return stretch(backoff.Doubled(gap, n, unsubscribeMost), random/4)
}

// within cuts a wait to a quarter of what remains of a lease that is being renewed (S-30, F20).
func within(wait, remaining time.Duration) time.Duration {
	return max(min(wait, remaining/4), gap)
}

// longer is the longer of our own back-off and the hub's Retry-After. It does not give up a live lease.
func longer(own, asked, remaining time.Duration) time.Duration {
	if remaining > 0 && asked >= remaining {
		asked = remaining / 2
	}
	return max(own, asked)
}

// spread is the wait of one of n overdue subscriptions after a start or a jump of the clock, so that they do not all go
// out at once (S-56).
func spread(n int, remaining time.Duration, random float64) time.Duration {
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
	// rotation is the age at which callback and secret are replaced, together (S-52).
	rotation = 30 * 24 * time.Hour
	// rotationGrace is how long an old callback stays subscribed beside its verified successor, for the hub's first
	// retries (F31).
	rotationGrace = 10 * time.Minute
	// moveGrace is the grace where the successor has another hub or topic.
	moveGrace = 30 * time.Second
)

// renewAfter is how long after its verification a lease is renewed. Leases granted in bulk are not renewed in bulk
// (F33).
func renewAfter(granted time.Duration, random float64) time.Duration {
	return max(scale(granted, renewEarliest+(renewLatest-renewEarliest)*random), gap)
}

// patience is after how many failed requests in a row the next hub is tried. Leaving a hub with a live lease gains
// nothing yet (F32).
func patience(live bool) int {
	if live {
		return 8
	}
	return 4
}

// silentPatience is the same for accepted requests that were never verified.
const silentPatience = 3

// profile is the optional part of a subscribe request.
type profile struct {
	Verify string // hub.verify, for hubs of PubSubHubbub 0.3; "" omits it
	Lease  bool   // hub.lease_seconds is sent
}

// The fallback ladder (T-05). The third rung joins two steps, because the hub that needs one fails on the other (Q-02,
// Leaving out the secret is no rung: a hub must not be able to switch signatures off.
var rungs = [...]profile{
	{Lease: true},
	{Lease: true, Verify: "sync"},
	{Verify: "sync"},
	{},
}

// A place is one number, because a Subscription's Profile holds it: rung + number of rungs × climbs in vain.

// rung returns the profile at a place.
func rung(place int) profile { return rungs[max(place, 0)%len(rungs)] }

// nextRung is the place after a refusal. spent: wait as refusedWait of the climbs says, then start at the foot.
func nextRung(place int) (next int, spent bool) {
	next = max(place, 0) + 1
	return next, next%len(rungs) == 0
}

// giveUp is the place after an answer that no other rung would change.
func giveUp(place int) int { return (climbs(place) + 1) * len(rungs) }

// climbs is how often the ladder was climbed in vain.
func climbs(place int) int { return max(place, 0) / len(rungs) }

// settled is the rung that works, once a hub has verified.
func settled(place int) int { return max(place, 0) % len(rungs) }
