package subscribe

import (
	"slices"
	"time"

	"resyncd/destination/ladder"
	"resyncd/store"
)

// timetable holds the records that Run knows, and when each is due. Guarded by Keeper.mu.
type timetable struct {
	entries   map[int64]*entry
	byChannel map[channelKey]chain // the subs of entries
	profiles  map[string]int       // by hub: the rung that works there (T-05)
	observed  uint64
	sleeps    time.Duration // until which Run sleeps

	// offset is wall clock less uptime at the last comparison; 0 forces a new one.
	offset time.Duration
}

// The subscriptions of one kind of channel replace one another.
type channelKey struct {
	setKey
	kind store.ChannelKind
}

func channelOf(s *store.Subscription) channelKey {
	return channelKey{setKey{s.SourceID, s.SetID}, s.Kind}
}

type entry struct {
	sub      store.Subscription
	host     string // of its hub
	seq      uint64 // the change that made sub
	observed uint64

	due    store.Micros  // by the wall clock, NoTime for never
	uptime time.Duration // a jump of the wall clock does not move it

	busy     bool          // a worker has it
	hold     time.Duration // uptime before which nothing is done
	sent     time.Duration // uptime
	awaiting bool          // hold is for a discovery
}

func newTimetable() timetable {
	return timetable{entries: map[int64]*entry{}, byChannel: map[channelKey]chain{}, profiles: map[string]int{}}
}

type role uint8

const (
	head     role = iota // the one that is wanted, or on its own
	kept                 // its successor is not verified yet
	replaced             // to be ended
)

// roleOf returns the role of r, and the member that decides it.
func (t *timetable) roleOf(r *entry) (role, *store.Subscription) {
	members := t.byChannel[channelOf(&r.sub)]
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

func (t *timetable) when(r *entry, planned bool, now store.Micros) store.Micros {
	s := &r.sub
	switch {
	case s.State == store.SubUnsubscribing:
		return s.Next
	case !planned:
		return store.NoTime
	case s.State == store.SubOff:
		return s.Next
	}
	place, _ := t.roleOf(r)
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

// A time beyond latest means that the clock went back, and then nothing would become due (F15).
func latest(s *store.Subscription, now store.Micros) store.Micros {
	if s.Live() {
		return plus(now, time.Duration(s.Granted)*time.Second)
	}
	return plus(now, 30*time.Hour) // a refusal's longest wait, with some room
}

// The uptime is computed once for each due time, so that a later jump of the wall clock does not move it (F15).
func (t *timetable) schedule(r *entry, planned bool, now store.Micros, uptime time.Duration) {
	due := t.when(r, planned, now)
	if due.Known() && due > latest(&r.sub, now) {
		due = now
	}
	if due != r.due {
		r.due = due
		r.uptime = uptime + max(until(due, now), 0)
	}
}

// waits reports that r is to be looked after at a time.
func (r *entry) waits() bool { return !r.busy && r.due.Known() }

func (r *entry) at() time.Duration { return max(r.uptime, r.hold) }

// dueAt are the entries whose time has come, and the time of the next one, at most latest.
func (t *timetable) dueAt(uptime, latest time.Duration) (due []*entry, next time.Duration) {
	next = latest
	for _, r := range t.entries {
		switch {
		case !r.waits():
		case r.at() <= uptime:
			due = append(due, r)
		default:
			next = min(next, r.at())
		}
	}
	return due, next
}

func until(due, now store.Micros) time.Duration {
	const most = store.Micros(1 << 50) // 35 years
	if !due.Known() {
		return 0
	}
	return time.Duration(min(max(due-now, -most), most)) * time.Microsecond
}

// put takes in a record; a tombstone leaves the timetable.
func (t *timetable) put(s store.Subscription, seq uint64) *entry {
	t.observed++
	r := t.entries[s.ID]
	if r == nil {
		r = &entry{due: store.NoTime, sent: -ladder.Gap}
		t.entries[s.ID] = r
		f := channelOf(&s)
		t.byChannel[f] = append(t.byChannel[f], &r.sub)
	}
	r.sub, r.host, r.seq, r.observed = s, hostOf(s.Hub), seq, t.observed
	if s.State == store.SubActive {
		t.learn(s.Hub, ladder.Settled(s.Profile))
	}
	if s.State == store.SubGone {
		t.drop(r)
	}
	return r
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
	f := channelOf(&r.sub)
	t.byChannel[f] = slices.DeleteFunc(t.byChannel[f], func(s *store.Subscription) bool { return s == &r.sub })
	if len(t.byChannel[f]) == 0 {
		delete(t.byChannel, f)
	}
}

// compareClocks looks for a jump of the wall clock. If it went ahead, it was set or the machine slept (F16): what is
// due now is brought forward, spread over some time. The first comparison is such a jump (S-56). If it went back, the
// uptime goes on deciding (F15).
func (t *timetable) compareClocks(now store.Micros, uptime time.Duration, random func() float64) {
	offset := time.Duration(now)*time.Microsecond - uptime
	jump := offset - t.offset
	if jump > -time.Second && jump < time.Second {
		return
	}
	t.offset = offset
	if jump > 0 {
		t.reschedule(now, uptime, random)
	}
}

// reschedule plans each entry for the earlier of its uptime and its wall clock time, and spreads overdue ones (S-56).
func (t *timetable) reschedule(now store.Micros, uptime time.Duration, random func() float64) {
	overdue := 0
	for _, r := range t.entries {
		if r.waits() && r.due <= now {
			overdue++
		}
	}
	for _, r := range t.entries {
		if !r.waits() {
			continue
		}
		at := uptime + until(r.due, now)
		if r.due <= now {
			left := time.Duration(0)
			if r.sub.Live() {
				left = remaining(&r.sub, now)
			}
			at = uptime + ladder.Spread(overdue, left, random())
		}
		if at < r.uptime || r.due <= now {
			r.uptime = at
		}
	}
}

func (k *Keeper) touchSource(sourceID int64) {
	now, uptime := k.now(), k.uptime()
	for _, r := range k.table.entries {
		if r.sub.SourceID == sourceID {
			k.schedule(r, now, uptime)
		}
	}
}
