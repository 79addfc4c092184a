package subscribe

import (
	"slices"
	"testing"
	"time"

	"resyncd/destination/fetch"
	"resyncd/store"
)

// alive returns the tokens under which hubs deliver a topic now.
func (w *world) alive(topic string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, l := range w.leases {
		if l.topic == topic && l.until.After(time.Now()) {
			out = append(out, l.host)
		}
	}
	slices.Sort(out)
	return out
}

func (w *world) wantAlive(topic string, hosts ...string) {
	w.t.Helper()
	if got := w.alive(topic); !slices.Equal(got, hosts) {
		w.t.Errorf("leases at %v, want %v", got, hosts)
	}
}

func ab(w *world) { w.behave["a.example"], w.behave["b.example"] = good, good }

// TestRotation: after 30 days callback and secret are new, both receive for a while, then the old one is unsubscribed and
// is a tombstone (S-52, F31, S-92).
func TestRotation(t *testing.T) {
	one(t, []string{hubA}, ab, func(w *world, topic string) {
		wait(time.Minute)
		first := w.wantState(store.SubActive)
		both := time.Duration(0)
		for range 50 * 24 * 60 {
			wait(time.Minute)
			switch w.live(topic) {
			case 0:
				t.Fatal("nobody delivers")
			case 2:
				both += time.Minute
			}
		}
		s := w.wantState(store.SubActive)
		if s.Token == first.Token || s.Secret == first.Secret || s.Secret == "" || w.live(topic) != 1 {
			t.Errorf("not rotated: %+v", s)
		}
		between(t, "both receive", both, rotationGrace-time.Minute, rotationGrace+2*time.Minute)
		old, err := w.st.SubscriptionByToken(t.Context(), first.Token)
		if err != nil || old.State != store.SubGone || !old.Ended.Known() {
			t.Errorf("%+v, %v", old, err)
		}
		if len(w.unsubbed) != 1 || w.unsubbed[0] != first.Token {
			t.Errorf("unsubscribed %v", len(w.unsubbed))
		}
	})
}

// TestRotationAtStubbornHub: a hub that does not verify the new callback keeps the old one, renewed in place.
func TestRotationAtStubbornHub(t *testing.T) {
	one(t, []string{hubA}, func(w *world) {
		first := ""
		w.behave["a.example"] = func(w *world, r request) *fetch.Answer {
			w.mu.Lock()
			if first == "" {
				first = r.form.Get("hub.callback")
			}
			mine := first == r.form.Get("hub.callback")
			w.mu.Unlock()
			if !mine {
				return answer(202)
			}
			return good(w, r)
		}
	}, func(w *world, topic string) {
		for range 90 * 24 {
			wait(time.Hour)
			if w.live(topic) != 1 {
				t.Fatalf("%d leases", w.live(topic))
			}
		}
	})
}

