package callback_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"resyncd/destination/subscribe"
	"resyncd/destination/websub"
	"resyncd/store"
)

// cancel unsubscribes all by the operator's hand.
func (r *rig) cancel() {
	r.t.Helper()
	if n, err := r.keeper.Cancel(context.Background(), r.source, ""); n != 1 || err != nil {
		r.t.Fatal(n, err)
	}
}

// TestUnsubscribing: each way in which hubs let go (S-90, S-91, Q-06, Q-12), and what is said to them afterwards (S-68,
// S-92).
func TestUnsubscribing(t *testing.T) {
	t.Parallel()
	lost := func(status int) behaviour {
		return func(*hub, ask) (int, string) { return status, "no such subscription" }
	}
	for name, act := range map[string]behaviour{
		"verified in the background":           modern("86400"),
		"verified inside, 202":                 inside(http.StatusAccepted),
		"verified inside, 204":                 inside(http.StatusNoContent),
		"verified inside, 200":                 inside(http.StatusOK),
		"Google: unknown, 204 (Q-06)":          lost(http.StatusNoContent),
		"thylacine: not subscribed, 400":       lost(http.StatusBadRequest),
		"test tools: not found, 404":           lost(http.StatusNotFound),
		"with a lease in the verification":     inside(http.StatusAccepted, "lease_seconds", "77"), // S-37
		"with a verify_token of its own (0.3)": inside(http.StatusNoContent, "verify_token", "x"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, h, s := subscribed(t, inside(http.StatusAccepted, "lease_seconds", "86400"))
			subscription := h.asks()[0]
			h.become(act)
			r.pass(6 * time.Second) // F23
			r.cancel()
			r.await("the end of the lease", func(s store.Subscription) bool { return s.State == store.SubOff && !s.Expires.Known() })
			as := h.asks()
			if len(as) != 1 || as[0].get("mode") != "unsubscribe" || as[0].get("topic") != topic || as[0].get("callback") != r.base+s.Token ||
				as[0].has("secret") || as[0].has("lease_seconds") {
				t.Errorf("asked %v", as)
			}
			r.afterTheEnd(h, subscription, s)
		})
	}
}

// afterTheEnd: confirmed again, and nothing else.
func (r *rig) afterTheEnd(h *hub, a ask, s store.Subscription) {
	r.t.Helper()
	if h.verify(a, "lease_seconds", "86400") {
		r.t.Error("subscribed again by a verification (S-92)")
	}
	if !h.verifyAs("?", "unsubscribe", a, "again") {
		r.t.Error("the end was not confirmed again (S-92)")
	}
	const body = "<x/>"
	if got := h.post(a.get("callback"), body, websub.SignatureHeader, websub.Sign(websub.SHA256, s.Secret, []byte(body))); got != http.StatusGone {
		r.t.Errorf("content was answered with %d (S-68)", got)
	}
	if n := len(r.inbox()); n != 0 {
		r.t.Errorf("%d deliveries kept", n)
	}
}

// TestStubbornHub: one that never lets go has the rest of its lease (S-91).
func TestStubbornHub(t *testing.T) {
	t.Parallel()
	r, h, s := subscribed(t, inside(http.StatusAccepted, "lease_seconds", "86400"))
	h.become(func(*hub, ask) (int, string) { return http.StatusInternalServerError, "" })
	r.pass(6 * time.Second) // F23
	r.cancel()
	r.await("a failure", func(s store.Subscription) bool { return s.State == store.SubOff && s.Attempts > 0 && h.count() == 2 })
	if got := h.deliver(websub.SHA256, "<x/>"); !slices.Equal(got, []int{200}) {
		t.Errorf("content while leaving: %v", got)
	}
	r.until(s.Expires)
	r.await("the end", func(s store.Subscription) bool { return !s.Expires.Known() })
	r.eventually("content is refused", func() bool { return slices.Equal(h.deliver(websub.SHA256, "<x/>"), []int{410}) })
}

