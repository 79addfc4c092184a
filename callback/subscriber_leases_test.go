package callback_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"resyncd/destination/subscribe"
	"resyncd/destination/websub"
	"resyncd/store"
)

var signed = subscribe.Plan{Secret: true}

// subscribed is a rig with one active subscription, with a secret, to a feed at a hub.
func subscribed(t *testing.T, act behaviour) (*rig, *hub, store.Subscription) {
	t.Helper()
	return subscribedAs(t, signed, act)
}

func subscribedAs(t *testing.T, p subscribe.Plan, act behaviour) (*rig, *hub, store.Subscription) {
	t.Helper()
	h, r := newHub(t, act), newRig(t)
	r.follow(topic, p, h.url())
	s := r.awaitState(store.SubActive)
	r.eventually("a lease at the hub", func() bool { return len(h.holds()) == 1 })
	return r, h, s
}

// until lets time pass up to an instant, and a second beyond.
func (r *rig) until(at store.Micros) {
	r.t.Helper()
	r.pass(at.Time().Sub(r.now()) + time.Second)
}

// about checks how long there is until an instant.
func (r *rig) about(what string, at store.Micros, low, high time.Duration) {
	r.t.Helper()
	if d := at.Time().Sub(r.now()); d < low-time.Minute || d > high {
		r.t.Errorf("%s in %v, want %v to %v", what, d, low, high)
	}
}

// TestLeaseAsGranted: none, empty, 0, below, above all measure, no number (S-50, S-53, S-54, Q-04, Q-11).
func TestLeaseAsGranted(t *testing.T) {
	t.Parallel()
	const assumed, longest = 86400, 30 * 86400
	for text, want := range map[string]int64{
		"-": assumed, "": assumed, "0": assumed, "-1": assumed, "abc": assumed, "86400.5": assumed, "1e9": assumed, "+5": assumed,
		"300": 300, " 600 ": 600, "2678400": longest, "10000000000": longest, "9223372036854775808": longest, "00300": 300,
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			more := []string{"lease_seconds", text}
			if text == "-" {
				more = nil
			}
			r, _, s := subscribed(t, inside(http.StatusAccepted, more...))
			if s.Granted != want || s.Expires != s.Verified+store.Micros(want*1e6) {
				t.Errorf("taken as %d s, for %v; want %d s", s.Granted, s.Expires.Time().Sub(s.Verified.Time()), want)
			}
			lease := time.Duration(want) * time.Second
			r.about("renewed", s.Renew, lease/2, lease*8/10) // never at once
		})
	}
}

// TestRenewalInPlace: callback and secret stay, so a hub that keeps the first secret goes on being believed (S-52, Q-11,
// Q-13), and one that takes the new one too.
func TestRenewalInPlace(t *testing.T) {
	t.Parallel()
	for name, keeps := range map[string]bool{"keeps the first secret": true, "takes the last one": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, h, s := subscribed(t, func(h *hub, a ask) (int, string) {
				if !h.verify(a, "lease_seconds", "86400") {
					return http.StatusConflict, ""
				}
				h.hold(a, keeps)
				return http.StatusAccepted, ""
			})
			for range 3 {
				h.asks()
				r.until(s.Renew)
				before := s
				s = r.await("a renewal", func(s store.Subscription) bool { return s.State == store.SubActive && s.Verified > before.Verified })
				if s.Token != before.Token || s.Secret != before.Secret || s.ID != before.ID || s.Expires <= before.Expires {
					t.Fatalf("renewed %+v\nto %+v", shown(before), shown(s))
				}
				if got := h.deliver(websub.SHA1, "<x/>"); !slices.Equal(got, []int{200}) {
					t.Errorf("content after a renewal: %v", got)
				}
			}
			if n := len(r.subs()); n != 1 {
				t.Errorf("%d subscriptions", n)
			}
		})
	}
}

