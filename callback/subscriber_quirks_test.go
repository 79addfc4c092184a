package callback_test

import (
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"resyncd/destination/subscribe"
	"resyncd/destination/websub"
	"resyncd/store"
)

const topic = "http://source.example/feed?format=atom&q=ü"

// quirk is a hub as it is (websub.md 9), and what comes of asking it.
type quirk struct {
	act     behaviour
	rungs   []string // of each request, until it is settled: each step once (T-05)
	state   store.SubscriptionState
	granted int64
	// signs is with what the hub signs, MethodNone for not at all. answer is what we say to content.
	signs  websub.Method
	answer int
}

var quirks = map[string]quirk{
	"Q-02 Q-03 Q-04 resourcesync_push": {
		act: resourcesyncPush, rungs: []string{"/lease", "sync/lease", "sync/"}, state: store.SubActive, granted: 86400,
		answer: 403, // it knows no HMAC: `secret: off` makes its pushes hints (S-81, S-87)
	},
	"Q-05 Q-06 Google, old": {
		act: googleOld, rungs: []string{"/lease", "sync/lease"}, state: store.SubActive, granted: 432000, signs: websub.SHA1, answer: 200,
	},
	"Q-07 Google, live": {
		act: modern("432000"), rungs: []string{"/lease"}, state: store.SubActive, granted: 432000, signs: websub.SHA1, answer: 200,
	},
	"Q-09 Superfeedr, asked to verify": {
		act: func(h *hub, a ask) (int, string) {
			if a.get("callback") == "" || a.get("topic") == "" || len(a.get("topic")) > 2048 {
				return http.StatusUnprocessableEntity, "hub.topic"
			}
			return inside(http.StatusNoContent)(h, a) // whose leases do not expire
		},
		rungs: []string{"/lease"}, state: store.SubActive, granted: 86400, signs: websub.SHA1, answer: 200,
	},
	"Q-10 Switchboard": {
		act: modern("608400"), rungs: []string{"/lease"}, state: store.SubActive, granted: 608400, signs: websub.SHA256, answer: 200,
	},
	"Q-11 meow.tf": {
		act: meow, rungs: []string{"/lease", "sync/lease", "sync/"}, state: store.SubActive, granted: 86400, signs: websub.SHA256, answer: 200,
	},
	"Q-12 thylacine": {
		act: thylacine, rungs: []string{"/lease"}, state: store.SubActive, granted: 864000, signs: websub.SHA512, answer: 200,
	},
	"Q-13 hemerajs": { // wants JSON back: not supported, and seen to be so
		act: func(h *hub, a ask) (int, string) {
			h.verify(a, "lease_seconds", a.get("lease_seconds"))
			return http.StatusForbidden, "Subscriber has return an invalid answer"
		},
		rungs: []string{"/lease", "sync/lease", "sync/", "/"}, state: store.SubFailed,
	},
	"Q-14 flask-websub": {
		act: modern("864000"), rungs: []string{"/lease"}, state: store.SubActive, granted: 864000, signs: websub.SHA512, answer: 200,
	},
	"Q-15 PuSHPress": {
		act: func(h *hub, a ask) (int, string) {
			switch {
			case a.get("verify") == "":
				return http.StatusBadRequest, "hub.verify"
			case a.get("topic") != topic:
				return http.StatusNotFound, "not ours"
			}
			return inside(http.StatusNoContent, "lease_seconds", a.get("lease_seconds"), "verify_token", "")(h, a)
		},
		rungs: []string{"/lease", "sync/lease"}, state: store.SubActive, granted: 864000, signs: websub.SHA1, answer: 200,
	},
	"Q-16 Webubbub": {
		act: modern("86400"), rungs: []string{"/lease"}, state: store.SubActive, granted: 86400, signs: websub.SHA256, answer: 200,
	},
	"Q-17 Mastodon": { // never delivers: that is for Suspect and the poll
		act: modern("604800"), rungs: []string{"/lease"}, state: store.SubActive, granted: 604800, signs: websub.SHA1, answer: 200,
	},
	"Q-18 Twitch, shut down": {
		act:   func(*hub, ask) (int, string) { return http.StatusNotFound, "gone" },
		rungs: []string{"/lease", "sync/lease", "sync/", "/"}, state: store.SubFailed,
	},
	"Q-20 kill-the-newsletter": {
		act:   func(*hub, ask) (int, string) { return http.StatusAccepted, "" },
		rungs: []string{"/lease"}, state: store.SubPending,
	},
	"knows nothing but the four parameters": {
		act: func(h *hub, a ask) (int, string) {
			if len(a.form) > 4 {
				return http.StatusBadRequest, "unknown parameter"
			}
			return inside(http.StatusAccepted, "lease_seconds", "3600")(h, a)
		},
		rungs: []string{"/lease", "sync/lease", "sync/", "/"}, state: store.SubActive, granted: 3600, signs: websub.SHA384, answer: 200,
	},
	"answers 200 before it verifies": {
		act: func(h *hub, a ask) (int, string) {
			_, text := modern("7200")(h, a)
			return http.StatusOK, text
		},
		rungs: []string{"/lease"}, state: store.SubActive, granted: 7200, signs: websub.SHA256, answer: 200,
	},
	"says 204 and verifies later": {
		act: func(h *hub, a ask) (int, string) {
			_, text := modern("7200")(h, a)
			return http.StatusNoContent, text
		},
		rungs: []string{"/lease"}, state: store.SubActive, granted: 7200, signs: websub.SHA256, answer: 200,
	},
	"says 204 and never verifies (S-30)": {
		act: func(h *hub, a ask) (int, string) {
			h.hold(a, false)
			return http.StatusNoContent, ""
		},
		rungs: []string{"/lease"}, state: store.SubPending, signs: websub.SHA1, answer: 200, // before it is assumed (S-70)
	},
}