// TestDeniedAnyTime: before the verification, while active, while renewing (S-40 to S-42); Q-12 says so when a topic stops
// naming its hub. It is asked again after an hour and more, and then is as good as any.
func TestDeniedAnyTime(t *testing.T) {
	t.Parallel()
	deny := func(h *hub, a ask) {
		if !h.denied(a, "Gone: topic no longer valid on this hub") {
			t.Error("a denial was not answered with 200 (S-41)")
		}
	}
	good := inside(http.StatusAccepted, "lease_seconds", "86400")
	for name, before := range map[string]func(r *rig, h *hub) ask{
		"instead of a verification": func(r *rig, h *hub) ask {
			h.become(func(h *hub, a ask) (int, string) { deny(h, a); return http.StatusAccepted, "" })
			r.follow(topic, signed, h.url())
			return ask{}
		},
		"while active": func(r *rig, h *hub) ask {
			r.follow(topic, signed, h.url())
			r.awaitState(store.SubActive)
			return h.asks()[0]
		},
		"while renewing": func(r *rig, h *hub) ask {
			r.follow(topic, signed, h.url())
			s := r.awaitState(store.SubActive)
			h.become(func(*hub, ask) (int, string) { return http.StatusAccepted, "" })
			r.until(s.Renew)
			r.await("a renewal", func(s store.Subscription) bool { return s.State == store.SubRenewing && h.count() == 2 })
			return h.asks()[0]
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, r := newHub(t, good), newRig(t)
			if a := before(r, h); a.form != nil {
				deny(h, a)
			}
			s := r.awaitState(store.SubDenied)
			if r.about("asked again", s.Next, time.Hour, 24*time.Hour); !strings.Contains(s.Reason, "no longer valid") {
				t.Errorf("reason %q", s.Reason)
			}
			h.become(good)
			r.until(s.Next)
			r.awaitState(store.SubActive)
		})
	}
}

// denied sends a denial.
func (h *hub) denied(a ask, reason string) bool {
	h.verifyAs("?", "denied", a, "", "reason", reason)
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.verified[len(h.verified)-1] == http.StatusOK
}

// TestUnaskedUnsubscribe: a hub, or whoever learnt the callback, wants us gone (S-93).
func TestUnaskedUnsubscribe(t *testing.T) {
	t.Parallel()
	r, h, s := subscribed(t, inside(http.StatusAccepted, "lease_seconds", "864000"))
	if h.verifyAs("?", "unsubscribe", h.asks()[0], "c") {
		t.Error("confirmed")
	}
	if now := r.sub(); now.State != store.SubActive || now.Next >= s.Renew {
		t.Errorf("nobody looks whether it still is subscribed: %+v", shown(now))
	}
}

// grace waits until the end of the oldest subscription is planned: the keeper does that in a step of its own after its
// successor is active, and would plan it anew from when it is started again.
func (r *rig) grace() {
	r.t.Helper()
	r.eventually("the end of the old one planned", func() bool { s := r.subs()[0]; return !s.Live() || !s.Renew.Known() })
}

// TestHubDisappears: renewals get 404. The lease is used to its end, and a Source that names another hub is
// followed there before the old one is left (S-13).
func TestHubDisappears(t *testing.T) {
	t.Parallel()
	r, old, s := subscribed(t, inside(http.StatusAccepted, "lease_seconds", "86400"))
	old.become(func(*hub, ask) (int, string) { return http.StatusNotFound, "shut down" })
	r.until(s.Renew)
	r.await("a refusal", func(s store.Subscription) bool { return s.State == store.SubRenewing && s.Profile == 1 })
	if got := old.deliver(websub.SHA256, "<x/>"); !slices.Equal(got, []int{200}) {
		t.Errorf("content from the rest of the lease: %v", got)
	}
	next := newHub(t, inside(http.StatusNoContent, "lease_seconds", "86400"))
	r.follow(topic, signed, next.url())
	moved := r.await("the new hub", func(s store.Subscription) bool { return s.Hub == next.url() && s.State == store.SubActive })
	if moved.Token == s.Token || moved.Secret == s.Secret {
		t.Error("the new hub knows what the old one knew (S-21, S-24)")
	}
	r.grace()
	r.pass(time.Minute)
	r.eventually("the old pair left", func() bool { return r.subs()[0].State == store.SubGone })
	if as := old.asks(); as[len(as)-1].get("mode") != "unsubscribe" || as[len(as)-1].get("topic") != topic {
		t.Errorf("the old hub was told %v", as[len(as)-1].form)
	}
}

