package keeper

import (
	"container/heap"
	"time"

	"resyncd/destination/ladder"
	"resyncd/store"
)

// timetable is what Run knows of the records, and when each is due. It is read from the store at the start and follows
// each change since. Guarded by Keeper.mu.
type timetable struct {
	rows     map[int64]*row
	families map[family]map[int64]*row
	due      dueHeap
	profiles map[string]int // by hub: the rung that works there (T-05)
	observed uint64         // observations so far
	sleeps   time.Duration  // uptime until which Run sleeps if nobody wakes it

	// offset is wall clock less uptime, as they were when the clocks were last compared; 0 to have them compared anew.
	offset time.Duration
}

// family are the subscriptions that follow, and follow each other in, one kind of channel of a set.
type family struct {
	setKey
	kind store.ChannelKind
}

func familyOf(s *store.Subscription) family {
	return family{setKey{s.SourceID, s.SetID}, s.Kind}
}

// row is one record in the timetable.
type row struct {
	sub      store.Subscription
	turn     uint64 // of the change that sub is the result of
	observed uint64 // when it was last observed

	due    store.Micros  // by the wall clock, NoTime for nothing to do
	uptime time.Duration // the same by uptime, which a jump of the wall clock does not move
	at     time.Duration // uptime at which it gets its turn: its place in the heap
	index  int           // in the heap, -1 for outside

	busy   bool          // waiting for, or in the hands of, a worker
	review bool          // look at it now: it may be time for another hub
	hold   time.Duration // uptime before which it gets no turn, whatever is due
	sent   time.Duration // uptime of the last request
	scouts bool          // its hold is that of a rediscovery
}

func newTimetable() timetable {
	return timetable{rows: map[int64]*row{}, families: map[family]map[int64]*row{}, profiles: map[string]int{}}
}

// role is the place of a row in its family.
type role uint8

const (
	head     role = iota // the one that is wanted, or on its own
	kept                 // replaced by one that is not verified yet: kept alive while it lives, else at rest
	replaced             // replaced by one that is verified: to be ended
)

// standing returns the role of r, and the member that decides it.
func (t *timetable) standing(r *row) (role, *row) {
	members := t.families[familyOf(&r.sub)]
	found, at := head, r
	for range len(members) { // a circle of replacements would be a bug; it must not hang
		next := replacing(members, at.sub.ID)
		if next == nil || next == r {
			break
		}
		if found, at = kept, next; at.sub.Live() {
			return replaced, at
		}
	}
	return found, at
}

// replacing returns the member that replaces id and counts.
func replacing(members map[int64]*row, id int64) *row {
	for _, m := range members {
		if m.sub.Replaces == id && counts(&m.sub) {
			return m
		}
	}
	return nil
}

// counts reports whether s takes part in its family: it does not once it is on its way out, or off.
func counts(s *store.Subscription) bool {
	return s.State != store.SubGone && s.State != store.SubUnsubscribing && s.State != store.SubOff
}

// when returns the instant at which there is something to do with r, NoTime for never.
func (t *timetable) when(r *row, planned bool, now store.Micros) store.Micros {
	s := &r.sub
	switch {
	case s.State == store.SubUnsubscribing:
		return s.Next
	case !planned:
		return store.NoTime
	case s.State == store.SubOff:
		return s.Next
	}
	place, _ := t.standing(r)
	switch {
	case place == replaced && s.Live() && !s.Renew.Known():
		return min(s.Next, s.Expires) // in its grace
	case place == replaced:
		return now
	case s.Live() && !s.Renew.Known():
		return now // its successor is lost
	case s.Live():
		return min(s.Next, s.Expires)
	case place == kept:
		return store.NoTime
	case !s.Next.Known():
		return now
	}
	return s.Next
}

// latest bounds how far ahead a record may plan: if it lies beyond, the clock went back since, and nothing else than the
// record tells what is due (F15).
func latest(s *store.Subscription, now store.Micros) store.Micros {
	if s.Live() {
		return plus(now, time.Duration(s.Granted)*time.Second)
	}
	return plus(now, 30*time.Hour) // a refusal's day, with its jitter and some room
}

