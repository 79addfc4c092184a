package subscribe

import (
	"slices"
	"time"

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
