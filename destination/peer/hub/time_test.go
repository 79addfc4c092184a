package hub

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"resyncd/destination/fetch"
	"resyncd/destination/websub"
)

const cb = "http://sub.example/cb"

var errDown = errors.New("connection refused")

// TestRetries: growing waits with a little jitter, then the notification is given up, not the subscription; what waits
// behind it keeps its place (H-13, H-18).
func TestRetries(t *testing.T) {
	t.Parallel()
	inBubble(t, Options{}, func(b *bubble) {
		b.subscribe(cb)
		began := time.Since(dawn)
		b.net.change(func(net *still) {
			net.send = func(fetch.Message) (*fetch.Answer, error) { return nil, errDown }
		})
		b.push("a")
		b.push("b")
		pass(46 * time.Minute)
		at := began
		for i, factor := range []time.Duration{0, 1, 2, 6, 24, 120} {
			s := b.net.contents(cb)[i]
			least, most := at+factor*15*time.Second, at+factor*15*time.Second*6/5+time.Second
			if s.body != "a" || s.at < least || s.at > most {
				t.Errorf("attempt %d of %q at %v, want %v to %v", i, s.body, s.at, least, most)
			}
			at = s.at
		}
		b.net.change(func(n *still) { n.send = nil })
		b.push("c")
		pass(37 * time.Minute)
		all := b.net.contents(cb)
		if n := len(all); all[n-1].body != "c" || all[n-2].body != "b" {
			t.Errorf("at last %v", all[n-2:])
		}
		if subs := b.subscriptions(); len(subs) != 1 || subs[0].Dropped != 1 || subs[0].Delivered != 2 || subs[0].Cursor != 3 {
			t.Errorf("%+v", subs)
		}
	})
}

// TestRetryAfter: a subscriber that asks for patience gets it (H-18).
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	inBubble(t, Options{}, func(b *bubble) {
		b.subscribe(cb)
		b.net.change(func(net *still) {
			net.send = func(fetch.Message) (*fetch.Answer, error) {
				return &fetch.Answer{Status: 503, RetryAfter: 10 * time.Minute}, nil
			}
		})
		b.push("a")
		pass(13 * time.Minute)
		if s := b.net.contents(cb); len(s) != 2 || s[1].at-s[0].at < 10*time.Minute {
			t.Errorf("%v", s)
		}
	})
}

// TestRetrySurvives: a wait and its attempts outlive the process.
func TestRetrySurvives(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "hub.db")
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, path, Options{})
		b.subscribe(cb)
		b.net.change(func(net *still) {
			net.send = func(fetch.Message) (*fetch.Answer, error) {
				return &fetch.Answer{Status: 503, RetryAfter: 10 * time.Minute}, nil
			}
		})
		b.push("a")
		pass(time.Minute)
		b.stop()
		b = newBubble(t, path, Options{})
		defer func() { b.stop() }()
		pass(8 * time.Minute)
		if s := b.net.contents(cb); len(s) != 0 {
			t.Errorf("too early: %v", s)
		}
		pass(4 * time.Minute)
		if s := b.net.contents(cb); len(s) != 1 || s[0].body != "a" {
			t.Errorf("%v", s)
		}
	})
}

// TestSlowBesideDead: those that are slow, but there, do not wait for those that hang, however many (H-18).
func TestSlowBesideDead(t *testing.T) {
	t.Parallel()
	inBubble(t, Options{verifyRate: 1e6}, func(b *bubble) {
		const dead = 3 * failingDeliveries
		for i := range dead {
			b.subscribe(fmt.Sprintf("http://dead.example/%d", i))
		}
		b.subscribe(cb)
		b.net.change(func(n *still) {
			n.lags = func(url string) time.Duration {
				if url == cb {
					return 2 * time.Second
				}
				return deliveryTimeout
			}
			n.send = func(m fetch.Message) (*fetch.Answer, error) {
				if m.URL == cb {
					return &fetch.Answer{Status: 200}, nil
				}
				return nil, errDown
			}
		})
		b.push("a")
		pass(30 * time.Second) // by now the dead are tried again
		if n := len(b.hub.places.failing); n != failingDeliveries {
			b.t.Fatalf("%d of the dead are tried again", n)
		}
		b.push("b")
		pass(3 * time.Second)
		if s := b.net.contents(cb); len(s) != 2 || s[1].body != "b" {
			t.Errorf("the slow one got %v", s)
		}
	})
}

// TestRenewalWakes: whoever has just confirmed is tried at once.
func TestRenewalWakes(t *testing.T) {
	t.Parallel()
	inBubble(t, Options{}, func(b *bubble) {
		b.subscribe(cb)
		b.net.change(func(net *still) {
			net.send = func(fetch.Message) (*fetch.Answer, error) { return nil, errDown }
		})
		b.push("a")
		pass(10 * time.Minute)
		b.net.change(func(n *still) { n.send = nil })
		tried := len(b.net.contents(cb))
		b.subscribe(cb)
		if all := b.net.contents(cb); len(all) != tried+1 {
			t.Errorf("%d attempts before, %d after the renewal", tried, len(all))
		}
	})
}

