package hub

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"time"

	"resyncd/destination/fetch"
	"resyncd/destination/peer/hub/hubstate"
	"resyncd/destination/websub"
	"resyncd/store"
)

const verifyTimeout = 10 * time.Second

// verifyAgain are the waits before a request is verified once more, where the callback could not be reached (H-05).
var verifyAgain = [...]time.Duration{time.Second, 4 * time.Second, 20 * time.Second}

// enqueue has a request verified, after those of the same pair that came before.
func (h *Hub) enqueue(q *request) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.add(q)
}

// add is enqueue for callers that hold h.mu.
func (h *Hub) add(q *request) error {
	if h.phase != running {
		return errStopping
	}
	queue := h.requests.existing
	if h.registry.find(q.key()) == nil {
		queue = h.requests.new
	}
	if h.isNew(q) {
		if err := h.registry.room(q.key(), &h.o); err != nil {
			return err
		}
	}
	chain := h.requests.chains[q.key()]
	if len(chain) >= chainMost {
		return errTooMany
	}
	for _, name := range sharesOf(q.client, q.form.Callback) {
		q.turns = append(q.turns, queue.share(name))
	}
	q.turns = append(q.turns, &queue.turn)
	for _, t := range q.turns {
		if t.waiting >= t.most {
			return errTooMany
		}
	}
	q.count(1)
	q.done, q.newer, q.over = make(chan error, 1), make(chan struct{}), make(chan struct{})
	h.requests.chains[q.key()] = append(chain, q)
	if n := len(chain); n > 0 {
		close(chain[n-1].newer)
	} else {
		h.start(func(ctx context.Context) { h.follow(ctx, q.key()) })
	}
	return nil
}

// deny notifies a callback that it is not, or no longer, subscribed (H-09).
func (h *Hub) deny(callback, topic, token, why string) {
	q := &request{denied: why}
	q.form.HubForm = websub.HubForm{Mode: websub.ModeDenied, Callback: callback, Topic: topic, VerifyToken: token}
	if err := h.enqueue(q); err != nil {
		h.o.Log.Info("a denial could not be sent", "topic", topic, "callback", label(callback), "err", err)
	}
}

// follow works through the requests of one pair.
func (h *Hub) follow(ctx context.Context, key pair) {
	for q := h.next(key, 0); q != nil; q = h.next(key, 1) {
		err := errUnreachable
		h.guarded("verification", func() { err = h.handle(ctx, q) })
		q.answer(err)
	}
}

// next drops the first requests of a pair and returns the one behind them; after nil, nobody follows the pair.
func (h *Hub) next(key pair, drop int) *request {
	h.mu.Lock()
	defer h.mu.Unlock()
	chain := h.requests.chains[key]
	if h.phase != running {
		drop = len(chain)
	}
	for _, q := range chain[:drop] {
		q.count(-1)
	}
	if chain = chain[drop:]; len(chain) == 0 {
		delete(h.requests.chains, key)
		return nil
	}
	h.requests.chains[key] = chain
	return chain[0]
}

// handle verifies one request and does what was asked for (H-04 to H-08).
func (h *Hub) handle(ctx context.Context, q *request) (err error) {
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.requests.asking, q)
		close(q.over)
	}()
	lease := h.o.grant(q.form.Lease)
	why := ""
	for attempt := 0; ; attempt++ {
		var again bool
		if again, why, err = h.ask(ctx, q, lease); !again || q.sync || attempt == len(verifyAgain) {
			break
		}
		if !h.pauseFor(ctx, q, verifyAgain[attempt]) {
			break
		}
	}
	switch {
	case q.denied != "":
		why = q.denied
	case err == nil && q.form.Mode == websub.ModeUnsubscribe:
		h.mu.Lock()
		sub := h.registry.find(q.key())
		h.mu.Unlock()
		if sub != nil {
			h.end(ctx, []*subscription{sub}, "unsubscribed", nil)
		}
		return nil
	case err == nil:
		return h.confirmed(ctx, q, lease)
	}
	h.o.Log.Info("a request was not confirmed", "mode", q.form.Mode, "topic", q.form.Topic,
		"callback", label(q.form.Callback), "why", why)
	return err
}

