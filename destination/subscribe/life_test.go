package subscribe

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"resyncd/destination/fetch"
	"resyncd/store"
)

const day = 24 * time.Hour

// one runs a test with a Keeper that keeps one Source at hubs of the world's making.
func one(t *testing.T, hubs []string, set func(w *world), f func(w *world, topic string)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		if set != nil {
			set(w)
		}
		topic := w.source(1, hubs...)
		stop := w.run()
		defer func() { // also after a Fatal, for the bubble has to end
			stop()
			wait(time.Minute) // what hubs do late
			w.report()
		}()
		f(w, topic)
	})
}

// the returns the only subscription that counts.
func (w *world) the() store.Subscription {
	w.t.Helper()
	var out []store.Subscription
	for _, s := range w.subs(1) {
		if counts(&s) {
			out = append(out, s)
		}
	}
	if len(out) != 1 {
		w.t.Fatalf("%d subscriptions: %+v", len(out), out)
	}
	return out[0]
}

func (w *world) wantState(want store.SubscriptionState) store.Subscription {
	w.t.Helper()
	s := w.the()
	if s.State != want {
		w.t.Fatalf("state %s (%s), want %s", s.State, s.Reason, want)
	}
	return s
}

// forgive forgets what was wrong so far.
func (w *world) forgive() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.breaches = nil
}

// asks returns when a host was asked, and forgets it.
func (w *world) asks() []request {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.log
	w.log = nil
	return out
}

func gaps(rs []request) []time.Duration {
	var out []time.Duration
	for i := 1; i < len(rs); i++ {
		out = append(out, rs[i].at.Sub(rs[i-1].at))
	}
	return out
}

func between(t testing.TB, what string, got, low, high time.Duration) {
	t.Helper()
	if got < low || got > high {
		t.Errorf("%s: %v, want %v to %v", what, got, low, high)
	}
}

const hubA, hubB = "https://a.example/hub", "https://b.example/hub"

// TestLife: S-20 to S-24, S-30, S-31, S-50, S-51, S-55 for a hub that does everything right.
func TestLife(t *testing.T) {
	var verified atomic.Int64
	one(t, []string{hubA}, func(w *world) {
		w.behave["a.example"] = func(w *world, r request) *fetch.Answer {
			later(40*time.Second, func() { verified.Store(time.Now().UnixNano()); w.serve(r, "1000", 1000*time.Second) })
			return answer(202)
		}
	}, func(w *world, topic string) {
		wait(time.Second)
		s := w.wantState(store.SubPending)
		if len(s.Token) != 43 || len(s.Secret) != 64 {
			t.Errorf("token of %d, secret of %d characters", len(s.Token), len(s.Secret))
		}
		r := w.asks()[0].form
		want := map[string]string{"hub.mode": "subscribe", "hub.topic": topic, "hub.callback": callbackBase + s.Token,
			"hub.secret": s.Secret, "hub.lease_seconds": "864000"}
		for name := range r {
			if r.Get(name) != want[name] {
				t.Errorf("%s=%s, want %q", name, r.Get(name), want[name])
			}
		}
		if len(r) != len(want) {
			t.Errorf("sent %v", r)
		}
		wait(time.Minute)
		s = w.wantState(store.SubActive)
		verifyAt := time.Unix(0, verified.Load())
		if s.Verified != store.MicrosOf(verifyAt) || s.Expires != store.MicrosOf(verifyAt.Add(1000*time.Second)) || s.Granted != 1000 || s.Asked != 864000 {
			t.Errorf("lease %+v, verified at %v", s, verifyAt)
		}
		between(t, "renewal", s.Renew.Time().Sub(verifyAt), 500*time.Second, 800*time.Second)
		wait(time.Until(s.Renew.Time()) + time.Second)
		again := w.wantState(store.SubRenewing)
		if again.Token != s.Token || again.Secret != s.Secret || again.Expires != s.Expires {
			t.Error("a renewal in place keeps callback, secret and lease (S-51, S-52)")
		}
		wait(time.Minute)
		if w.wantState(store.SubActive).Expires <= s.Expires {
			t.Error("not renewed")
		}
	})
}

// TestVerificationWhileAsking: the hub verifies inside of the request (S-23, S-36), also if the answer is lost (F22).
func TestVerificationWhileAsking(t *testing.T) {
	for name, status := range map[string]int{"202": 202, "200": 200, "204": 204, "201": 201, "lost": 0} {
		t.Run(name, func(t *testing.T) {
			one(t, []string{hubA}, func(w *world) {
				w.behave["a.example"] = func(w *world, r request) *fetch.Answer {
					if !w.serve(r, "86400", day) {
						t.Error("not confirmed")
					}
					<-time.After(20 * time.Second)
					if status == 0 {
						return nil
					}
					return answer(status)
				}
			}, func(w *world, _ string) {
				wait(time.Second)
				w.wantState(store.SubActive)
				wait(time.Minute)
				w.wantState(store.SubActive)
				if n := len(w.asks()); n != 1 {
					t.Errorf("%d requests", n)
				}
			})
		})
	}
}

