package subscribe

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"resyncd/destination/fetch"
	"resyncd/destination/websub"
	"resyncd/store"
)

// TestLadder: T-05, each rung once, the working one kept and used for renewals and for leaving.
func TestLadder(t *testing.T) {
	for _, tc := range []struct {
		name string
		act  behaviour
		want []string // hub.verify and whether there is a lease, of each request
	}{
		{"plain", good, []string{"/lease"}},
		{"wants verify", func(w *world, r request) *fetch.Answer {
			if r.form.Get("hub.verify") == "" {
				return refusal(400, "hub.verify?")
			}
			return inline(w, r)
		}, []string{"/lease", "sync/lease"}},
		{"resourcesync_push", old03, []string{"/lease", "sync/lease", "sync/"}},
		{"strict", strict, []string{"/lease", "sync/lease", "sync/", "/"}},
		{"refuses all", func(*world, request) *fetch.Answer { return answer(404) }, []string{"/lease", "sync/lease", "sync/", "/"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			one(t, []string{hubA}, func(w *world) { w.behave["a.example"] = tc.act }, func(w *world, _ string) {
				wait(10 * time.Minute)
				rs := w.asks()
				if len(rs) != len(tc.want) {
					t.Fatalf("%d requests, want %d", len(rs), len(tc.want))
				}
				for i, r := range rs {
					got := r.form.Get("hub.verify") + "/"
					if r.form.Has("hub.lease_seconds") {
						got += "lease"
					}
					if got != tc.want[i] {
						t.Errorf("request %d: %q, want %q", i, got, tc.want[i])
					}
				}
				if tc.name == "refuses all" {
					w.wantState(store.SubFailed)
					wait(time.Hour)
					if n := len(w.asks()); n != len(tc.want) {
						t.Errorf("%d requests after an hour", n)
					}
					return
				}
				s := w.wantState(store.SubActive)
				if settled(s.Profile) != len(tc.want)-1 {
					t.Errorf("profile %d", s.Profile)
				}
				wait(time.Until(s.Renew.Time()) + time.Minute)
				if n := len(w.asks()); n != 1 {
					t.Errorf("%d requests for a renewal", n)
				}
				w.wantState(store.SubActive)
			})
		})
	}
}

// TestRefusalAfterConfirmation: a renewal that the hub verifies and then refuses leaves the lease that there was (S-30).
func TestRefusalAfterConfirmation(t *testing.T) {
	var fail atomic.Bool
	one(t, []string{hubA}, func(w *world) {
		w.behave["a.example"] = func(w *world, r request) *fetch.Answer {
			if !w.verify(r, "86400") {
				t.Error("not confirmed")
			}
			if fail.Load() {
				return answer(500)
			}
			w.hold(r, day)
			return answer(204)
		}
	}, func(w *world, _ string) {
		wait(time.Second)
		s := w.wantState(store.SubActive)
		fail.Store(true)
		wait(time.Until(s.Renew.Time()) + time.Second)
		if r := w.wantState(store.SubRenewing); r.Expires != s.Expires || r.Verified != s.Verified || r.Attempts == 0 {
			t.Errorf("%+v\nafter\n%+v", r, s)
		}
		fail.Store(false)
		wait(time.Hour)
		w.wantState(store.SubActive)
	})
	// TestLadder/resourcesync_push has the same for a first request.
}

// TestAssumedLease: 204 and no verification (S-30, S-53).
func TestAssumedLease(t *testing.T) {
	one(t, []string{hubA}, func(w *world) { w.behave["a.example"] = skipping }, func(w *world, _ string) {
		wait(time.Minute)
		w.wantState(store.SubPending)
		wait(6 * time.Minute)
		s := w.wantState(store.SubActive)
		if s.Granted != 86400 || s.Verified.Known() || !strings.Contains(s.Reason, "assumed") {
			t.Errorf("%+v", s)
		}
		wait(10 * day)
		w.wantState(store.SubActive)
		if n := len(w.asks()); n > 25 {
			t.Errorf("%d requests in ten days of one day's leases", n)
		}
	})
}