// confirmed records a subscription. The subscriber believes that it has one: where that cannot be, it is denied.
func (h *Hub) confirmed(ctx context.Context, q *request, lease time.Duration) error {
	if err := h.begin(ctx, q, lease); err != nil {
		if !isCrowded(err) {
			h.o.Log.Error("a subscription cannot be recorded", "topic", q.form.Topic, "err", err)
			err = errUnrecorded
		}
		if q.refresh {
			return err // it has what it had
		}
		h.deny(q.form.Callback, q.form.Topic, q.form.VerifyToken, err.Error())
		return err
	}
	return nil
}

// pauseFor waits before a request is verified once more; false if the hub stops, or the subscriber asked anew.
func (h *Hub) pauseFor(ctx context.Context, q *request, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-q.newer:
	case <-h.halt:
	case <-ctx.Done():
	}
	return false
}

// ask sends one verification of a request, or a denial. again: it may work later (H-05).
func (h *Hub) ask(ctx context.Context, q *request, lease time.Duration) (again bool, why string, err error) {
	v := websub.Verification{Mode: q.form.Mode, Topic: q.form.Topic, VerifyToken: q.form.VerifyToken}
	if q.denied != "" {
		v.Mode, v.Reason = websub.ModeDenied, q.denied
	} else {
		v.Challenge = rand.Text() // single use, 130 bits (H-04)
	}
	if q.form.Mode == websub.ModeSubscribe {
		v.Lease = int64(lease / time.Second)
	}
	target, err := websub.VerificationURL(q.form.Callback, v)
	if err != nil {
		return false, err.Error(), errUnconfirmed
	}
	for _, t := range q.turns {
		if !t.enter(ctx, h.halt) {
			return true, "too many verifications for its site, or for whoever asks", errUnreachable
		}
		defer t.places.leave()
	}
	h.mu.Lock()
	if h.isNew(q) {
		h.requests.asking[q] = time.Now()
	}
	h.mu.Unlock()
	a, err := h.net.Send(ctx, fetch.Message{Method: http.MethodGet, URL: target, Timeout: verifyTimeout})
	switch {
	case err != nil:
		// What policy refuses will be refused again.
		return fetch.KindOf(err) != fetch.Refused, reason(err), errUnreachable
	case q.denied != "":
		return mayPass(a.Status), "", nil
	case a.Status >= 200 && a.Status <= 299 && !a.Cut && string(a.Body) == v.Challenge:
		return false, "", nil
	case a.Status >= 200 && a.Status <= 299:
		return false, "answered something else than the challenge", errUnconfirmed
	}
	return mayPass(a.Status), fmt.Sprintf("answered %d %s", a.Status, http.StatusText(a.Status)), errUnconfirmed
}

// mayPass reports whether a status says nothing about the question asked.
func mayPass(status int) bool {
	return status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout ||
		status == http.StatusTooEarly
}

// refreshPart: a subscriber of PubSubHubbub 0.3, which leaves that to the hub (websub.md 7), is asked again when so
// small a part of its lease is left.
const refreshPart = 4

// grant is the lease for so many seconds, 0 for none asked (H-08).
func (o *Options) grant(asked int64) time.Duration {
	lease := o.defaultLease
	if asked > 0 {
		least, most := int64(o.MinLease/time.Second), int64(o.MaxLease/time.Second)
		lease = time.Duration(max(least, min(asked, most))) * time.Second
	}
	return lease.Truncate(time.Second)
}

