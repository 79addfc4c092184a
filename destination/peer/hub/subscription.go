package hub

import (
	"context"
	"time"

	"resyncd/destination/peer/hub/hubstate"
	"resyncd/store"
)

// grant is the lease for one that asked for so many seconds, 0 for none (H-08).
func (o *Options) grant(asked int64) time.Duration {
	switch least, most := int64(o.MinLease/time.Second), int64(o.MaxLease/time.Second); {
	case asked <= 0:
		return o.DefaultLease.Truncate(time.Second)
	case asked < least:
		return o.MinLease.Truncate(time.Second)
	case asked > most:
		return o.MaxLease.Truncate(time.Second)
	}
	return time.Duration(asked) * time.Second
}

// begin records a subscription that was verified now, or updates the one that there is (H-07).
func (h *Hub) begin(ctx context.Context, in *intent, lease time.Duration) error {
	h.ledger.Lock()
	defer h.ledger.Unlock()
	f, now := &in.form, h.o.Now()
	want := hubstate.Subscription{
		Topic: f.Topic, Callback: f.Callback, Secret: f.Secret, Old: f.old, VerifyToken: f.VerifyToken,
		Verified: store.MicrosOf(now), Expires: store.MicrosOf(now.Add(lease)),
	}
	h.mu.Lock()
	err := h.room(pair{f.Topic, f.Callback}) // it may have been taken since the request came
	if in.refresh {
		l := h.laneOf(pair{f.Topic, f.Callback})
		if l == nil {
			h.mu.Unlock()
			return nil // it has ended meanwhile, and was not asked for again
		}
		want.Secret, want.Old, want.VerifyToken = l.secret, l.old, l.token
	}
	h.mu.Unlock()
	if err != nil {
		return err
	}
	s, t, err := h.o.State.Subscribe(ctx, want)
	if err != nil {
		h.doubt(err)
		return err
	}
	h.mu.Lock()
	h.topicOf(&t)
	l := h.admit(s)
	l.next = store.NoTime // it can be reached: whatever waits need not wait longer
	l.cursor = max(l.cursor, s.Cursor)
	h.wake(l)
	h.mu.Unlock()
	h.o.Observe(Event{Kind: Verified, Topic: f.Topic, Subscription: s.ID})
	return nil
}

// leave ends the subscription of an unsubscriber, if there is one.
func (h *Hub) leave(ctx context.Context, f *form) {
	h.mu.Lock()
	l := h.laneOf(pair{f.Topic, f.Callback})
	h.mu.Unlock()
	if l != nil {
		h.end(ctx, []*lane{l}, "unsubscribed", always)
	}
}

// always is for ends that nothing prevents.
func always(*lane) bool { return true }

// end ends the subscriptions for which still is true (asked under h.mu). They are out of memory first: nothing more is
// delivered even where the state cannot be written, and after a restart their leases are looked at again.
func (h *Hub) end(ctx context.Context, lanes []*lane, why string, still func(*lane) bool) {
	h.ledger.Lock()
	defer h.ledger.Unlock()
	var ids []int64
	var gone []*lane
	h.mu.Lock()
	for _, l := range lanes {
		if !l.ended && still(l) {
			h.dismiss(l)
			ids, gone = append(ids, l.id), append(gone, l)
		}
	}
	h.mu.Unlock()
	if err := h.o.State.End(ctx, ids...); err != nil {
		h.doubt(err)
		h.o.Log.Error("ended subscriptions cannot be removed from the state", "count", len(ids), "err", err)
	}
	for _, l := range gone {
		h.o.Log.Info("a subscription ended", "topic", l.topic.url, "subscription", l.id, "callback", label(l.callback), "why", why)
		h.o.Observe(Event{Kind: Ended, Topic: l.topic.url, Subscription: l.id, Why: why})
	}
}

// sweep ends leases that are over (H-08) and what is not served any more (H-09), asks again whom PubSubHubbub 0.3 has the
// hub ask, and wakes what time has overtaken.
func (h *Hub) sweep(ctx context.Context) {
	var over, refused []*lane
	h.mu.Lock()
	now := h.micros()
	for _, t := range h.topics {
		served := h.o.served(t.url)
		for _, l := range t.lanes {
			switch {
			case l.expires <= now:
				over = append(over, l)
			case !served:
				refused = append(refused, l)
			default:
				h.refresh(l, now)
				h.wake(l)
			}
		}
		h.look(t)
	}
	h.strangers.limits.tidy()
	h.living.limits.tidy()
	h.mu.Unlock()
	h.end(ctx, over, "its lease is over", func(l *lane) bool { return l.expires <= now })
	h.end(ctx, refused, notServed, always)
	for _, l := range refused {
		h.deny(l.callback, l.topic.url, "", notServed)
	}
}
