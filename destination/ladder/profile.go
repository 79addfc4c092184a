package ladder

// Profile is what a subscribe request says beyond what every hub must be told.
type Profile struct {
	Verify string // hub.verify, for hubs of PubSubHubbub 0.3; "" to leave it out
	Lease  bool   // hub.lease_seconds is sent
}

// The fallback ladder (T-05), in the order in which rungs are tried. The third joins the second and the third step of
// T-05, because the hub that needs the one fails on the other; the last is for a hub that stumbles over
// whatever it does not know. Leaving out the secret is no rung: it is sent or not as the operator configured it, and a
// hub may not talk us out of signatures.
var rungs = [...]Profile{
	{Lease: true},
	{Lease: true, Verify: "sync"},
	{Verify: "sync"},
	{},
}

// Rungs is the number of rungs.
const Rungs = len(rungs)

// A climb is the recorded place on the ladder: the rung, and how often it was climbed in vain. It is one number, because
// that is what a Subscription's Profile holds: rung + Rungs × climbs.

// Rung returns the profile to use at a recorded place.
func Rung(place int) Profile { return rungs[max(place, 0)%Rungs] }

// Next is the place after a refusal at place. spent reports that the ladder has ended: no rung holds, so wait as
// Refused(Climbs) says before starting again at its foot.
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