// TestTopicMoves: a feed that names another self is followed there, and the old pair left (S-13, S-64).
func TestTopicMoves(t *testing.T) {
	t.Parallel()
	r, h, _ := subscribed(t, modern("86400"))
	const moved = "http://source.example/new"
	if got := h.deliver(websub.SHA256, "<x/>", "Link", "<"+moved+">; rel=self, <"+h.url()+">; rel=hub"); !slices.Equal(got, []int{200}) {
		t.Fatalf("content of a topic that moves: %v", got)
	}
	r.eventually("a hint", func() bool { r.mu.Lock(); defer r.mu.Unlock(); return slices.Equal(r.moved, []string{moved}) })
	r.follow(moved, signed, h.url())
	r.await("the new topic", func(s store.Subscription) bool { return s.Topic == moved && s.State == store.SubActive })
	r.grace()
	r.pass(time.Minute)
	r.eventually("the old topic left", func() bool { return r.subs()[0].State == store.SubGone })
	r.eventually("one subscription at the hub", func() bool { return len(h.holds()) == 1 })
}

// TestSilentHub: one that went stale is asked anew, which wakes some of them (Q-17, Q-19, F24).
func TestSilentHub(t *testing.T) {
	t.Parallel()
	r, h, s := subscribed(t, inside(http.StatusAccepted, "lease_seconds", "864000"))
	h.asks()
	r.pass(24 * time.Hour)
	if err := r.keeper.Suspect(context.Background(), s.ID); err != nil {
		t.Fatal(err)
	}
	n := r.await("a new lease", func(n store.Subscription) bool { return n.State == store.SubActive && n.Verified > s.Verified })
	if as := h.asks(); len(as) != 1 || n.ID != s.ID || as[0].get("callback") != r.base+s.Token {
		t.Errorf("asked %v", as)
	}
}

// TestOverrides: topics that name the wrong hub, or none, and whose own name is not what the hub knows (Q-08,
// S-12).
func TestOverrides(t *testing.T) {
	t.Parallel()
	h, r := newHub(t, resourcesyncPush), newRig(t)
	wrong, right := h.srv.URL+"/publish", h.srv.URL+"/subscribe"
	r.follow(topic, subscribe.Plan{}, wrong)
	s := r.climb([]string{"", "", "", ""}, store.SubFailed)
	if !strings.Contains(s.Reason, "Unrecognised mode") {
		t.Errorf("reason %q", s.Reason)
	}
	h.asks()
	r.follow(topic, subscribe.Plan{HubOverride: right, TopicOverride: topic + "&hub"}, wrong)
	s = r.climb([]string{"", "", ""}, store.SubActive)
	if s.Hub != right || s.Topic != topic+"&hub" || s.Kind != store.ChannelFeed {
		t.Errorf("subscribed to %+v", shown(s))
	}
	// A record is seen in the store before the keeper has learnt from it what works.
	// What ends elsewhere may be made known after it.
	r.eventually("the keeper knows it too", func() bool {
		sub := r.sub()
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.told[sub.ID] == sub
	})
	h.asks()
	// Nothing is discovered at all, as with YouTube.
	r.follow("http://source.example/watched", subscribe.Plan{HubOverride: right, TopicOverride: "http://source.example/xml"})
	s = r.await("the configured pair", func(s store.Subscription) bool {
		return s.Hub == right && s.Topic == "http://source.example/xml" && s.State == store.SubActive
	})
	if as := h.rungs(); !slices.Equal(as, []string{"sync/"}) || s.Secret != "" {
		t.Errorf("what works at the hub was not kept for it (T-05): %q", as)
	}
}
