package hub

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"resyncd/destination/fetch"
	"resyncd/destination/peer/hub/hubdb"
	"resyncd/destination/peer/hub/hubstate"
	"resyncd/destination/websub"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// eventKind is what happened, as the log has it.
type eventKind string

const (
	eventPublished  eventKind = "content was published"
	eventUnchanged  eventKind = "a topic has not changed"
	eventUnreadable eventKind = "a topic cannot be read"
	eventDelivered  eventKind = "a notification was delivered"
	eventFailed     eventKind = "a delivery failed"
	eventDropped    eventKind = "notifications were dropped for a subscriber"
	eventVerified   eventKind = "a subscription was verified"
	eventUnverified eventKind = "a request was not confirmed"
	eventEnded      eventKind = "a subscription ended"
)

// event is one thing that happened.
type event struct {
	Kind         eventKind
	Topic        string
	Subscription int64
	Number       int64
	Count        int64
	Took         time.Duration
	Why          string
}

// listener is a log that passes events on.
type listener struct{ events chan event }

func (l listener) Enabled(context.Context, slog.Level) bool { return true }
func (l listener) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l listener) WithGroup(string) slog.Handler            { return l }

func (l listener) Handle(_ context.Context, r slog.Record) error {
	message, _, _ := strings.Cut(r.Message, ", ")
	e := event{Kind: eventKind(message)}
	switch e.Kind {
	case eventPublished, eventUnchanged, eventUnreadable, eventDelivered, eventFailed, eventDropped, eventVerified,
		eventUnverified, eventEnded:
	default:
		return nil
	}
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "topic":
			e.Topic = a.Value.String()
		case "subscription":
			e.Subscription = a.Value.Int64()
		case "number":
			e.Number = a.Value.Int64()
		case "count":
			e.Count = a.Value.Int64()
		case "took":
			e.Took = a.Value.Duration()
		case "why":
			e.Why = a.Value.String()
		}
		return true
	})
	select {
	case l.events <- e:
	default:
	}
	return nil
}

// rig is a hub that runs, over loopback.
type rig struct {
	t      testing.TB
	path   string // of its state
	o      Options
	events chan event
	wrap   func(hubstate.State) hubstate.State // nil: the state itself

	hub   *Hub
	http  *httptest.Server
	stop  func()
	ended chan error // of one place: what Run returned
	// failed: the hub is expected to have ended by itself.
	failed bool
}

func newRig(t testing.TB, change func(*Options)) *rig {
	t.Helper()
	r := &rig{t: t, path: filepath.Join(t.TempDir(), "hub.db"), events: make(chan event, 100_000)}
	r.o = Options{RetryBase: 10 * time.Millisecond, MinLease: time.Second,
		Log: slog.New(listener{r.events})}
	if change != nil {
		change(&r.o)
	}
	r.start()
	t.Cleanup(func() { r.stop() })
	return r
}

// start opens the state and runs the hub, at the URL that it had before if there was one.
func (r *rig) start() {
	r.t.Helper()
	state, err := hubdb.Open(context.Background(), r.path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	client := fetch.New(fetch.Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Retries: -1})
	var handler http.Handler = http.NotFoundHandler()
	var mu sync.Mutex
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		mu.Lock()
		h := handler
		mu.Unlock()
		h.ServeHTTP(w, q)
	}))
	o := r.o
	if o.Base == "" {
		o.Base = server.URL + "/hub"
	}
	o.State, o.Client = state, client
	if r.wrap != nil {
		o.State = r.wrap(state)
	}
	h, err := New(o)
	if err != nil {
		r.t.Fatal(err)
	}
	mu.Lock()
	handler = h.Handler()
	mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	r.hub, r.http, r.ended = h, server, done
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; (err != nil) != r.failed {
			r.t.Errorf("run: %v", err)
		}
		server.Close()
		client.Close()
		if err := state.Close(); err != nil {
			r.t.Errorf("close: %v", err)
		}
	})
	for !h.open(r.t.Context()) {
		<-time.After(time.Millisecond)
	}
}