// begin records or updates a subscription that was verified now (H-07).
func (h *Hub) begin(ctx context.Context, q *request, lease time.Duration) error {
	h.changing.Lock()
	defer h.changing.Unlock()
	f, now := &q.form, time.Now()
	want := hubstate.Subscription{
		Topic: f.Topic, Callback: f.Callback, Secret: f.Secret, Old: f.old, VerifyToken: f.VerifyToken,
		Verified: store.MicrosOf(now), Expires: store.MicrosOf(now.Add(lease)),
	}
	h.mu.Lock()
	err := h.registry.room(q.key(), &h.o)
	if q.refresh {
		sub := h.registry.find(q.key())
		if sub == nil {
			h.mu.Unlock()
			return nil // it has ended meanwhile, and was not asked for again
		}
		want.Secret, want.Old, want.VerifyToken = sub.Secret, sub.Old, sub.VerifyToken
	}
	h.mu.Unlock()
	if err != nil {
		return err
	}
	rec, t, err := h.o.State.Subscribe(ctx, want)
	if h.noteUnsure(err); err != nil {
		return err
	}
	h.mu.Lock()
	h.registry.topic(&t)
	sub := h.registry.admit(&rec)
	sub.Next = store.NoTime // it can be reached now
	sub.Cursor = max(sub.Cursor, rec.Cursor)
	h.wake(sub)
	h.mu.Unlock()
	h.o.Log.Info("a subscription was verified", "topic", f.Topic, "subscription", rec.ID,
		"callback", label(f.Callback), "lease", lease)
	return nil
}

// end ends the subscriptions, with still those alone for which it is true (under h.mu). Nothing more is delivered even
// where the state cannot be written; after a restart their leases are looked at again.
func (h *Hub) end(ctx context.Context, subs []*subscription, why string, still func(*subscription) bool) {
	h.changing.Lock()
	defer h.changing.Unlock()
	var ids []int64
	var gone []*subscription
	h.mu.Lock()
	for _, sub := range subs {
		if !sub.ended && (still == nil || still(sub)) {
			h.registry.remove(sub)
			ids, gone = append(ids, sub.ID), append(gone, sub)
		}
	}
	h.mu.Unlock()
	if len(ids) == 0 {
		return
	}
	if err := h.o.State.End(ctx, ids...); err != nil {
		h.noteUnsure(err)
		h.o.Log.Error("ended subscriptions cannot be removed from the state", "count", len(ids), "err", err)
	}
	for _, sub := range gone {
		h.o.Log.Info("a subscription ended", "topic", sub.topic.URL, "subscription", sub.ID,
			"callback", label(sub.Callback), "why", why)
	}
}

// sweep ends leases that are over (H-08) and what is not served any more (H-09), asks subscribers of PubSubHubbub 0.3
// again, and wakes what time has overtaken.
func (h *Hub) sweep(ctx context.Context) {
	var over, refused []*subscription
	h.mu.Lock()
	now := h.micros()
	for _, t := range h.registry.topics {
		served := h.o.served(t.URL)
		for _, sub := range t.subs {
			switch {
			case sub.Expires <= now:
				over = append(over, sub)
			case !served:
				refused = append(refused, sub)
			default:
				h.refresh(sub, now)
				h.wake(sub)
			}
		}
		h.readLater(t)
	}
	h.requests.new.tidy()
	h.requests.existing.tidy()
	h.mu.Unlock()
	h.end(ctx, over, "its lease is over", func(sub *subscription) bool { return sub.Expires <= now })
	h.end(ctx, refused, errNotServed.Error(), nil)
	for _, sub := range refused {
		h.deny(sub.Callback, sub.topic.URL, "", errNotServed.Error())
	}
}

// refresh asks a subscriber again if it is time to, and without an answer at half of what is left. h.mu is held.
func (h *Hub) refresh(sub *subscription, now store.Micros) {
	length, left := sub.Expires-sub.Verified, sub.Expires-now
	if !sub.Old || left > length/refreshPart || sub.refresh.Known() && now < sub.refresh {
		return
	}
	q := &request{refresh: true}
	q.form.old = true
	q.form.HubForm = websub.HubForm{
		Mode: websub.ModeSubscribe, Callback: sub.Callback, Topic: sub.topic.URL, VerifyToken: sub.VerifyToken,
		Lease: int64(length / store.Micros(time.Second/time.Microsecond)),
	}
	if h.add(q) == nil { // else there is room at the next sweep
		sub.refresh = now + left/2
	}
}