// TestRedirects: 301, 302 and 303 fail with a reason and without the other rungs, and the reason names where they lead,
// however it is written (S-30, F26).
func TestRedirects(t *testing.T) {
	for i, tc := range []struct {
		status   int
		location string
		reason   string
	}{
		{301, "https://c.example/x?y=z", "it names https://c.example/x?…"},
		{302, "https://c.example/x", "it names https://c.example/x"},
		{303, "/moved", "it names https://a.example/moved"},
		{301, "moved?y=z", "it names https://a.example/moved?…"},
		{302, "//c.example/hub", "it names https://c.example/hub"},
		{303, "?again", "it names https://a.example/hub?…"},
		{301, "HTTPS://C.example/", "it names https://C.example/"},
		{301, "mailto:x@c.example", "it names (a URL that cannot be read)"},
		{302, "%zz", "it names (a URL that cannot be read)"},
		{300, "", "set `hub` to its right address"},
		{307, "/x", "it names https://a.example/x"}, // that was not followed
	} {
		t.Run(fmt.Sprint(tc.status, "-", i), func(t *testing.T) {
			one(t, []string{hubA}, func(w *world) {
				w.behave["a.example"] = func(*world, request) *fetch.Answer {
					return &fetch.Answer{Status: tc.status, Header: http.Header{"Location": {tc.location}}, URL: hubA}
				}
			}, func(w *world, _ string) {
				wait(50 * time.Minute)
				s := w.wantState(store.SubFailed)
				if n := len(w.asks()); n != 1 || !strings.Contains(s.Reason, "redirects") || !strings.HasSuffix(s.Reason, tc.reason) {
					t.Errorf("%d requests, reason %q", n, s.Reason)
				}
			})
		})
	}
}

// TestProfileOfHub: what works at a hub is where the next channel there begins, also after a restart, and no other hub
// is asked so (T-05).
func TestProfileOfHub(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.behave["a.example"], w.behave["b.example"] = old03, good
		rungs := func() string {
			var out []string
			for _, r := range w.asks() {
				out = append(out, fmt.Sprint(r.host[:1], r.form.Get("hub.verify"), r.form.Has("hub.lease_seconds")))
			}
			return strings.Join(out, " ")
		}
		stop := w.run()
		w.source(1, hubA)
		wait(time.Minute)
		if got := rungs(); got != "atrue asynctrue asyncfalse" {
			t.Errorf("the first channel was asked for as %s", got)
		}
		w.source(2, hubA)
		w.source(3, hubB)
		wait(time.Minute)
		stop()
		if got := rungs(); got != "asyncfalse btrue" && got != "btrue asyncfalse" {
			t.Errorf("the next ones were asked for as %s", got)
		}
		stop = w.run()
		defer stop()
		wait(time.Minute)
		w.source(4, hubA)
		wait(time.Minute)
		if got := rungs(); got != "asyncfalse" {
			t.Errorf("after a restart: %s", got)
		}
		w.report()
	})
}

// TestDenied: S-40 to S-42.
func TestDenied(t *testing.T) {
	one(t, []string{hubA}, func(w *world) { w.behave["a.example"] = denying }, func(w *world, _ string) {
		wait(20 * day)
		s := w.wantState(store.SubDenied)
		if s.Reason != "the hub denied the subscription: not you" || s.Secret == "" {
			t.Errorf("%+v", s)
		}
		gs := gaps(w.asks())
		for i, g := range gs {
			base := min(time.Hour<<min(i, 10), day)
			between(t, fmt.Sprint("gap ", i), g, base, base*11/10+time.Minute)
		}
		if len(gs) < 15 {
			t.Errorf("asked only %d times", len(gs))
		}
	})
}