// TestVerificationAfterFailure: the request failed and the hub verifies all the same (F22).
func TestVerificationAfterFailure(t *testing.T) {
	one(t, []string{hubA}, func(w *world) {
		var n atomic.Int32
		w.behave["a.example"] = func(w *world, r request) *fetch.Answer {
			if n.Add(1) == 1 {
				later(3*time.Second, func() { w.serve(r, "86400", day) })
			}
			return answer(500)
		}
	}, func(w *world, _ string) {
		wait(time.Second)
		w.wantState(store.SubFailed)
		wait(10 * time.Second)
		w.wantState(store.SubActive)
		if n := len(w.asks()); n != 1 {
			t.Errorf("%d requests", n)
		}
	})
}

// TestBackOff: failures, S-30 and F20.
func TestBackOff(t *testing.T) {
	one(t, []string{hubA}, nil, func(w *world, _ string) {
		wait(time.Hour)
		s := w.wantState(store.SubFailed)
		if !strings.Contains(s.Reason, "no hub at a.example") {
			t.Errorf("reason %q", s.Reason)
		}
		for i, g := range gaps(w.asks()) {
			base := min(5*time.Second<<min(i, 10), 4*time.Minute)
			between(t, fmt.Sprint("gap ", i), g, base, base*5/4)
		}
	})
}

// TestRetryAfter: 429 and 503 say when (S-30).
func TestRetryAfter(t *testing.T) {
	for _, status := range []int{429, 503} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			one(t, []string{hubA}, func(w *world) {
				w.behave["a.example"] = func(*world, request) *fetch.Answer {
					a := refusal(status, "later")
					a.RetryAfter = 20 * time.Minute
					return a
				}
			}, func(w *world, _ string) {
				wait(2 * time.Hour)
				for _, g := range gaps(w.asks()) {
					between(t, "gap", g, 20*time.Minute, 20*time.Minute+time.Second)
				}
				if s := w.wantState(store.SubFailed); !strings.Contains(s.Reason, "later") || s.Profile != 0 {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

// TestRenewalFails: a quarter of what is left at most (S-30), Retry-After does not cost the lease, then lapsed (S-55).
func TestRenewalFails(t *testing.T) {
	var down atomic.Bool
	one(t, []string{hubA}, func(w *world) {
		w.behave["a.example"] = func(w *world, r request) *fetch.Answer {
			if down.Load() {
				a := answer(503)
				a.RetryAfter = time.Hour
				return a
			}
			w.serve(r, "600", 10*time.Minute)
			return answer(202)
		}
	}, func(w *world, topic string) {
		wait(time.Second)
		s := w.wantState(store.SubActive)
		w.asks()
		down.Store(true)
		wait(time.Until(s.Expires.Time()) - 10*time.Second)
		w.wantState(store.SubRenewing)
		rs := w.asks()
		if len(rs) < 3 {
			t.Errorf("only %d requests before the end of the lease", len(rs))
		}
		wait(20 * time.Second)
		if s = w.wantState(store.SubLapsed); s.Reason == "" {
			t.Error("no reason")
		}
		down.Store(false)
		wait(time.Hour + time.Minute)
		w.wantState(store.SubActive)
		w.forgive() // the hub was away for the whole time
	})
}

// TestUnverified: accepted and never verified (F21, S-30).
func TestUnverified(t *testing.T) {
	one(t, []string{hubA}, func(w *world) { w.behave["a.example"] = silent }, func(w *world, _ string) {
		wait(day)
		s := w.wantState(store.SubPending)
		if !strings.HasPrefix(s.Reason, "unverified") {
			t.Errorf("reason %q", s.Reason)
		}
		rs := w.asks()
		for i, g := range gaps(rs) {
			base := min(5*time.Minute<<min(i, 10), time.Hour)
			between(t, fmt.Sprint("gap ", i), g, base, base*11/10)
			if rs[i].form.Get("hub.callback") != rs[0].form.Get("hub.callback") {
				t.Error("asked with another callback")
			}
		}
	})
}

// TestNoStoreNoRequest: what cannot be recorded is not sent (S-23), and goes on when it can.
func TestNoStoreNoRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.behave["a.example"] = good
		w.source(1, hubA)
		w.st.broken = store.ErrFull
		stop := w.run()
		wait(10 * time.Minute)
		if n := len(w.asks()); n != 0 {
			t.Errorf("%d requests", n)
		}
		w.st.mu.Lock()
		w.st.broken = nil
		w.st.mu.Unlock()
		wait(time.Minute)
		w.wantState(store.SubActive)
		stop()
		w.report()
	})
}
