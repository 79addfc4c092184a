package hub

import (
	"context"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"resyncd/destination/fetch"
	"resyncd/destination/peer/hub/hubstate"
	"resyncd/store"
)

// asks counts verifications by mode and token.
func (b *bubble) asks(answer int) (count func() int, last func() url.Values) {
	var n int
	var q url.Values
	b.net.change(func(net *still) {
		net.ask = func(query url.Values) (*fetch.Answer, error) {
			n, q = n+1, query
			return &fetch.Answer{Status: answer, Body: []byte(query.Get("hub.challenge"))}, nil
		}
	})
	return func() int { return b.net.count(func() int { return n }) }, func() url.Values {
		b.net.mu.Lock()
		defer b.net.mu.Unlock()
		return q
	}
}

// TestRefresh: subscribers of PubSubHubbub 0.3 do not renew, the hub asks them in time (websub.md 7); those of WebSub
// are not asked (H-08).
func TestRefresh(t *testing.T) {
	t.Parallel()
	inBubble(t, Options{}, func(b *bubble) {
		b.subscribe(cb, "hub.verify", "async", "hub.verify_token", "tok&en", "hub.secret", "s", "hub.lease_seconds", "1000")
		b.subscribe("http://sub.example/new", "hub.lease_seconds", "1000")
		signatures := ""
		b.net.change(func(n *still) {
			n.send = func(m fetch.Message) (*fetch.Answer, error) {
				signatures += m.Header.Get("X-Hub-Signature")[:5]
				return &fetch.Answer{Status: 200}, nil
			}
		})
		count, last := b.asks(200)
		pass(740 * time.Second)
		if count() != 0 {
			b.t.Fatalf("asked %d times while the lease is young", count())
		}
		pass(50 * time.Second)
		if q := last(); count() != 1 || q.Get("hub.mode") != "subscribe" || q.Get("hub.topic") != aTopic || q.Get("hub.verify_token") != "tok&en" ||
			q.Get("hub.lease_seconds") != "1000" {
			b.t.Fatalf("asked %d times, last %v", count(), q)
		}
		pass(600 * time.Second)
		b.push("a")
		if subs := b.subscriptions(); len(subs) != 1 || subs[0].Callback != cb || subs[0].Secret != "s" || !subs[0].Old || subs[0].VerifyToken != "tok&en" {
			t.Errorf("%+v", subs)
		}
		if s := b.net.contents(cb); len(s) != 1 || signatures != "sha1=" {
			t.Errorf("%v, signed %s", s, signatures)
		}
		pass(24 * time.Hour) // for ever, and not too often
		if n := count(); n < 86 || n > 120 || len(b.subscriptions()) != 1 {
			t.Errorf("asked %d times in a day, %d subscriptions", n, len(b.subscriptions()))
		}
	})
}

// TestRefreshRefused: who does not confirm keeps its lease to its end, and no longer.
func TestRefreshRefused(t *testing.T) {
	t.Parallel()
	inBubble(t, Options{}, func(b *bubble) {
		b.subscribe(cb, "hub.verify", "async", "hub.lease_seconds", "8000")
		count, _ := b.asks(404)
		pass(7990 * time.Second)
		b.push("a")
		if n := count(); n < 3 || n > 10 || len(b.net.contents(cb)) != 1 {
			t.Errorf("asked %d times, told %v", n, b.net.contents(cb))
		}
		pass(time.Minute)
		if subs := b.subscriptions(); len(subs) != 0 {
			t.Errorf("%+v", subs)
		}
	})
}

// TestRefreshTooLate: what has ended while its subscriber was asked is not begun again, and what the subscriber itself
// asked for meanwhile stands.
func TestRefreshTooLate(t *testing.T) {
	t.Parallel()
	inBubble(t, Options{}, func(b *bubble) {
		for _, callback := range []string{cb, "http://sub.example/gone"} {
			b.subscribe(callback, "hub.callback", callback, "hub.verify", "async", "hub.secret", "old", "hub.lease_seconds", "1000")
		}
		pass(749 * time.Second)
		b.net.change(func(n *still) {
			n.took = 60 * time.Second
			n.send = func(m fetch.Message) (*fetch.Answer, error) {
				if strings.HasSuffix(m.URL, "gone") {
					return &fetch.Answer{Status: 410}, nil
				}
				return &fetch.Answer{Status: 200}, nil
			}
		})
		b.push("a") // is answered before the question that the next sweep asks
		pass(40 * time.Second)
		b.subscribe(cb, "hub.secret", "new")
		pass(5 * time.Minute)
		if subs := b.subscriptions(); len(subs) != 1 || subs[0].Callback != cb || subs[0].Secret != "new" || subs[0].Old {
			t.Errorf("%+v", subs)
		}
	})
}

// freezing is a state in which subscriptions cannot be changed while it is frozen.
type freezing struct {
	hubstate.State
	frozen atomic.Bool
}

func (f *freezing) Subscribe(ctx context.Context, s hubstate.Subscription) (hubstate.Subscription, hubstate.Topic, error) {
	if f.frozen.Load() {
		return s, hubstate.Topic{}, store.ErrFull
	}
	return f.State.Subscribe(ctx, s)
}

// TestRefreshUnrecorded: a renewal that cannot be recorded is not told to be an end: what there is goes on.
func TestRefreshUnrecorded(t *testing.T) {
	t.Parallel()
	inBubble(t, Options{}, func(b *bubble) {
		state := &freezing{State: b.hub.o.State}
		b.hub.o.State = state
		b.subscribe(cb, "hub.verify", "async", "hub.lease_seconds", "1000")
		state.frozen.Store(true)
		count, last := b.asks(200)
		pass(810 * time.Second)
		if q := last(); count() != 1 || q.Get("hub.mode") != "subscribe" {
			t.Errorf("asked %d times, last %v", count(), q)
		}
		state.frozen.Store(false)
		pass(600 * time.Second)
		if subs := b.subscriptions(); len(subs) != 1 {
			t.Errorf("%+v", subs)
		}
	})
}