// TestMoves: S-13 and F32, the new pair before the old one is left, whatever moved.
func TestMoves(t *testing.T) {
	const other = "https://source.example/elsewhere"
	for name, tc := range map[string]struct {
		move  func(w *world, topic string)
		topic string // "" for the same
		hosts []string
	}{
		"hub":          {func(w *world, topic string) { w.offer(1, topic, hubB) }, "", []string{"b.example"}},
		"topic":        {func(w *world, topic string) { w.offer(1, other, hubA) }, other, []string{"a.example"}},
		"both":         {func(w *world, topic string) { w.offer(1, other, hubB) }, other, []string{"b.example"}},
		"there, back":  {func(w *world, topic string) { w.offer(1, other, hubB); w.offer(1, topic, hubA) }, "", []string{"a.example"}},
		"another hub":  {func(w *world, topic string) { w.offer(1, topic, hubB, hubA) }, "", []string{"a.example"}},
		"same":         {func(w *world, topic string) { w.offer(1, topic, hubA) }, "", []string{"a.example"}},
		"withdrawn":    {func(w *world, topic string) { w.offer(1, "") }, "", nil},
		"no hub":       {func(w *world, topic string) { w.offer(1, topic) }, "", nil},
		"hub set":      {func(w *world, topic string) { w.k.SetSource(1, Plan{Push: true, Secret: true, HubOverride: hubB}) }, "", []string{"b.example"}},
		"topic set":    {func(w *world, topic string) { w.k.SetSource(1, Plan{Push: true, Secret: true, TopicOverride: other}) }, other, []string{"a.example"}},
		"push off":     {func(w *world, topic string) { w.k.SetSource(1, Plan{Secret: true}) }, "", nil},
		"secret off":   {func(w *world, topic string) { w.k.SetSource(1, Plan{Push: true}) }, "", []string{"a.example"}},
		"drop":         {func(w *world, topic string) { _ = w.k.DropSource(w.t.Context(), 1) }, "", nil},
		"later, again": {func(w *world, topic string) { w.offer(1, ""); wait(time.Hour); w.offer(1, topic, hubB) }, "", []string{"b.example"}},
	} {
		t.Run(name, func(t *testing.T) {
			one(t, []string{hubA}, ab, func(w *world, topic string) {
				wait(time.Hour)
				s := w.wantState(store.SubActive)
				w.asks()
				tc.move(w, topic)
				dark := false
				for range 3600 {
					wait(time.Second)
					dark = dark || w.live(topic)+w.live(other) == 0
				}
				if dark != (tc.hosts == nil || name == "later, again") {
					t.Errorf("nobody delivered for a while: %v", dark)
				}
				at := topic
				if tc.topic != "" {
					at = tc.topic
					w.wantAlive(topic)
				} else {
					w.wantAlive(other)
				}
				w.wantAlive(at, tc.hosts...)
				if tc.hosts == nil {
					return
				}
				now := w.wantState(store.SubActive)
				same := name == "same" || name == "another hub" || name == "there, back"
				if same != (now.Token == s.Token) {
					t.Errorf("callback kept: %v", now.Token == s.Token)
				}
				if (now.Secret == "") != (name == "secret off") {
					t.Errorf("secret %q", now.Secret)
				}
				if n := len(w.asks()); n > 4 || same && name != "there, back" && n > 0 {
					t.Errorf("%d requests", n)
				}
			})
		})
	}
}

// TestOldPairLivesOn: as long as the new pair is not verified the old one is renewed (S-13).
func TestOldPairLivesOn(t *testing.T) {
	one(t, []string{hubA}, func(w *world) { ab(w); w.behave["b.example"] = silent }, func(w *world, topic string) {
		wait(time.Hour)
		w.offer(1, topic, hubB)
		for range 60 * 24 {
			wait(time.Hour)
			if w.live(topic) != 1 {
				t.Fatal("the old pair lapsed")
			}
		}
		w.mu.Lock()
		w.behave["b.example"] = good
		w.mu.Unlock()
		wait(2 * time.Hour)
		w.wantAlive(topic, "b.example")
	})
}

// TestHubs: several hubs, https first, one at a time, the next after failures, refusal, denial or silence (S-05, S-06, F32).
func TestHubs(t *testing.T) {
	const plain = "http://plain.example/hub"
	for name, tc := range map[string]struct {
		a      behaviour
		within time.Duration
	}{
		"dead": {nil, 3 * time.Minute}, "refusing": {func(*world, request) *fetch.Answer { return answer(403) }, time.Minute},
		"denying": {denying, time.Minute}, "silent": {silent, 40 * time.Minute}, "redirecting": {func(*world, request) *fetch.Answer { return answer(302) }, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			one(t, []string{plain, hubA, hubB}, func(w *world) { ab(w); w.behave["a.example"] = tc.a; w.behave["plain.example"] = good }, func(w *world, topic string) {
				wait(tc.within)
				w.wantAlive(topic, "b.example")
				wait(time.Hour)
				s := w.wantState(store.SubActive)
				if s.Hub != hubB {
					t.Errorf("at %s", s.Hub)
				}
				w.asks()
				wait(5 * day)
				if n := len(w.asks()); n > 0 {
					t.Errorf("%d requests where all is well", n)
				}
			})
		})
	}
}