// TestUnaskedVerification: 0.3 hubs refresh by themselves, Google's looks after errors (S-35, Q-06, Q-07).
func TestUnaskedVerification(t *testing.T) {
	t.Parallel()
	r, h, s := subscribed(t, inside(http.StatusAccepted, "lease_seconds", "86400"))
	a := h.asks()[0]
	for i, more := range [][]string{{"lease_seconds", "86400"}, {"verify_token", "theirs"}, {"lease_seconds", ""}, {"lease_seconds", "2678400"}} {
		if !h.verify(a, more...) {
			t.Errorf("while active, verification %d was not confirmed", i)
		}
		if now := r.sub(); now.State != store.SubActive || now.Expires > s.Expires || now.Renew > s.Renew {
			t.Errorf("verification %d put the renewal off: %+v", i, shown(now))
		}
	}
	// A renewal that it accepts and does nothing about; then it refreshes after all.
	h.become(func(*hub, ask) (int, string) { return http.StatusAccepted, "" })
	r.until(s.Renew)
	s = r.await("a renewal without effect", func(s store.Subscription) bool { return s.State == store.SubRenewing && h.count() > 0 })
	if got := h.deliver(websub.SHA1, "<x/>"); !slices.Equal(got, []int{200}) {
		t.Errorf("content while renewing: %v", got)
	}
	for _, state := range []store.SubscriptionState{store.SubRenewing, store.SubLapsed} {
		if state == store.SubLapsed {
			r.until(r.sub().Renew)
			r.awaitState(store.SubRenewing)
			r.until(s.Expires)
			r.awaitState(store.SubLapsed)
		}
		if !h.verify(a, "lease_seconds", "86400") {
			t.Errorf("%s: a refresh was not confirmed", state)
		}
		s = r.awaitState(store.SubActive)
		r.about("expiry", s.Expires, 24*time.Hour, 24*time.Hour)
	}
}

// TestVerifiedTwice: the hub lost our answer (S-35).
func TestVerifiedTwice(t *testing.T) {
	t.Parallel()
	r, h, s := subscribed(t, func(h *hub, a ask) (int, string) {
		if !h.verify(a, "lease_seconds", "600") || !h.verify(a, "lease_seconds", "600", "verify_token", "x") {
			return http.StatusConflict, ""
		}
		h.hold(a, false)
		return http.StatusNoContent, ""
	})
	if s.Granted != 600 || len(r.subs()) != 1 || h.count() != 1 {
		t.Errorf("%d requests, %+v", h.count(), shown(s))
	}
}

// TestHubIsBusy: 429 and 503 say when (S-30, Q-06, Q-07), also at a renewal, and what is subscribed goes on.
func TestHubIsBusy(t *testing.T) {
	t.Parallel()
	overload := func(_ *hub, a ask) (int, string) {
		a.reply.Set("Retry-After", "120")
		return http.StatusServiceUnavailable, "overloaded"
	}
	h, r := newHub(t, overload), newRig(t)
	r.follow(topic, signed, h.url())
	s := r.awaitState(store.SubFailed)
	if r.about("asked again", s.Next, 2*time.Minute, 2*time.Minute); !strings.Contains(s.Reason, "503") || s.Profile != 0 {
		t.Errorf("profile %d, reason %q", s.Profile, s.Reason)
	}
	h.become(inside(http.StatusAccepted, "lease_seconds", "86400"))
	r.until(s.Next)
	s = r.awaitState(store.SubActive)
	h.become(overload)
	h.asks()
	r.until(s.Renew)
	s = r.await("a busy hub", func(s store.Subscription) bool {
		return s.State == store.SubRenewing && strings.Contains(s.Reason, "503")
	})
	r.about("asked again", s.Next, 2*time.Minute, 2*time.Minute)
	if got := h.deliver(websub.SHA1, "<x/>"); !slices.Equal(got, []int{200}) {
		t.Errorf("content meanwhile: %v", got)
	}
}

