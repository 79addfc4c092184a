package hub

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"resyncd/destination/websub"
)

// dialect is how one speaks to a hub: every rule is proven in both.
type dialect struct {
	name  string
	extra []string // parameters that come with each request
	taken int      // the answer to what was confirmed
}

var dialects = []dialect{
	{"WebSub", nil, http.StatusAccepted},
	{"PubSubHubbub 0.3", []string{"hub.verify", "sync", "hub.verify", "async", "hub.verify_token", "tok&en="}, http.StatusNoContent},
}

// page is a topic, with validators.
type page struct {
	*httptest.Server
	mu     sync.Mutex
	body   string
	kind   string
	header http.Header // beside
	status int         // instead of the body
	moved  string      // path that answers with a redirect to the page
	asked  []http.Header
}

func newPage(t testing.TB, kind, body string) *page {
	p := &page{kind: kind, body: body}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

func (p *page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.moved != "" && r.URL.Path == p.moved {
		http.Redirect(w, r, "/now", http.StatusMovedPermanently)
		return
	}
	p.asked = append(p.asked, r.Header)
	for name, values := range p.header {
		w.Header()[name] = values
	}
	tag := fmt.Sprintf("%q", fmt.Sprintf("%x", p.body))
	w.Header().Set("ETag", tag)
	switch {
	case p.status != 0:
		w.WriteHeader(p.status)
	case r.Header.Get("If-None-Match") == tag:
		w.WriteHeader(http.StatusNotModified)
	default:
		w.Header().Set("Content-Type", p.kind)
		_, _ = io.WriteString(w, p.body)
	}
}

func (p *page) set(fn func(*page)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fn(p)
}

// gets is how often it was read.
func (p *page) gets() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.asked)
}

// world is a hub, a topic and a subscriber, who speak a dialect.
type world struct {
	*testing.T
	*rig
	dialect
	page *page
	sub  *subscriber
}

func newWorld(t *testing.T, d dialect, change func(*Options)) *world {
	t.Helper()
	return &world{T: t, rig: newRig(t, change), dialect: d, sub: newSubscriber(t),
		page: newPage(t, "application/atom+xml; charset=UTF-8", "<feed xmlns='http://www.w3.org/2005/Atom'><id>1</id></feed>\n")}
}

// both runs a test in a world of each dialect.
func both(t *testing.T, change func(*Options), run func(w *world)) {
	t.Helper()
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			run(newWorld(t, d, change))
		})
	}
}

func (w *world) topic() string { return w.page.URL + "/feed?a=1&b=%2F" }

// ask sends a request of a subscriber and returns the status.
func (w *world) ask(mode, callback string, params ...string) int {
	w.Helper()
	v := url.Values{"hub.mode": {mode}, "hub.callback": {w.sub.URL + callback}, "hub.topic": {w.topic()}}
	for i := 0; i < len(w.extra); i += 2 {
		v.Add(w.extra[i], w.extra[i+1])
	}
	for i := 0; i < len(params); i += 2 {
		v.Set(params[i], params[i+1])
	}
	resp, text := w.say(http.MethodPost, websub.FormType, v.Encode(), nil)
	if resp.StatusCode >= 400 && resp.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
		w.Errorf("%v: %d with %s %q", params, resp.StatusCode, resp.Header.Get("Content-Type"), text)
	}
	return resp.StatusCode
}

// join subscribes and returns the verification that it took.
func (w *world) join(callback string, params ...string) url.Values {
	w.Helper()
	if status := w.ask("subscribe", callback, params...); status != w.taken {
		w.Fatalf("subscribe: answered %d, want %d", status, w.taken)
	}
	asked := next(w, w.sub.asked)
	w.event(eventVerified)
	return w.query(asked, callback)
}

// query reads what the hub added to a callback.
func (w *world) query(h heard, callback string) url.Values {
	w.Helper()
	rest, ok := strings.CutPrefix(h.target, callback)
	if !ok || rest == "" || strings.Contains(callback, "?") != (rest[0] == '&') {
		w.Fatalf("the callback %s was asked as %s", callback, h.target)
	}
	v, err := url.ParseQuery(rest[1:])
	if err != nil {
		w.Fatal(err)
	}
	return v
}

// publish changes the topic and pings the hub.
func (w *world) publish(body string) {
	w.Helper()
	w.page.set(func(p *page) { p.body = body })
	w.form(http.StatusNoContent, "hub.mode", "publish", "hub.url", w.topic())
}

// subscriptions reads what the hub has recorded.
func (w *world) subscriptions() int {
	w.Helper()
	subs, err := w.hub.o.State.Subscriptions(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return len(subs)
}
