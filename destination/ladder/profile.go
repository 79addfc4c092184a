package ladder

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
