package hub

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"resyncd/destination/peer/hub/hubstate"
	"resyncd/store"
)

const (
	turnNotes = 64        // notifications that a lane delivers before others get its place
	turnBytes = 256 << 10 // of them, read from the state at once
	turnTime  = time.Second
	slowAfter = time.Second // a subscriber that takes longer is slow
)

// lane is one subscription and the deliveries to it, strictly one after another (H-18). Hub.mu guards it; whoever set
// running delivers.
type lane struct {
	id       int64
	topic    *topic
	callback string
	secret   string
	old      bool   // in the manner of PubSubHubbub 0.3, and so
	token    string // comes back whenever it is asked (H-21)
	verified store.Micros
	expires  store.Micros
	refresh  store.Micros // it is not asked again before (0.3); NoTime: whenever its lease nears its end

	cursor   int64 // number of the last notification that is dealt with
	attempts int   // failed ones, of the next
	next     store.Micros
	running  bool
	slow     bool
	ended    bool
	timer    *time.Timer
}

// admit puts a subscription into memory, or updates it, and wakes it: whoever has just verified can be reached, whatever
// was before. h.mu is held.
func (h *Hub) admit(s hubstate.Subscription) *lane {
	t := h.topics[s.Topic]
	if t == nil {
		return nil // cannot be: a topic lives as long as its subscriptions
	}
	l := t.lanes[s.Callback]
	if l == nil {
		l = &lane{id: s.ID, topic: t, callback: s.Callback, cursor: s.Cursor, attempts: s.Attempts, next: s.Next}
		t.lanes[s.Callback] = l
		h.subs++
		h.subsOf[siteOf(l.callback)]++
	}
	l.secret, l.old, l.token = s.Secret, s.Old, s.VerifyToken
	l.verified, l.expires, l.refresh = s.Verified, s.Expires, store.NoTime
	return l
}

// dismiss takes a lane out of memory. h.mu is held.
func (h *Hub) dismiss(l *lane) {
	l.ended = true
	stopTimer(l.timer)
	delete(h.progress, l.id)
	if l.topic.lanes[l.callback] == l {
		delete(l.topic.lanes, l.callback)
		h.subs--
		less(h.subsOf, siteOf(l.callback))
	}
	if t := l.topic; len(t.lanes) == 0 && h.topics[t.url] == t {
		stopTimer(t.timer)
		delete(h.topics, t.url)
	}
}

// less counts one down, and forgets those that are at none.
func less(counts map[string]int, key string) {
	if counts[key]--; counts[key] <= 0 {
		delete(counts, key)
	}
}

// wakeTopic starts every lane of a topic that has something to deliver. h.mu is held.
func (h *Hub) wakeTopic(t *topic) {
	for _, l := range t.lanes {
		h.wake(l)
	}
}

// wake starts a lane if it has something to deliver and may. h.mu is held.
func (h *Hub) wake(l *lane) {
	if l.running || l.ended || !l.behind() || h.phase != running {
		return
	}
	// What waits for one that cannot be reached stays bounded (F94).
	if far := l.topic.last - int64(h.o.QueueCap); far > l.cursor {
		h.skip(l, far, "too many waited")
	}
	now := h.micros()
	if wait := l.next; wait.Known() && wait > now {
		h.alarm(l, wait.Time().Sub(now.Time()))
		return
	}
	l.running = true
	h.spawn(func(ctx context.Context) { h.work(ctx, l) })
}

// alarm wakes a lane later. h.mu is held.
func (h *Hub) alarm(l *lane, after time.Duration) {
	if l.timer != nil {
		l.timer.Reset(after)
		return
	}
	l.timer = time.AfterFunc(after, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.wake(l)
	})
}

// skip moves a lane on over what it will not deliver. h.mu is held.
func (h *Hub) skip(l *lane, to int64, why string) {
	count := to - l.cursor
	l.cursor = to
	h.moved(l, 0, count)
	h.o.Log.Warn("notifications were dropped for a subscriber", "topic", l.topic.url, "subscription", l.id,
		"callback", label(l.callback), "count", count, "why", why)
	h.o.Observe(Event{Kind: Dropped, Topic: l.topic.url, Subscription: l.id, Number: to, Count: count, Why: why})
}

