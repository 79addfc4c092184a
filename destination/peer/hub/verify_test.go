package hub

import (
	"fmt"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"resyncd/destination/fetch"
	"resyncd/destination/websub"
)

// TestVerifyAgain: what may be a passing failure is asked again, with a new challenge; 404 is an answer (H-05).
func TestVerifyAgain(t *testing.T) {
	t.Parallel()
	inBubble(t, Options{}, func(b *bubble) {
		challenges := map[string]bool{}
		n := 0
		b.net.change(func(net *still) {
			net.ask = func(q url.Values) (*fetch.Answer, error) {
				challenges[q.Get("hub.challenge")] = true
				switch n++; n {
				case 1:
					return nil, errDown
				case 2:
					return &fetch.Answer{Status: 500}, nil
				}
				return &fetch.Answer{Status: 200, Body: []byte(q.Get("hub.challenge"))}, nil
			}
		})
		b.subscribe(cb)
		pass(time.Minute)
		if all := b.net.count(func() int { return 10*n + len(challenges) }); all != 33 || len(b.subscriptions()) != 1 {
			t.Errorf("%d requests and challenges, %d subscriptions", all, len(b.subscriptions()))
		}
		b.net.change(func(net *still) {
			n = 10
			net.ask = func(url.Values) (*fetch.Answer, error) { n++; return nil, errDown }
		})
		b.subscribe("http://sub.example/none")
		pass(time.Hour)
		if all := b.net.count(func() int { return n }); all != 14 {
			t.Errorf("%d requests to a callback that is never there", all-10)
		}
	})
}

// TestChain: intents of one pair are settled in the order in which they came, and only so many wait.
func TestChain(t *testing.T) {
	t.Parallel()
	inBubble(t, Options{}, func(b *bubble) {
		b.net.change(func(n *still) { n.took = time.Second })
		b.subscribe(cb)
		b.subscribe(cb, "hub.mode", "unsubscribe")
		b.subscribe(cb, "hub.secret", "last")
		pass(5 * time.Second)
		if subs := b.subscriptions(); len(subs) != 1 || subs[0].Secret != "last" {
			t.Errorf("%+v", subs)
		}
		for range chainMost {
			b.subscribe(cb)
		}
		v := url.Values{"hub.mode": {"subscribe"}, "hub.callback": {cb}, "hub.topic": {aTopic}}
		b.post(503, websub.FormType, v.Encode(), "")
		v.Set("hub.callback", "http://sub.example/another")
		b.post(202, websub.FormType, v.Encode(), "")
	})
}

// TestverifyRate: one host is not asked more often than allowed, whoever asks for it (H-19).
func TestVerifyRate(t *testing.T) {
	t.Parallel()
	inBubble(t, Options{verifyRate: 2}, func(b *bubble) {
		for i := range 40 {
			b.subscribe(fmt.Sprintf("http://victim.example:%d/", i+1))
		}
		b.subscribe("http://other.example/")
		if n := b.net.count(func() int { return len(b.net.sent) }); n != 11 {
			t.Errorf("%d verifications at once, want a burst of 10 and one of another host", n)
		}
		pass(10 * time.Second)
		if n := b.net.count(func() int { return len(b.net.sent) }); n < 29 || n > 32 {
			t.Errorf("%d verifications after 10 s, want 31", n)
		}
		pass(time.Minute)
		if n := len(b.subscriptions()); n != 41 {
			t.Errorf("%d subscriptions", n)
		}
	})
}

// TestVerifyPlaces: one host has so many places and so long a queue, and none of it at the cost of another host (H-19).
func TestVerifyPlaces(t *testing.T) {
	t.Parallel()
	inBubble(t, Options{verifyRate: 1e6}, func(b *bubble) {
		b.net.change(func(n *still) { n.took = time.Minute })
		v := url.Values{"hub.mode": {"subscribe"}, "hub.topic": {aTopic}}
		for i := range shareMost + 1 {
			v.Set("hub.callback", fmt.Sprintf("http://tarpit.example/%d", i))
			b.post(map[bool]int{true: 202, false: 503}[i < shareMost], websub.FormType, v.Encode(), "")
		}
		synctest.Wait()
		if n := len(b.hub.requests.new.places); n != limitPlaces {
			t.Errorf("%d verifications of one host at a time", n)
		}
		b.net.change(func(n *still) { n.took = 0 })
		b.subscribe(cb)
		if subs := b.subscriptions(); len(subs) != 1 || subs[0].Callback != cb {
			t.Errorf("%d subscriptions", len(subs))
		}
		pass(time.Hour)
		b.hub.mu.Lock()
		defer b.hub.mu.Unlock()
		q, sites := &b.hub.requests, b.hub.registry.bySite
		if q.new.waiting+q.existing.waiting != 0 || len(q.new.shares)+len(q.existing.shares) != 0 || sites["sub.example"] != 1 {
			t.Errorf("%d and %d wait, %v", q.new.waiting, q.existing.waiting, sites)
		}
	})
}

// TestCrowded: there is room for so many subscriptions; those that there are can be renewed and ended.
func TestCrowded(t *testing.T) {
	t.Parallel()
	inBubble(t, Options{maxSubscriptions: 1}, func(b *bubble) {
		b.subscribe(cb)
		b.subscribe(cb)
		v := url.Values{"hub.mode": {"subscribe"}, "hub.callback": {cb + "2"}, "hub.topic": {aTopic}}
		b.post(503, websub.FormType, v.Encode(), "")
		b.subscribe(cb, "hub.mode", "unsubscribe")
		b.subscribe(cb + "2")
		if subs := b.subscriptions(); len(subs) != 1 || subs[0].Callback != cb+"2" {
			t.Errorf("%+v", subs)
		}
	})
}