// resourcesyncPush is hub.py: one address for publishers, one for subscribers.
func resourcesyncPush(h *hub, a ask) (int, string) {
	switch {
	case a.path == "/publish":
		return http.StatusBadRequest, "Unrecognised mode"
	case a.get("verify") != "sync" && a.get("verify") != "async":
		return http.StatusBadRequest, "Bad request: Unsupported verification mode"
	case !h.verify(a), a.has("lease_seconds"): // "…" + time.time(), after it verified
		return http.StatusConflict, "Subscription verification failed"
	}
	a.form.Del("hub.secret")
	h.hold(a, false)
	return http.StatusNoContent, ""
}

// googleOld is main.py of 2009.
func googleOld(h *hub, a ask) (int, string) {
	if a.get("verify") == "" {
		return http.StatusBadRequest, "Invalid value for hub.verify: "
	}
	if a.get("mode") == "unsubscribe" && !slices.Contains(h.holds(), a.get("callback")) {
		return http.StatusNoContent, ""
	}
	u, err := url.Parse(a.get("callback"))
	if err != nil {
		return http.StatusBadRequest, "Invalid parameter: hub.callback"
	}
	const challenge = "7GxuVrTKcVzm-6zXxCq_0Ow2bHJcW3kA7rzXoQ0c"
	u.RawQuery = url.Values{ // whatever it was
		"hub.mode": {a.get("mode")}, "hub.topic": {a.get("topic")}, "hub.challenge": {challenge},
		"hub.lease_seconds": {"432000"}, "hub.verify_token": {""},
	}.Encode()
	if status, body := h.get(u.String()); status/100 != 2 || body != challenge {
		return http.StatusConflict, "Could not confirm"
	}
	h.hold(a, false)
	return http.StatusNoContent, ""
}

// meow is meow.tf/websub: its maximum is a day, and it tells nobody what it grants.
func meow(h *hub, a ask) (int, string) {
	if a.has("lease_seconds") && a.get("lease_seconds") != "86400" {
		return http.StatusBadRequest, "hub.lease_seconds is above the maximum"
	}
	h.later(func() {
		if h.verify(a, "lease_seconds", "0") {
			h.hold(a, true)
		}
	})
	return http.StatusAccepted, ""
}

// thylacine is thylacine/websub-hub: challenges in base64, and warnings in the answer.
func thylacine(h *hub, a ask) (int, string) {
	if a.get("mode") == "unsubscribe" && !slices.Contains(h.holds(), a.get("callback")) {
		return http.StatusBadRequest, "not subscribed"
	}
	h.later(func() {
		if h.verifyAs("?", a.get("mode"), a, "u/9+Zm8vYmFyK2Jheg==", "lease_seconds", "864000") {
			h.hold(a, false)
		}
	})
	return http.StatusAccepted, "[\"this hub clamps leases\"]"
}

// TestOldHubs: what each hub makes of a subscription, with a secret and as `push: auto` has it.
func TestOldHubs(t *testing.T) {
	t.Parallel()
	for name, q := range quirks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHub(t, q.act)
			r := newRig(t)
			r.follow(topic, subscribe.Plan{Secret: true}, h.url())
			s := r.climb(q.rungs, q.state)
			if got := h.rungs(); !slices.Equal(got, q.rungs) {
				t.Fatalf("asked as %q, want %q", got, q.rungs)
			}
			first := h.asks()[0]
			if first.get("topic") != topic || first.get("callback") != r.base+s.Token || first.get("secret") != s.Secret || first.get("mode") != "subscribe" {
				t.Errorf("asked %v", first.form)
			}
			if q.state == store.SubActive && s.Profile != len(q.rungs)-1 {
				t.Errorf("profile %d", s.Profile)
			}
			if q.granted != 0 && s.Granted != q.granted {
				t.Errorf("granted %d, want %d", s.Granted, q.granted)
			}
			const body = "<feed xmlns='http://www.w3.org/2005/Atom'/>"
			if q.answer == 0 {
				return
			}
			r.eventually("a lease at the hub", func() bool { return len(h.holds()) == 1 })
			if got := h.deliver(q.signs, body); len(got) != 1 || got[0] != q.answer {
				t.Errorf("content was answered with %v", got)
			}
			if kept := r.inbox(); (len(kept) == 1 && kept[0].Signed && string(kept[0].Body) == body) != (q.answer == 200) {
				t.Errorf("kept %+v", kept)
			}
		})
	}
}

// climb waits until the last of the rungs was asked for, and what came of it.
func (r *rig) climb(rungs []string, want store.SubscriptionState) store.Subscription {
	r.t.Helper()
	for n := 1; n < len(rungs); n++ {
		r.await("a refusal", func(s store.Subscription) bool { return s.State == store.SubFailed && s.Attempts == n })
		r.pass(6 * time.Second) // F23
	}
	return r.await("what came of the last rung", func(s store.Subscription) bool {
		return s.State == want && (want == store.SubActive || s.Attempts == len(rungs))
	})
}