func (r *rig) restart() {
	r.t.Helper()
	r.stop()
	r.start()
}

// url is the hub's.
func (r *rig) url() string { return r.http.URL + "/hub" }

// say sends a request and returns status and body.
func (r *rig) say(method, contentType, body string, header http.Header) (*http.Response, string) {
	r.t.Helper()
	return r.sayTo(r.url(), method, contentType, body, header)
}

func (r *rig) sayTo(target, method, contentType, body string, header http.Header) (*http.Response, string) {
	r.t.Helper()
	req, err := http.NewRequest(method, target, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	for name, values := range header {
		req.Header[name] = values
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := r.http.Client().Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp, string(text)
}

// form posts parameters and insists on a status.
func (r *rig) form(want int, params ...string) string {
	r.t.Helper()
	v := url.Values{}
	for i := 0; i < len(params); i += 2 {
		v.Add(params[i], params[i+1])
	}
	resp, text := r.say(http.MethodPost, websub.FormType, v.Encode(), nil)
	if resp.StatusCode != want {
		r.t.Fatalf("%v: answered %d %q, want %d", params, resp.StatusCode, text, want)
	}
	return text
}

// push publishes content and insists on a status.
func (r *rig) push(want int, topic, body string) {
	r.t.Helper()
	resp, text := r.say(http.MethodPost, "application/xml", body, http.Header{"Link": {fmt.Sprintf(`<%s>; rel="self"`, topic)}})
	if resp.StatusCode != want {
		r.t.Fatalf("push: answered %d %q, want %d", resp.StatusCode, text, want)
	}
}

// event waits for one of a kind.
func (r *rig) event(kind eventKind) event {
	r.t.Helper()
	late := time.After(20 * time.Second)
	for {
		select {
		case e := <-r.events:
			if e.Kind == kind {
				return e
			}
		case <-late:
			r.t.Fatalf("no event %s", kind)
		}
	}
}

// heard is a request that a subscriber got.
type heard struct {
	method, target string
	header         http.Header
	body           string
}

// subscriber is a callback that confirms everything and takes everything, unless told otherwise.
type subscriber struct {
	*httptest.Server
	mu      sync.Mutex
	verify  func(w http.ResponseWriter, q url.Values) // nil: confirm
	content func(w http.ResponseWriter, n int) int    // status for the n-th content; nil: 200
	n       int
	got     chan heard // content
	asked   chan heard // verifications and denials
}

func newSubscriber(t testing.TB) *subscriber {
	s := &subscriber{got: make(chan heard, 100_000), asked: make(chan heard, 1000)}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *subscriber) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	h := heard{r.Method, r.URL.RequestURI(), r.Header, string(body)}
	s.mu.Lock()
	verify, content := s.verify, s.content
	n := s.n
	if r.Method == http.MethodPost {
		s.n++
	}
	s.mu.Unlock()
	if r.Method == http.MethodGet {
		if verify != nil {
			verify(w, r.URL.Query())
		} else {
			_, _ = io.WriteString(w, r.URL.Query().Get("hub.challenge"))
		}
		s.asked <- h
		return
	}
	status := http.StatusOK
	if content != nil {
		status = content(w, n)
	}
	w.WriteHeader(status)
	s.got <- h
}

func (s *subscriber) on(verify func(http.ResponseWriter, url.Values), content func(http.ResponseWriter, int) int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.verify, s.content = verify, content
}

func next(t testing.TB, c chan heard) heard {
	t.Helper()
	select {
	case h := <-c:
		return h
	case <-time.After(20 * time.Second):
		t.Fatal("nothing was heard")
		return heard{}
	}
}

// subscribed subscribes a callback of s and waits until the hub has recorded it.
func (r *rig) subscribed(s *subscriber, callback, topic string, params ...string) event {
	r.t.Helper()
	r.form(http.StatusAccepted, append([]string{"hub.mode", "subscribe", "hub.callback", s.URL + callback, "hub.topic", topic}, params...)...)
	next(r.t, s.asked)
	return r.event(eventVerified)
}
