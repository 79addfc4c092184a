package callback_test

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"resyncd/destination/websub"
)

// hub is a hub over loopback that behaves as it is told. What every hub does is here: it reads forms, verifies, holds
// leases and delivers; what makes each one special is its behaviour.
type hub struct {
	t   testing.TB
	srv *httptest.Server
	out *http.Client
	bg  sync.WaitGroup

	mu       sync.Mutex
	act      behaviour
	asked    []ask
	held     map[string]lease // by callback
	verified []int            // statuses of our answers to verifications
}

// behaviour answers one request of a subscriber: with a status and a reason.
type behaviour func(h *hub, a ask) (status int, body string)

// ask is one request of a subscriber.
type ask struct {
	path, query string
	form        url.Values
	reply       http.Header // of the answer
}

func (a ask) get(name string) string { return a.form.Get("hub." + name) }
func (a ask) has(name string) bool   { return a.form.Has("hub." + name) }

// lease is what a hub holds.
type lease struct{ topic, secret string }

func newHub(t testing.TB, act behaviour) *hub {
	h := &hub{t: t, act: act, held: map[string]lease{}}
	transport := &http.Transport{}
	h.out = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	h.srv = httptest.NewServer(h)
	t.Cleanup(func() { h.srv.Close(); h.bg.Wait(); transport.CloseIdleConnections() })
	return h
}

// later does what a hub does after its answer.
func (h *hub) later(f func()) { h.bg.Go(f) }

func (h *hub) url() string { return h.srv.URL + "/hub" }

// ServeHTTP holds each request to what every hub may expect (S-20, S-21, S-24, S-25).
func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	form, bad := url.ParseQuery(string(body))
	if err != nil || bad != nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" {
		h.t.Errorf("%s %s of type %q, %v, %v", r.Method, r.URL.Path, r.Header.Get("Content-Type"), err, bad)
	}
	for name, v := range form {
		if len(v) != 1 || v[0] == "" {
			h.t.Errorf("parameter %s=%q", name, v)
		}
	}
	cb, secret := form.Get("hub.callback"), form.Get("hub.secret")
	switch {
	case strings.ContainsAny(cb, "?#") || len(cb) > 250:
		h.t.Errorf("callback %q", cb)
	case secret != "" && (len(secret) < 12 || len(secret) > 199):
		h.t.Errorf("secret of %d bytes", len(secret))
	case r.Header.Get("User-Agent") != "resyncd/test" || r.Header.Get("Expect") != "":
		h.t.Errorf("headers %v", r.Header)
	}
	a := ask{path: r.URL.Path, query: r.URL.RawQuery, form: form, reply: w.Header()}
	h.mu.Lock()
	h.asked = append(h.asked, a)
	act := h.act
	h.mu.Unlock()
	status, text := act(h, a)
	w.Header().Set("Content-Type", "text/plain")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}

// become changes how it behaves from now on.
func (h *hub) become(act behaviour) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.act = act
}

// asks are the requests so far, and forgets them.
func (h *hub) asks() []ask {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := h.asked
	h.asked = nil
	return out
}

func (h *hub) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.asked)
}

// rungs are the profiles of the requests so far, "VERIFY/lease" each.
func (h *hub) rungs() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []string
	for _, a := range h.asked {
		rung := a.get("verify") + "/"
		if a.has("lease_seconds") {
			rung += "lease"
		}
		out = append(out, rung)
	}
	return out
}

// get is a GET to a callback as the hub writes it. Status 0 is no answer, as at the end of a test.
func (h *hub) get(address string) (status int, body string) {
	resp, err := h.out.Get(address)
	if err != nil {
		return 0, ""
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, ""
	}
	return resp.StatusCode, string(b)
}

// verifyAs asks a callback whether mode is wanted, with a challenge and more parameters (name, value, …), joined to it
// with what a hub joins with.
func (h *hub) verifyAs(join, mode string, a ask, challenge string, more ...string) bool {
	q := url.Values{"hub.mode": {mode}, "hub.topic": {a.get("topic")}, "hub.challenge": {challenge}}
	for i := 0; i+1 < len(more); i += 2 {
		q.Set("hub."+more[i], more[i+1])
	}
	status, body := h.get(a.get("callback") + join + q.Encode())
	h.mu.Lock()
	h.verified = append(h.verified, status)
	h.mu.Unlock()
	return status == http.StatusOK && body == challenge // exactly 200
}

// verify is the same in the usual way, for what was asked for.
func (h *hub) verify(a ask, more ...string) bool {
	return h.verifyAs("?", a.get("mode"), a, "8c7f2e1d4b", more...)
}

// hold records what was verified. keepSecret: the first secret of a pair stays.
func (h *hub) hold(a ask, keepSecret bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	cb, l := a.get("callback"), lease{topic: a.get("topic"), secret: a.get("secret")}
	if old, known := h.held[cb]; known && keepSecret {
		l.secret = old.secret
	}
	if h.held[cb] = l; a.get("mode") == "unsubscribe" {
		delete(h.held, cb)
	}
}

// leases are what it holds, by callback.
func (h *hub) leases() map[string]lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.held)
}

// holds are the callbacks that it would deliver to.
func (h *hub) holds() []string { return slices.Sorted(maps.Keys(h.leases())) }

// post delivers a body to a callback; headers are pairs.
func (h *hub) post(cb, body string, headers ...string) int {
	h.t.Helper()
	req, err := http.NewRequest(http.MethodPost, cb, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := h.out.Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, _ := io.ReadAll(resp.Body); resp.StatusCode == http.StatusOK && len(b) > 0 {
		h.t.Errorf("a 200 says %q (S-62)", b)
	}
	return resp.StatusCode
}

// deliver sends a body to all that it holds, signed with a method where there is a secret, and returns our answers.
func (h *hub) deliver(m websub.Method, body string, headers ...string) []int {
	h.t.Helper()
	var out []int
	for cb, l := range h.leases() {
		if l.secret != "" {
			out = append(out, h.post(cb, body, append(headers, websub.SignatureHeader, websub.Sign(m, l.secret, []byte(body)))...))
			continue
		}
		out = append(out, h.post(cb, body, headers...))
	}
	return out
}

// Some ways that hubs share.

// modern accepts, and verifies in the background as WebSub has it.
func modern(granted string) behaviour {
	return func(h *hub, a ask) (int, string) {
		h.later(func() {
			if h.verify(a, "lease_seconds", granted) {
				h.hold(a, false)
			}
		})
		return http.StatusAccepted, ""
	}
}

// inside verifies inside of the request (S-23), and answers with a status when it was confirmed.
func inside(status int, more ...string) behaviour {
	return func(h *hub, a ask) (int, string) {
		if !h.verify(a, more...) {
			return http.StatusConflict, "you did not confirm"
		}
		h.hold(a, false)
		return status, ""
	}
}