// TestLeases: they end on time, whatever waits (H-08), and in between last.
func TestLeases(t *testing.T) {
	t.Parallel()
	inBubble(t, Options{}, func(b *bubble) {
		b.subscribe(cb, "hub.lease_seconds", "610")
		b.subscribe("http://sub.example/long")
		pass(609 * time.Second)
		b.push("a")
		pass(time.Second)
		b.push("b") // the sweep comes later, the lease is over all the same
		pass(31 * time.Second)
		if s := b.net.contents(cb); len(s) != 1 || s[0].body != "a" {
			t.Errorf("%v", s)
		}
		if subs := b.subscriptions(); len(subs) != 1 || subs[0].Callback != "http://sub.example/long" {
			t.Errorf("%+v", subs)
		}
		b.subscribe(cb)
		if s := b.net.contents(cb); len(s) != 1 {
			t.Errorf("a new lease gets old content: %v", s)
		}
		pass(240*time.Hour - 700*time.Second)
		b.push("c")
		if s := b.net.contents("http://sub.example/long"); len(s) != 3 {
			t.Errorf("%v", s)
		}
		pass(700 * time.Second)
		b.push("d")
		pass(time.Minute)
		if subs := b.subscriptions(); len(subs) != 0 {
			t.Errorf("%+v", subs)
		}
	})
}

// TestQueueCap: what waits for one that cannot be reached stays bounded; the newest survive (F94).
func TestQueueCap(t *testing.T) {
	t.Parallel()
	inBubble(t, Options{QueueCap: 5}, func(b *bubble) {
		b.subscribe(cb)
		b.subscribe("http://good.example/")
		b.net.change(func(net *still) {
			net.send = func(m fetch.Message) (*fetch.Answer, error) {
				if m.URL == cb {
					return nil, errDown
				}
				return &fetch.Answer{Status: 200}, nil
			}
		})
		for i := range 20 {
			b.push(fmt.Sprint(i))
		}
		b.net.change(func(n *still) { n.send, n.sent = nil, nil })
		pass(time.Minute)
		got := ""
		for _, s := range b.net.contents(cb) {
			got += s.body + " "
		}
		if got != "15 16 17 18 19 " {
			t.Errorf("got %s", got)
		}
		for _, s := range b.subscriptions() {
			if want := map[string]int64{cb: 15}[s.Callback]; s.Dropped != want || s.Delivered+s.Dropped != 20 {
				t.Errorf("%+v", s)
			}
		}
	})
}

// TestqueueBytes: and so does its size.
func TestQueueBytes(t *testing.T) {
	t.Parallel()
	inBubble(t, Options{queueBytes: 1000}, func(b *bubble) {
		b.subscribe(cb)
		b.net.change(func(net *still) {
			net.send = func(fetch.Message) (*fetch.Answer, error) { return nil, errDown }
		})
		for i := range 10 {
			b.push(fmt.Sprint(i) + strings.Repeat(".", 299))
		}
		b.hub.mu.Lock()
		b.hub.recent = recent{} // as after a restart
		b.hub.mu.Unlock()
		b.net.change(func(n *still) { n.send, n.sent = nil, nil })
		pass(time.Minute)
		if s := b.net.contents(cb); len(s) != 3 || s[0].body[0] != '7' {
			t.Errorf("%d deliveries", len(s))
		}
		if subs := b.subscriptions(); subs[0].Dropped != 7 || subs[0].Delivered != 3 {
			t.Errorf("%+v", subs)
		}
	})
}

// TestUnreadableTopic: a topic that cannot be read is tried again, sooner if it is pinged again, and given up at last.
func TestUnreadableTopic(t *testing.T) {
	t.Parallel()
	inBubble(t, Options{}, func(b *bubble) {
		b.subscribe(cb)
		var at int
		b.net.change(func(net *still) {
			net.get = func(fetch.Request) (*fetch.Response, error) {
				at++
				return nil, errDown
			}
		})
		looks := func() int { return b.net.count(func() int { return at }) }
		ping := func() { b.post(204, websub.FormType, "hub.mode=publish&hub.url="+url.QueryEscape(aTopic), "") }
		ping()
		pass(5 * time.Minute) // 0, 15 s, 45 s, 2:15, then 8:15 and 38:15
		if looks() != 4 {
			t.Fatalf("%d looks", looks())
		}
		ping()
		ping()
		pass(20 * time.Second)
		if looks() != 5 {
			t.Errorf("%d looks after another ping", looks())
		}
		pass(3 * time.Hour)
		topics, err := b.hub.o.State.Topics(context.Background())
		if err != nil || topics[0].Pinged.Known() || looks() > 10 {
			t.Errorf("%+v after %d looks", topics, looks())
		}
		n := looks()
		for range 50 { // a storm of pings is not handed on
			ping()
			pass(10 * time.Millisecond)
		}
		if looks() > n+1 {
			t.Errorf("%d looks in a storm", looks()-n)
		}
	})
}

// TestLose: a delivery may be lost on purpose, and counts all the same.
func TestLose(t *testing.T) {
	t.Parallel()
	o := Options{Lose: func(_ int64, _ int, body []byte) bool { return string(body) == "drop" }}
	inBubble(t, o, func(b *bubble) {
		b.subscribe(cb)
		for _, body := range []string{"a", "drop", "z"} {
			b.push(body)
		}
		pass(time.Second)
		got := ""
		for _, s := range b.net.contents(cb) {
			got += s.body + " "
		}
		if got != "a z " {
			t.Error(got)
		}
		if subs := b.subscriptions(); subs[0].Delivered != 3 {
			t.Errorf("%+v", subs)
		}
	})
}
