package hub

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"resyncd/destination/fetch"
	"resyncd/destination/peer/hub/hubstate"
	"resyncd/destination/websub"
	"resyncd/store"
)

const (
	deliveryTimeout = 10 * time.Second // of one attempt (H-18)

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

// due reports whether a subscription has something to deliver and may. h.mu is held.
func (h *Hub) due(sub *subscription) bool {
	return !sub.ended && h.phase == running && sub.topic.Last > sub.Cursor && sub.Expires > h.micros()
}

// wake has what is due delivered, now or when it is tried again. h.mu is held.
func (h *Hub) wake(sub *subscription) {
	if sub.running || !h.due(sub) {
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

// postpone has a subscription wait for a while. h.mu is held.
func (h *Hub) postpone(sub *subscription, wait time.Duration) {
	sub.Next = store.MicrosOf(time.Now().Add(wait))
	h.progressed(sub, 0, 0)
}

// work delivers until nothing is due now.
func (h *Hub) work(ctx context.Context, sub *subscription) {
	ok := h.guarded("delivery", func() {
		for h.round(ctx, sub) {
		}
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	if !ok {
		h.postpone(sub, time.Minute)
	}
	sub.running = false
	h.wake(sub)
}

// round delivers some, before others get the place; false if it has to wait.
func (h *Hub) round(ctx context.Context, sub *subscription) bool {
	h.mu.Lock()
	due, places := h.due(sub), h.places.quick
	switch {
	case sub.Attempts > 0:
		places = h.places.failing
	case sub.slow:
		places = h.places.slow
	}
	h.mu.Unlock()
	if !due || !places.enter(ctx, h.halt) {
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

// waiting returns what comes next; nil for nothing now.
func (h *Hub) waiting(ctx context.Context, sub *subscription) []*hubstate.Notification {
	h.mu.Lock()
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

// result is how an attempt ended. Neither done nor gone: it failed.
type result struct {
	done bool          // the subscriber has it
	gone bool          // 410: it wants no more (H-13)
	lost bool          // it will never take this one
	wait time.Duration // it asked for that much patience
	why  string
}

// deliver brings one notification to one subscriber; false if it has to wait.
func (h *Hub) deliver(ctx context.Context, sub *subscription, n *hubstate.Notification) bool {
	h.mu.Lock()
	if n.Number <= sub.Cursor { // dropped meanwhile
		h.mu.Unlock()
		return true
	}
	if !h.due(sub) {
		h.mu.Unlock()
		return false
	}
	secret, method, attempt, asked := sub.Secret, h.o.Signature, sub.Attempts, sub.Verified
	if sub.Old {
		method = websub.SHA1
	}
	h.mu.Unlock()
	signature := ""
	if secret != "" {
		signature = websub.Sign(method, secret, n.Body)
	}
	r := result{done: true}
	lost := h.o.Lose != nil && h.o.Lose(n.Number, attempt, n.Body)
	began := time.Now()
	if !lost {
		r = h.post(ctx, sub, n, signature)
	}
	took := time.Since(began)
	if ctx.Err() != nil && !r.done { // we broke it off ourselves
		return false
	}
	if r.gone {
		// It may have confirmed anew since the delivery began.
		unchanged := func(sub *subscription) bool { return sub.Verified == asked }
		h.end(ctx, []*subscription{sub}, "the subscriber answered 410", unchanged)
		return false
	}
	return h.settle(sub, n, r, took)
}

// post is one attempt (H-11, H-12, H-14).
func (h *Hub) post(ctx context.Context, sub *subscription, n *hubstate.Notification, signature string) result {
	header := http.Header{"Link": {n.Link}}
	if n.Type != "" {
		header["Content-Type"] = []string{n.Type}
	}
	if signature != "" {
		header[websub.SignatureHeader] = []string{signature}
	}
	a, err := h.net.Send(ctx, fetch.Message{Method: http.MethodPost, URL: sub.Callback, Header: header, Body: n.Body,
		Timeout: deliveryTimeout})
	switch {
	case err != nil:
		return result{why: reason(err)}
	case a.Status >= 200 && a.Status <= 299:
		return result{done: true}
	}
	return result{
		gone: a.Status == http.StatusGone,
		lost: a.Status == http.StatusRequestEntityTooLarge, // it cannot take it, and knows that it has to pull
		wait: a.RetryAfter,
		why:  fmt.Sprintf("answered %d %s", a.Status, http.StatusText(a.Status)),
	}
}

// settle notes how an attempt ended; false if it has to wait.
func (h *Hub) settle(sub *subscription, n *hubstate.Notification, r result, took time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if sub.ended {
		return false
	}
	sub.slow = took > slowAfter
	if r.done {
		sub.Cursor, sub.Attempts, sub.Next = max(sub.Cursor, n.Number), 0, store.NoTime
		h.progressed(sub, 1, 0)
		h.o.Log.Debug("a notification was delivered", "topic", n.Topic, "subscription", sub.ID, "number", n.Number,
			"took", time.Since(n.Received.Time()))
		return true
	}
	sub.Attempts++
	wait, again := backoff(h.o.RetryBase, sub.Attempts, r.wait)
	if r.lost || !again {
		// The subscription lives on, and what comes next is tried as if nothing had been (H-13).
		sub.Attempts, sub.Next = 0, store.NoTime
		h.skip(sub, max(sub.Cursor, n.Number), "given up: "+r.why)
		return true
	}
	level := h.o.Log.Debug
	if sub.Attempts == 1 {
		level = h.o.Log.Info
	}
	level("a delivery failed", "topic", n.Topic, "subscription", sub.ID, "callback", label(sub.Callback),
		"attempt", sub.Attempts, "why", r.why, "again_in", wait.Round(time.Millisecond))
	h.postpone(sub, wait)
	return false
}