// TestAllHubsDead: no row and no request more than needed, and back when one is.
func TestAllHubsDead(t *testing.T) {
	one(t, []string{hubA, hubB}, nil, func(w *world, topic string) {
		wait(10 * day)
		if n := len(w.asks()); n > 10*24*16 {
			t.Errorf("%d requests in ten days", n)
		}
		if n := len(w.subs(1)); n != 2 {
			t.Errorf("%d records for two hubs", n)
		}
		w.mu.Lock()
		w.behave["b.example"] = good
		w.mu.Unlock()
		wait(15 * time.Minute)
		w.wantAlive(topic, "b.example")
		wait(time.Minute)
		w.wantState(store.SubActive)
	})
}

// TestHubLostWhileActive: a hub that dies has its lease kept as long as it lasts, beside the next one.
func TestHubLostWhileActive(t *testing.T) {
	one(t, []string{hubA, hubB}, ab, func(w *world, topic string) {
		wait(time.Hour)
		w.wantAlive(topic, "a.example")
		w.mu.Lock()
		delete(w.behave, "a.example")
		w.mu.Unlock()
		wait(8*day + time.Hour)
		w.wantAlive(topic, "a.example", "b.example") // the unsubscription does not get through
		wait(2 * day)
		w.wantAlive(topic, "b.example")
		wait(time.Hour)
		w.wantState(store.SubActive)
	})
}

// TestSuspect: a hub that delivers nothing is asked again, then left (F24, CONTRIBUTING.md 3.8).
func TestSuspect(t *testing.T) {
	one(t, []string{hubA, hubB}, ab, func(w *world, topic string) {
		suspect := func() {
			t.Helper()
			id := w.the().ID
			for range 20 {
				if err := w.k.Suspect(t.Context(), id); err != nil {
					t.Fatal(err)
				}
			}
		}
		wait(time.Minute)
		suspect()
		wait(time.Minute)
		if n := len(w.asks()); n != 1 {
			t.Errorf("%d requests: it has had no time", n)
		}
		wait(day)
		suspect()
		wait(time.Minute)
		if rs := w.asks(); len(rs) != 1 || rs[0].host != "a.example" {
			t.Errorf("%d requests, want to be subscribed again", len(rs))
		}
		suspect()
		wait(time.Second)
		if n := len(w.asks()); n != 0 {
			t.Errorf("%d requests: asking it anew has had no time", n)
		}
		wait(2 * time.Minute)
		suspect()
		wait(5 * time.Minute)
		w.wantAlive(topic, "b.example")
		w.asks()
		wait(10 * time.Minute)
		suspect()
		wait(5 * time.Minute)
		if n := len(w.asks()); n != 0 {
			t.Errorf("%d requests: the new hub has had no time", n)
		}
	})
}

// TestSuspectSoon: a hub that never delivered anything is asked anew and left within minutes; then hubs are left once an
// hour at most, whatever is said of them.
func TestSuspectSoon(t *testing.T) {
	one(t, []string{hubA, hubB}, ab, func(w *world, topic string) {
		suspects := func(d time.Duration) {
			t.Helper()
			for range d / (30 * time.Second) {
				wait(30 * time.Second)
				for _, s := range w.subs(1) {
					if err := w.k.Suspect(t.Context(), s.ID); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		suspects(2 * time.Minute)
		if rs := w.asks(); len(rs) != 2 || rs[1].host != "a.example" {
			t.Errorf("%d requests, want to be subscribed again", len(rs))
		}
		suspects(3 * time.Minute)
		w.wantAlive(topic, "b.example")
		w.asks()
		suspects(day)
		if n := len(w.asks()); n < 24 || n > 24*3+3 { // subscribe, again, unsubscribe
			t.Errorf("%d requests in a day of suspicion", n)
		}
	})
}
