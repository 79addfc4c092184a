package subscribe

import (
	"slices"
	"time"

	"resyncd/destination/backoff"
	"resyncd/store"
)

// timetable holds the records that Run knows, and when each is due. Guarded by Keeper.mu.
type timetable struct {
	entries  map[int64]*entry
	channels map[channelKey]*channel
	profiles map[string]int // by hub: the rung that works there (T-05)

	// offset is wall clock less uptime at the last comparison; 0 forces a new one.
	offset time.Duration
}

type channelKey struct {
	source, set int64
	kind        store.ChannelKind
}

func channelOf(s *store.Subscription) channelKey { return channelKey{s.SourceID, s.SetID, s.Kind} }

// channel are the subs of the entries that replace one another.
type channel struct {
	source *source
	chain  chain
}

type entry struct {
	sub     store.Subscription
	host    string // of its hub
	channel *channel

	due  store.Micros  // by the wall clock, NoTime for never
	at   time.Duration // the same by uptime
	hold time.Duration // uptime before which nothing is done
	sent time.Duration // uptime of the last request
	busy bool          // a worker has it
}

func newTimetable() timetable {
	return timetable{entries: map[int64]*entry{}, channels: map[channelKey]*channel{}, profiles: map[string]int{}}
}

type role uint8

const (
	head     role = iota // the one that is wanted, or on its own
	kept                 // its successor is not verified yet
	replaced             // to be ended
)

// role returns that of r, and the member that decides it.
func (r *entry) role() (role, *store.Subscription) {
	members := r.channel.chain
	found, at := head, &r.sub
	for range members { // a cycle of replacements would be a bug; it must not hang
		next := members.above(at)
		if next == nil || next == &r.sub {
			break
		}
		if found, at = kept, next; at.Live() {
			return replaced, at
		}
	}
	return found, at
}

// counts reports whether s takes part in its chain.
func counts(s *store.Subscription) bool {
	return s.State != store.SubGone && s.State != store.SubUnsubscribing && s.State != store.SubOff
}

func (r *entry) when(now store.Micros) store.Micros {
	s := &r.sub
	switch {
	case s.State == store.SubUnsubscribing:
		return s.Next
	case !r.channel.source.planned:
		return store.NoTime
	case s.State == store.SubOff:
		return s.Next
	}
	place, _ := r.role()
	switch {
	case place == replaced && s.Live() && !s.Renew.Known():
		return min(s.Next, s.Expires) // in its grace
	case place == replaced:
		return now
	case s.Live() && !s.Renew.Known():
		return now // its successor was lost
	case s.Live():
		return min(s.Next, s.Expires)
	case place == kept:
		return store.NoTime
	case !s.Next.Known():
		return now
	}
	return s.Next
}

func past(due, now store.Micros) bool { return due.Known() && due <= now }

// wait is how long r waits when it becomes due at a time. A time beyond all that a record can hold means that the clock
// went back, and then nothing would become due (F15).
func (r *entry) wait(due, now store.Micros) time.Duration {
	most := 30 * time.Hour // a refusal's longest wait, with some room
	if r.sub.Live() {
		most = time.Duration(r.sub.Granted) * time.Second
	}
	if !due.Known() || due <= now || due > plus(now, most) {
		return 0
	}
	return time.Duration(due-now) * time.Microsecond
}

// plan sets when the members of a channel are due, and reports whether one is before a time. The uptime is computed
// once for each due time, so that the wall clock does not move it when it goes back (F15).
func (t *timetable) plan(c *channel, now store.Micros, uptime, by time.Duration) (sooner bool) {
	for _, s := range c.chain {
		r := t.entries[s.ID]
		if at := r.when(now); at != r.due && !(past(at, now) && past(r.due, now)) {
			r.due, r.at = at, uptime+r.wait(at, now)
		}
		sooner = sooner || r.due.Known() && r.at < by
	}
	return sooner
}

// look returns the entries whose time has come, and the time of the next one, at most latest. If the wall clock went
// ahead, it was set or the machine slept (F16): what is due earlier by it is brought forward, and what is overdue is
// spread over some time (S-56). The first look is such a jump.
func (t *timetable) look(now store.Micros, uptime, latest time.Duration,
	random func() float64) (due []*entry, next time.Duration) {
	jump := time.Duration(now)*time.Microsecond - uptime - t.offset
	if jump <= -time.Second || jump >= time.Second {
		t.offset += jump
	}
	ahead := jump >= time.Second
	next = latest
	for _, r := range t.entries {
		if ahead && (past(r.due, now) || r.wait(r.due, now) > 0) {
			r.at = min(r.at, uptime+r.wait(r.due, now))
		}
		switch at := max(r.at, r.hold); {
		case r.busy || !r.due.Known():
		case at <= uptime:
			due = append(due, r)
		default:
			next = min(next, at)
		}
	}
	if !ahead || len(due) == 0 {
		return due, next
	}
	for _, r := range due {
		left := time.Duration(0)
		if r.sub.Live() {
			left = remaining(&r.sub, now)
		}
		r.at = uptime + spread(len(due), left, random())
	}
	return t.look(now, uptime, latest, random)
}

// put takes in a record, whose channel is to be planned then; a tombstone leaves the timetable.
func (t *timetable) put(s store.Subscription, of *source) *channel {
	r := t.entries[s.ID]
	if r == nil {
		f := channelOf(&s)
		if t.channels[f] == nil {
			t.channels[f] = &channel{source: of}
		}
		r = &entry{due: store.NoTime, sent: -gap, channel: t.channels[f]}
		t.entries[s.ID] = r
		r.channel.chain = append(r.channel.chain, &r.sub)
	}
	r.sub, r.host, r.hold = s, hostOf(s.Hub), 0
	if s.State == store.SubActive {
		t.learn(s.Hub, settled(s.Profile))
	}
	if s.State == store.SubGone {
		t.drop(r)
	}
	return r.channel
}

// The next channel at a hub need not climb to the rung that works (T-05).
func (t *timetable) learn(hub string, rung int) {
	if _, known := t.profiles[hub]; !known && len(t.profiles) >= hostsKept {
		clear(t.profiles)
	}
	t.profiles[hub] = rung
}

func (t *timetable) drop(r *entry) {
	delete(t.entries, r.sub.ID)
	c := r.channel
	c.chain = slices.DeleteFunc(c.chain, func(s *store.Subscription) bool { return s == &r.sub })
	if len(c.chain) == 0 {
		delete(t.channels, channelOf(&r.sub))
	}
}

// What follows is when a hub is asked again: leases, waits between requests, and the rungs of the fallback ladder, as
// functions of numbers alone. Random numbers are in [0, 1).

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