// TestDeniedWhileActive: an unauthenticated GET ends nothing for ever (F25).
func TestDeniedWhileActive(t *testing.T) {
	one(t, []string{hubA}, func(w *world) { w.behave["a.example"] = good }, func(w *world, _ string) {
		wait(time.Minute)
		s := w.wantState(store.SubActive)
		if err := w.k.Denied(t.Context(), s, "go\x1b[31m away "+s.Token+" "+s.Secret); err != nil {
			t.Fatal(err)
		}
		d := w.wantState(store.SubDenied)
		if d.Token != s.Token || d.Secret != s.Secret || d.Expires != s.Expires {
			t.Errorf("%+v", d)
		}
		for _, bad := range []string{s.Token, s.Secret, "\x1b"} {
			if strings.Contains(d.Reason, bad) {
				t.Errorf("reason %q", d.Reason)
			}
		}
		wait(30 * time.Minute)
		w.wantState(store.SubDenied)
		wait(time.Hour)
		w.wantState(store.SubActive)
	})
}

// TestVerifyTable: S-31, S-32, S-35, S-38, S-92, S-93 by state.
func TestVerifyTable(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, tc := range []struct {
		state              store.SubscriptionState
		asked              bool
		subscribe, parting bool
	}{
		{store.SubWanted, false, false, false}, {store.SubWanted, true, true, false}, {store.SubRequesting, true, true, false},
		{store.SubPending, true, true, false}, {store.SubActive, true, true, false}, {store.SubRenewing, true, true, false},
		{store.SubLapsed, true, true, false}, {store.SubDenied, true, true, false}, {store.SubFailed, true, true, false},
		{store.SubUnsubscribing, true, false, true}, {store.SubOff, true, false, true}, {store.SubGone, true, false, true},
	} {
		for _, mode := range []websub.Mode{websub.ModeSubscribe, websub.ModeUnsubscribe, websub.ModePublish} {
			for _, topic := range []string{"https://s/t", "https://s/t/"} {
				w := newWorld(t, 1)
				m := w.k.moment()
				s := newRecord(channelKey{1, 1, store.ChannelChange}, "https://s/t", hubA, true, m)
				s.State, s.Asked = tc.state, 1000
				if tc.asked {
					s.Requested = plus(m.now, -time.Hour)
				}
				if s.Live() {
					s.Verified, s.Expires, s.Renew, s.Granted = plus(m.now, -time.Minute), plus(m.now, time.Hour), plus(m.now, time.Minute), 3660
					s.Next = s.Renew
				}
				if err := w.st.AddSubscription(ctx, &s); err != nil {
					t.Fatal(err)
				}
				got, err := w.k.Verify(ctx, s, websub.Verification{Mode: mode, Topic: topic, Lease: 600})
				want := topic == s.Topic && (mode == websub.ModeSubscribe && tc.subscribe || mode == websub.ModeUnsubscribe && tc.parting)
				if err != nil || got != want {
					t.Errorf("%s %s %s: %v, %v, want %v", tc.state, mode, topic, got, err, want)
				}
				after, _ := w.st.Subscription(ctx, s.ID)
				if want && mode == websub.ModeSubscribe && (after.State != store.SubActive || after.Expires > plus(w.k.now(), 10*time.Minute)) {
					t.Errorf("%s: recorded %+v", tc.state, after)
				}
				if !want && !s.Live() && after != s {
					t.Errorf("%s %s: a verification that was refused changed %+v to %+v (S-38)", tc.state, mode, s, after)
				}
				if s.Live() && mode == websub.ModeUnsubscribe && want == got && topic == s.Topic && after.Next > w.k.now() {
					t.Errorf("%s: nobody looks whether the subscription is still there (S-93)", tc.state)
				}
			}
		}
	}
}

