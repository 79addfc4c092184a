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
	roundNotes = 64          // notifications that a subscription delivers before others get its place
	roundBytes = 256 << 10   // of them, read from the state at once
	roundTime  = time.Second // and so long
	slowAfter  = time.Second // a subscriber that takes longer is slow
)

func (h *Hub) wakeTopic(t *topic) {
	for _, sub := range t.subs {
		h.wake(sub)
	}
}

// wake starts a subscription that has something to deliver and may. h.mu is held.
func (h *Hub) wake(sub *subscription) {
	if sub.running || sub.ended || sub.topic.Last <= sub.Cursor || h.phase != running {
		return
	}
	// What waits for a subscriber that cannot be reached stays bounded (F94).
	if far := sub.topic.Last - int64(h.o.QueueCap); far > sub.Cursor {
		h.skip(sub, far, "too many waited")
	}
	if wait := sub.Next; wait.Known() && wait > h.micros() {
		h.after(&sub.timer, wait.Time().Sub(h.micros().Time()), func() { h.wake(sub) })
		return
	}
	sub.running = true
	h.start(func(ctx context.Context) { h.work(ctx, sub) })
}

// after has something done later, with h.mu held, in the place of what the timer was set for. h.mu is held.
func (h *Hub) after(timer **time.Timer, wait time.Duration, task func()) {
	stopTimer(*timer)
	*timer = time.AfterFunc(wait, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		task()
	})
}

// skip moves a subscription over what it will not get. h.mu is held.
func (h *Hub) skip(sub *subscription, to int64, why string) {
	count := to - sub.Cursor
	sub.Cursor = to
	h.progressed(sub, 0, count)
	h.o.Log.Warn("notifications were dropped for a subscriber", "topic", sub.topic.URL, "subscription", sub.ID,
		"callback", label(sub.Callback), "count", count, "why", why)
}

func (h *Hub) work(ctx context.Context, sub *subscription) {
	if !h.guarded("delivery", func() {
		for h.round(ctx, sub) {
		}
	}) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.postpone(sub, time.Minute)
	}
}

// round delivers some, before others get the place; false if the subscription is paused.
func (h *Hub) round(ctx context.Context, sub *subscription) bool {
	h.mu.Lock()
	places := h.places.quick
	switch {
	case sub.Attempts > 0:
		places = h.places.failing
	case sub.slow:
		places = h.places.slow
	}
	h.mu.Unlock()
	if !places.enter(ctx, h.halt) {
		h.pause(sub)
		return false
	}
	leave := sync.OnceFunc(places.leave)
	defer leave()
	if places == h.places.quick {
		// A slow subscriber gives the place back, and gets none of these again.
		late := time.AfterFunc(roundTime, leave)
		defer late.Stop()
	}
	notes := h.waiting(ctx, sub)
	if notes == nil {
		return false
	}
	began := time.Now()
	for i, n := range notes {
		if !h.deliver(ctx, sub, n) {
			return false
		}
		notes[i] = nil // delivered content need not stay in memory
		if time.Since(began) > roundTime {
			break
		}
	}
	return true
}

// pause ends the running of a subscription until it is woken.
func (h *Hub) pause(sub *subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	sub.running = false
}

// postpone pauses a subscription for a while. h.mu is held.
func (h *Hub) postpone(sub *subscription, wait time.Duration) {
	sub.running = false
	sub.Next = store.MicrosOf(time.Now().Add(wait))
	h.progressed(sub, 0, 0)
	if h.phase == running && !sub.ended {
		h.after(&sub.timer, wait, func() { h.wake(sub) })
	}
}

// goesOn reports whether a subscription may deliver more; if not, it is paused. h.mu is held.
func (h *Hub) goesOn(sub *subscription) bool {
	if sub.ended || h.phase != running || sub.topic.Last <= sub.Cursor || sub.Expires <= h.micros() {
		sub.running = false
		return false
	}
	return true
}

// waiting returns what comes next; nil if the subscription is paused.
func (h *Hub) waiting(ctx context.Context, sub *subscription) []*hubstate.Notification {
	h.mu.Lock()
	if !h.goesOn(sub) {
		h.mu.Unlock()
		return nil
	}
	cursor, last := sub.Cursor, sub.topic.Last
	notes := h.recent.after(sub.topic.ID, cursor, roundNotes)
	h.mu.Unlock()
	if len(notes) > 0 {
		return notes
	}
	kept, err := h.o.State.Notifications(ctx, sub.topic.ID, cursor, roundNotes, roundBytes)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		h.o.Log.Error("what waits for a subscriber cannot be read", "subscription", sub.ID, "err", err)
		h.postpone(sub, h.o.RetryBase)
		return nil
	}
	notes = make([]*hubstate.Notification, 0, len(kept))
	for i := range kept {
		h.recent.add(sub.topic.ID, &kept[i])
		notes = append(notes, &kept[i])
	}
	// The rest was dropped by the bound on the content of a topic.
	if len(notes) == 0 {
		h.skip(sub, last, "too much waited")
	} else if first := notes[0].Number; first > cursor+1 {
		h.skip(sub, first-1, "too much waited")
	}
	return notes
}

// growth multiplies RetryBase with each failed attempt (H-18); then the notification is given up.
var growth = [...]time.Duration{1, 2, 6, 24, 120}

// backoff is the wait after so many failed attempts, with jitter; false if it was the last one.
func backoff(base time.Duration, attempts int, asked time.Duration) (time.Duration, bool) {
	if attempts > len(growth) {
		return 0, false
	}
	wait := base * growth[attempts-1]
	return max(wait, asked) + rand.N(wait/5+1), true
}