// work delivers until nothing waits, or until the next attempt is later. Between turns others get its place.
func (h *Hub) work(ctx context.Context, l *lane) {
	defer func() {
		if bug := recover(); bug != nil { // one subscriber's content must not stop the others (P11)
			h.o.Log.Error("a delivery broke off; please report this", "subscription", l.id, "panic", bug)
			h.mu.Lock()
			h.putOff(l, time.Minute)
			h.mu.Unlock()
		}
	}()
	for h.turn(ctx, l) {
	}
}

// turn delivers some; false if the lane rests now.
func (h *Hub) turn(ctx context.Context, l *lane) bool {
	h.mu.Lock()
	places := h.quick
	switch {
	case l.attempts > 0:
		places = h.last
	case l.slow:
		places = h.slow
	}
	h.mu.Unlock()
	if !places.enter(ctx, h.halt) {
		h.rest(l)
		return false
	}
	leave := sync.OnceFunc(places.leave)
	defer leave()
	if places == h.quick {
		// Whoever turns out to be slow gives the place back meanwhile, and will not get one of these again.
		late := time.AfterFunc(turnTime, leave)
		defer late.Stop()
	}
	notes, a, ok := h.waiting(ctx, l)
	if !ok {
		return false
	}
	began := time.Now()
	for i, n := range notes {
		if !h.deliver(ctx, l, n, a) {
			return false
		}
		notes[i] = nil // delivered content need not stay in memory
		if time.Since(began) > turnTime {
			break
		}
	}
	return true
}

// rest ends a lane's running.
func (h *Hub) rest(l *lane) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l.running = false
}

// putOff ends a lane's running for a while. h.mu is held.
func (h *Hub) putOff(l *lane, wait time.Duration) {
	l.running = false
	l.next = store.MicrosOf(h.o.Now().Add(wait))
	h.moved(l, 0, 0)
	if h.phase == running && !l.ended {
		h.alarm(l, wait)
	}
}

// goesOn reports whether a lane may deliver more; if not, it rests. h.mu is held.
func (h *Hub) goesOn(l *lane) bool {
	if l.ended || h.phase != running || !l.behind() || l.expires <= h.micros() {
		l.running = false
		return false
	}
	return true
}

// waiting returns what a lane delivers next, which may be one that is ahead; false if it rests now.
func (h *Hub) waiting(ctx context.Context, l *lane) ([]*hubstate.Notification, *ahead, bool) {
	h.mu.Lock()
	if !h.goesOn(l) {
		h.mu.Unlock()
		return nil, nil, false
	}
	if a := l.ahead(); a != nil {
		h.mu.Unlock()
		return []*hubstate.Notification{&a.note}, a, true
	}
	cursor, last := l.cursor, l.topic.last
	notes := h.recent.after(l.topic.id, cursor, turnNotes)
	h.mu.Unlock()
	if len(notes) > 0 {
		return notes, nil, true
	}
	kept, err := h.o.State.Notifications(ctx, l.topic.id, cursor, turnNotes, turnBytes)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		h.o.Log.Error("what waits for a subscriber cannot be read", "subscription", l.id, "err", err)
		h.putOff(l, h.o.RetryBase)
		return nil, nil, false
	}
	for i := range kept {
		h.recent.add(l.topic.id, &kept[i])
		notes = append(notes, &kept[i])
	}
	// What is missing was dropped by the bound on a topic's content.
	if len(notes) == 0 {
		h.skip(l, last, "too much waited")
	} else if first := notes[0].Number; first > cursor+1 {
		h.skip(l, first-1, "too much waited")
	}
	return notes, nil, true
}

// growth is what RetryBase is multiplied with after each failed attempt (H-18); then the notification is given up.
var growth = [...]time.Duration{1, 2, 6, 24, 120}

// backoff is the wait after so many failed attempts, with jitter upwards, not below what the peer asked for; false if it
// was the last one.
func backoff(base time.Duration, attempts int, asked time.Duration) (time.Duration, bool) {
	if attempts > len(growth) {
		return 0, false
	}
	wait := base * growth[attempts-1]
	return max(wait, asked) + rand.N(wait/5+1), true
}