// schedule puts r where it belongs in the heap. The uptime is computed once for each due instant, so that the wall clock
// may jump afterwards (F15).
func (t *timetable) schedule(r *row, planned bool, now store.Micros, uptime time.Duration) {
	due := t.when(r, planned, now)
	if due.Known() && due > latest(&r.sub, now) {
		due = now
	}
	if due != r.due {
		r.due = due
		r.uptime = uptime + max(until(due, now), 0)
	}
	review := r.review && planned
	if r.busy || !due.Known() && !review {
		t.unlist(r)
		return
	}
	at := r.uptime
	if review && (!due.Known() || at > uptime) {
		at = uptime
	}
	t.list(r, max(at, r.hold))
}

// until is how long it is to due, bounded so that nothing overflows.
func until(due, now store.Micros) time.Duration {
	const most = store.Micros(1 << 50) // 35 years
	if !due.Known() {
		return 0
	}
	return time.Duration(min(max(due-now, -most), most)) * time.Microsecond
}

// list gives r its turn at an uptime.
func (t *timetable) list(r *row, at time.Duration) {
	r.at = at
	if r.index < 0 {
		heap.Push(&t.due, r)
		return
	}
	heap.Fix(&t.due, r.index)
}

func (t *timetable) unlist(r *row) {
	if r.index >= 0 {
		heap.Remove(&t.due, r.index)
	}
}

// put takes in a record; a tombstone leaves the timetable.
func (t *timetable) put(s store.Subscription, turn uint64) *row {
	t.observed++
	r := t.rows[s.ID]
	if r == nil {
		r = &row{index: -1, due: store.NoTime, sent: -ladder.Gap}
		t.rows[s.ID] = r
	}
	f := familyOf(&s)
	if t.families[f] == nil {
		t.families[f] = map[int64]*row{}
	}
	t.families[f][s.ID] = r
	r.sub, r.turn, r.observed = s, turn, t.observed
	if s.State == store.SubActive {
		t.learn(s.Hub, ladder.Settled(s.Profile))
	}
	if s.State == store.SubGone {
		t.drop(r)
	}
	return r
}

// learn remembers which rung works at a hub, so that the next channel there need not climb to it (T-05). It is read from
// the records again by each Run.
func (t *timetable) learn(hub string, rung int) {
	if _, known := t.profiles[hub]; !known && len(t.profiles) >= hostsKept {
		clear(t.profiles)
	}
	t.profiles[hub] = rung
}

func (t *timetable) drop(r *row) {
	t.unlist(r)
	delete(t.rows, r.sub.ID)
	f := familyOf(&r.sub)
	delete(t.families[f], r.sub.ID)
	if len(t.families[f]) == 0 {
		delete(t.families, f)
	}
}

// adjust compares the clocks. If the wall clock went ahead by more than a second beyond the uptime, it was set or the
// machine slept (F16): what is due by it now is brought forward, spread over some time. So it is at the start, when it
// is years ahead of a clock that was never looked at (S-56). If it went back the uptime goes on to say what is due (F15).
func (t *timetable) adjust(now store.Micros, uptime time.Duration, random func() float64) {
	offset := time.Duration(now)*time.Microsecond - uptime
	jump := offset - t.offset
	if jump > -time.Second && jump < time.Second {
		return
	}
	t.offset = offset
	if jump > 0 {
		t.hurry(now, uptime, random)
	}
}

// hurry plans each row for the earlier of its uptime and its wall clock time; those overdue in a burst are spread (S-56).
func (t *timetable) hurry(now store.Micros, uptime time.Duration, random func() float64) {
	overdue := 0
	for _, r := range t.due {
		if r.due <= now {
			overdue++
		}
	}
	for _, r := range t.rows {
		if r.index < 0 || !r.due.Known() {
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
			t.list(r, max(at, r.hold))
		}
	}
}

// dueHeap orders rows by their uptime.
type dueHeap []*row

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements heap.Interface.
func (h *dueHeap) Push(x any) {
	r := x.(*row)
	r.index = len(*h)
	*h = append(*h, r)
}

// Pop implements heap.Interface.
func (h *dueHeap) Pop() any {
	old := *h
	r := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	r.index = -1
	return r
}

// touchSource plans the rows of a Source again: it has a plan now, or none any more.
func (k *Keeper) touchSource(sourceID int64) {
	now, uptime := k.now(), k.uptime()
	for _, r := range k.table.rows {
		if r.sub.SourceID == sourceID {
			k.schedule(r, now, uptime)
		}
	}
}
