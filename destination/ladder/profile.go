package ladder

// Profile is the optional part of a subscribe request.
type Profile struct {
	Verify string // hub.verify, for hubs of PubSubHubbub 0.3; "" omits it
	Lease  bool   // hub.lease_seconds is sent
}

// The fallback ladder (T-05), in the order in which rungs are tried. The third joins two steps of
// T-05, because the hub that needs one of them fails on the other; the last is for a
// hub that fails on any parameter it does not know. Leaving out the secret is no rung: a hub must
// not be able to switch signatures off.
var rungs = [...]Profile{
	{Lease: true},
	{Lease: true, Verify: "sync"},
	{Verify: "sync"},
	{},
}

// Rungs is the number of rungs.
const Rungs = len(rungs)

// A place on the ladder is the rung, and how often the ladder was climbed in vain. It is one
// number, because a Subscription's Profile holds it: rung + Rungs × climbs.

// Rung returns the profile to use at a place.
func Rung(place int) Profile { return rungs[max(place, 0)%Rungs] }

// Next is the place after a refusal at place. spent reports that the ladder has ended: wait as
// Refused(Climbs) says, then start again at its foot.
func Next(place int) (next int, spent bool) {
	next = max(place, 0) + 1
	return next, next%Rungs == 0
}

// GiveUp is the place after an answer that no other rung would change.
func GiveUp(place int) int { return (Climbs(place) + 1) * Rungs }

// Climbs is how often the ladder was climbed in vain.
func Climbs(place int) int { return max(place, 0) / Rungs }

// Settled is the place to record once a hub has verified: the rung that works.
func Settled(place int) int { return max(place, 0) % Rungs }