// TestRedirectedRequest: 307 and 308 repeat the request, all others fail without becoming a GET (S-30, F26).
func TestRedirectedRequest(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		status   int
		location string
		ok       bool
	}{
		{307, "%s/moved", true}, {308, "%s/moved", true}, {307, "moved?x=y", true}, {308, "/moved", true},
		{301, "%s/moved", false}, {302, "/moved", false}, {303, "moved?x=y", false}, {300, "/moved", false},
		{307, "", false}, {308, "/hub", false}, // to itself
	} {
		t.Run(fmt.Sprint(tc.status, " ", tc.location), func(t *testing.T) {
			t.Parallel()
			h, r := newHub(t, func(h *hub, a ask) (int, string) {
				if a.path == "/moved" {
					return inside(http.StatusAccepted, "lease_seconds", "86400")(h, a)
				}
				if tc.location != "" {
					a.reply.Set("Location", strings.Replace(tc.location, "%s", h.srv.URL, 1))
				}
				return tc.status, ""
			}), newRig(t)
			r.follow(topic, signed, h.url())
			if tc.ok {
				r.awaitState(store.SubActive)
				if as := h.asks(); len(as) != 2 || as[0].form.Encode() != as[1].form.Encode() {
					t.Errorf("asked %d times, not the same", len(as))
				}
				return
			}
			s := r.awaitState(store.SubFailed)
			if r.about("asked again", s.Next, time.Hour, 66*time.Minute); h.count() != 1 {
				t.Errorf("asked %d times", h.count())
			}
			if tc.status < 304 && !strings.Contains(s.Reason, h.srv.URL+"/moved") {
				t.Errorf("the reason does not name where it went: %q", s.Reason)
			}
		})
	}
}

// TestNeverVerifies: asked again with back-off, with the same callback and secret (S-30, Q-20).
func TestNeverVerifies(t *testing.T) {
	t.Parallel()
	h, r := newHub(t, func(*hub, ask) (int, string) { return http.StatusAccepted, "" }), newRig(t)
	r.follow(topic, signed, h.url())
	for n, wait := range []time.Duration{5 * time.Minute, 10 * time.Minute, 20 * time.Minute, 40 * time.Minute, time.Hour, time.Hour} {
		s := r.await("pending", func(s store.Subscription) bool { return s.State == store.SubPending && s.Attempts == n+1 })
		r.about("asked again", s.Next, wait, wait*11/10)
		r.until(s.Next)
	}
	s := r.await("another request", func(s store.Subscription) bool { return s.State == store.SubPending && s.Attempts == 7 })
	h.become(modern("3600"))
	r.until(s.Next)
	r.awaitState(store.SubActive)
	as := h.asks()
	for _, a := range as {
		if a.get("callback") != as[0].get("callback") || a.get("secret") != as[0].get("secret") {
			t.Error("another callback or secret")
		}
	}
}

// TestDoesWithoutVerification: 204 and nothing more is taken for a lease, once the hub left its time to verify unused
// (S-30, Q-09).
func TestDoesWithoutVerification(t *testing.T) {
	t.Parallel()
	h, r := newHub(t, func(h *hub, a ask) (int, string) { h.hold(a, false); return http.StatusNoContent, "" }), newRig(t)
	r.follow(topic, signed, h.url())
	s := r.awaitState(store.SubPending)
	r.until(s.Next)
	s = r.awaitState(store.SubActive)
	if s.Granted != 86400 || s.Verified.Known() || !strings.Contains(s.Reason, "assumed") || h.count() != 1 {
		t.Errorf("%d requests, %+v", h.count(), shown(s))
	}
	r.until(s.Renew)
	r.await("a renewal", func(n store.Subscription) bool { return n.State == store.SubActive && n.Expires > s.Expires })
}

// TestOldServer: a hub of HTTP/1.0 that verifies inside, says 202 without a length and hangs up.
func TestOldServer(t *testing.T) {
	t.Parallel()
	h, r := newHub(t, nil), newRig(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	h.later(func() {
		c, err := l.Accept()
		if err != nil {
			return // the test is over
		}
		defer c.Close()
		req, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil || req.ParseForm() != nil {
			t.Errorf("no request: %v", err)
			return
		}
		text := "HTTP/1.0 409 Conflict\r\n\r\n"
		if h.verify(ask{form: req.PostForm}, "lease_seconds", "600") {
			text = "HTTP/1.0 202 Accepted\r\nServer: BaseHTTP/0.3 Python/2.5\r\n\r\nok"
		}
		_, _ = io.WriteString(c, text)
	})
	r.follow(topic, signed, "http://"+l.Addr().String()+"/")
	if s := r.awaitState(store.SubActive); s.Granted != 600 || s.Reason != "" {
		t.Errorf("%+v", shown(s))
	}
}
