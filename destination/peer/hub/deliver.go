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

// deliver brings one notification to one subscriber; false if the subscription is paused now.
func (h *Hub) deliver(ctx context.Context, sub *subscription, n *hubstate.Notification) bool {
	h.mu.Lock()
	if n.Number <= sub.Cursor { // dropped meanwhile
		h.mu.Unlock()
		return true
	}
	if !h.goesOn(sub) {
		h.mu.Unlock()
		return false
	}
	secret, method, attempt, asked := sub.Secret, h.o.Signature, sub.Attempts, sub.Verified
	if sub.Old {
		method = websub.SHA1
	}
	h.mu.Unlock()
	action := Deliver
	if h.o.Tamper != nil {
		action = h.o.Tamper(Delivery{n.Topic, sub.ID, n.Number, attempt, n.Body})
	}
	signature := ""
	if secret != "" {
		signature = websub.Sign(method, secret, n.Body)
	}
	r := result{done: true}
	began := time.Now()
	if action != Drop {
		r = h.post(ctx, sub, n, signature)
	}
	if action == Double && r.done {
		h.post(ctx, sub, n, signature)
	}
	took := time.Since(began)
	if ctx.Err() != nil && !r.done { // we broke it off ourselves
		h.pause(sub)
		return false
	}
	if r.gone {
		h.pause(sub)
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

// settle notes how an attempt ended; false if the subscription is paused now.
func (h *Hub) settle(sub *subscription, n *hubstate.Notification, r result, took time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if sub.ended {
		sub.running = false
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

// Action is what becomes of a delivery.
type Action int

// The actions.
const (
	Deliver Action = iota
	Drop           // the hub believes that it was delivered
	Double
)

// Delivery is one notification on its way to one subscriber.
type Delivery struct {
	Topic        string
	Subscription int64
	Number       int64 // of the notification within its topic
	Attempt      int   // 0 for the first
	Body         []byte
}
