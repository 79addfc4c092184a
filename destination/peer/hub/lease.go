package hub

import (
	"context"
	"time"

	"resyncd/destination/peer/hub/hubstate"
	"resyncd/destination/websub"
	"resyncd/store"
)

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
	if h.wrote(err); err != nil {
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

func (h *Hub) unsubscribe(ctx context.Context, key pair) {
	h.mu.Lock()
	sub := h.registry.find(key)
	h.mu.Unlock()
	if sub != nil {
		h.end(ctx, []*subscription{sub}, "unsubscribed", always)
	}
}

func always(*subscription) bool { return true }

// end ends the subscriptions for which still is true (under h.mu). Nothing more is delivered even where the state
// cannot be written; after a restart their leases are looked at again.
func (h *Hub) end(ctx context.Context, subs []*subscription, why string, still func(*subscription) bool) {
	h.changing.Lock()
	defer h.changing.Unlock()
	var ids []int64
	var gone []*subscription
	h.mu.Lock()
	for _, sub := range subs {
		if !sub.ended && still(sub) {
			h.registry.remove(sub)
			ids, gone = append(ids, sub.ID), append(gone, sub)
		}
	}
	h.mu.Unlock()
	if len(ids) > 0 {
		h.wrote(h.o.State.End(ctx, ids...))
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
	h.end(ctx, refused, notServed, always)
	for _, sub := range refused {
		h.deny(sub.Callback, sub.topic.URL, "", notServed)
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