// TestForgedVerification cannot put a renewal off (S-38, S-54), only bring it forward.
func TestForgedVerification(t *testing.T) {
	one(t, []string{hubA}, func(w *world) { w.behave["a.example"] = inline }, func(w *world, topic string) {
		wait(time.Second)
		s := w.wantState(store.SubActive)
		say := func(lease int64) store.Subscription {
			ok, err := w.k.Verify(t.Context(), s, websub.Verification{Mode: websub.ModeSubscribe, Topic: topic, Lease: lease})
			if !ok || err != nil {
				t.Errorf("%v, %v (S-35)", ok, err)
			}
			return w.the()
		}
		wait(5 * day)
		if got := say(30 * 86400); got.Renew != s.Renew || got.Expires != s.Expires {
			t.Errorf("put off: %+v", got)
		}
		if got := say(3600); got.Granted != 3600 || got.Verified != store.MicrosOf(time.Now()) {
			t.Errorf("the parts of a lease disagree: %+v", got)
		}
		if got := w.the(); got.Expires != store.MicrosOf(time.Now().Add(time.Hour)) || got.Renew >= got.Expires {
			t.Errorf("a shorter lease is honoured: %+v", got)
		}
		for range 100 {
			say(1)
		}
		w.asks()
		wait(time.Minute)
		if n := len(w.asks()); n != 1 {
			t.Errorf("%d requests after a flood of forgeries", n)
		}
	})
}

// TestUnaskedUnsubscribe: soon after a request the check that it makes us do waits, and is not forgotten (S-93).
func TestUnaskedUnsubscribe(t *testing.T) {
	one(t, []string{hubA}, func(w *world) { w.behave["a.example"] = inline }, func(w *world, topic string) {
		wait(time.Second)
		s := w.wantState(store.SubActive)
		w.asks()
		for range 100 {
			wait(time.Second)
			if ok, err := w.k.Verify(t.Context(), s, websub.Verification{Mode: websub.ModeUnsubscribe, Topic: topic}); ok || err != nil {
				t.Errorf("%v, %v", ok, err)
			}
		}
		if got := w.wantState(store.SubActive); got.Next != plus(s.Requested, checkAgain) || got.Renew != s.Renew {
			t.Errorf("planned %+v", got)
		}
		wait(checkAgain)
		if n := len(w.asks()); n != 1 {
			t.Errorf("%d requests", n)
		}
		if got := w.wantState(store.SubActive); got.Next < plus(w.k.now(), time.Hour) {
			t.Errorf("it checks again: %+v", got)
		}
	})
}

// TestLeases: F23, S-53, S-54.
func TestLeases(t *testing.T) {
	for _, tc := range []struct {
		text    string
		granted int64
		flagged bool
	}{
		{"0", 86400, true}, {"-1", 86400, true}, {"1", 1, true}, {"10000000000", 30 * 86400, true}, {"", 86400, true}, {"abc", 86400, true},
		{"1000000000", 30 * 86400, true}, {"61", 61, false}, {"59", 59, true}, {"99999999999999999999", 30 * 86400, true}, {"3600.5", 86400, true},
	} {
		t.Run("lease "+tc.text, func(t *testing.T) {
			one(t, []string{hubA}, func(w *world) {
				w.behave["a.example"] = func(w *world, r request) *fetch.Answer { w.verify(r, tc.text); return answer(202) }
			}, func(w *world, _ string) {
				wait(time.Millisecond)
				s := w.wantState(store.SubActive)
				if s.Granted != tc.granted || tc.flagged != (s.Reason != "") {
					t.Errorf("granted %d, reason %q", s.Granted, s.Reason)
				}
				lease := time.Duration(tc.granted) * time.Second
				between(t, "renewal", s.Renew.Time().Sub(s.Verified.Time()), max(lease/2, gap), max(lease*8/10, gap))
				wait(10 * time.Minute)
				if n := len(w.asks()); n > 121 {
					t.Errorf("%d requests in ten minutes", n)
				}
			})
		})
	}
}
