package hub

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"resyncd/destination/fetch"
	"resyncd/destination/peer/hub/hubstate"
	"resyncd/destination/websub"
	"resyncd/store"
)

// deliveryTimeout bounds one attempt (H-18).
const deliveryTimeout = 10 * time.Second

// result is how an attempt ended. Neither done nor gone: it failed.
type result struct {
	done bool          // the subscriber has it
	gone bool          // 410: it wants no more (H-13)
	lost bool          // it will never take this one
	wait time.Duration // it asked for that much patience
	why  string
}

// deliver brings one notification to one subscriber; false if the lane rests now.
func (h *Hub) deliver(ctx context.Context, l *lane, n *hubstate.Notification, a *ahead) bool {
	h.mu.Lock()
	if n.Number <= l.cursor || a != nil && a.void { // dropped meanwhile
		h.mu.Unlock()
		return true
	}
	if !h.goesOn(l) {
		h.mu.Unlock()
		return false
	}
	secret, method, attempt, asked := l.secret, h.o.Signature, l.attempts, l.verified
	if l.old {
		method = websub.SHA1
	}
	h.mu.Unlock()
	action := Deliver
	if h.o.Tamper != nil {
		action = h.o.Tamper(Delivery{Topic: n.Topic, Subscription: l.id, Number: n.Number, Attempt: attempt, Body: n.Body})
	}
	signature := ""
	if secret != "" {
		signature = websub.Sign(method, secret, n.Body)
	}
	r := result{done: true}
	began := time.Now()
	if action != Drop {
		r = h.post(ctx, l, n, signature)
	}
	if action == Double && r.done {
		h.post(ctx, l, n, signature)
	}
	took := time.Since(began)
	if ctx.Err() != nil && !r.done { // we broke it off ourselves
		h.rest(l)
		return false
	}
	if r.gone {
		return h.gone(ctx, l, asked)
	}
	if !a.stands(ctx) {
		h.again(l)
		return false
	}
	return h.settle(l, n, r, took)
}

// post is one attempt (H-11, H-12, H-14).
func (h *Hub) post(ctx context.Context, l *lane, n *hubstate.Notification, signature string) result {
	header := http.Header{"Link": {n.Link}}
	if n.Type != "" {
		header["Content-Type"] = []string{n.Type}
	}
	if signature != "" {
		header[websub.SignatureHeader] = []string{signature}
	}
	a, err := h.net.Send(ctx, fetch.Message{Method: http.MethodPost, URL: l.callback, Header: header, Body: n.Body,
		Timeout: deliveryTimeout})
	switch {
	case err != nil:
		return result{why: because(err)}
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

// settle notes how an attempt ended; false if the lane rests now.
func (h *Hub) settle(l *lane, n *hubstate.Notification, r result, took time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.ended {
		l.running = false
		return false
	}
	l.slow = took > slowAfter
	about := Event{Topic: n.Topic, Subscription: l.id, Number: n.Number, Why: r.why}
	if r.done {
		l.cursor, l.attempts, l.next = max(l.cursor, n.Number), 0, store.NoTime
		h.moved(l, 1, 0)
		about.Kind, about.Took = Delivered, h.o.Now().Sub(n.Received.Time())
		h.o.Observe(about)
		return true
	}
	l.attempts++
	wait, again := backoff(h.o.RetryBase, l.attempts, r.wait)
	if r.lost || !again {
		// The subscription lives on, and what comes next is tried as if nothing had been (H-13).
		l.attempts, l.next = 0, store.NoTime
		h.skip(l, max(l.cursor, n.Number), "given up: "+r.why)
		return true
	}
	level := h.o.Log.Debug
	if l.attempts == 1 {
		level = h.o.Log.Info
	}
	level("a delivery failed", "topic", n.Topic, "subscription", l.id, "callback", label(l.callback), "attempt", l.attempts,
		"why", r.why, "again_in", wait.Round(time.Millisecond))
	h.putOff(l, wait)
	about.Kind = Failed
	h.o.Observe(about)
	return false
}

// gone ends a subscription whose subscriber answered 410, unless it has confirmed anew since that delivery began.
func (h *Hub) gone(ctx context.Context, l *lane, asked store.Micros) bool {
	h.rest(l)
	h.end(ctx, []*lane{l}, "the subscriber answered 410", func(l *lane) bool { return l.verified == asked })
	return false
}
