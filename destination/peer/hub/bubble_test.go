package hub

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"resyncd/destination/fetch"
	"resyncd/destination/peer/hub/hubdb"
	"resyncd/destination/peer/hub/hubstate"
	"resyncd/destination/websub"
)

// still is a network without a network: what is sent is answered by functions, and noted with its time.
type still struct {
	mu   sync.Mutex
	send func(m fetch.Message) (*fetch.Answer, error) // content; nil: 200
	ask  func(q url.Values) (*fetch.Answer, error)    // verification; nil: confirm
	get  func(req fetch.Request) (*fetch.Response, error)
	sent []sending
	took time.Duration                  // of each sending
	lags func(url string) time.Duration // of those to a URL; nil: took
}

type sending struct {
	at   time.Duration // since the bubble began
	to   string
	body string
}

var dawn = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // of every bubble

func (n *still) Send(ctx context.Context, m fetch.Message) (*fetch.Answer, error) {
	n.mu.Lock()
	took := n.took
	if n.lags != nil {
		took = n.lags(m.URL)
	}
	n.mu.Unlock()
	if took > 0 {
		select {
		case <-time.After(took):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if m.Method == http.MethodGet {
		u, _ := url.Parse(m.URL)
		n.sent = append(n.sent, sending{time.Since(dawn), u.Path, "?"})
		if n.ask != nil {
			return n.ask(u.Query())
		}
		return &fetch.Answer{Status: 200, Body: []byte(u.Query().Get("hub.challenge"))}, nil
	}
	n.sent = append(n.sent, sending{time.Since(dawn), m.URL, string(m.Body)})
	if n.send != nil {
		return n.send(m)
	}
	return &fetch.Answer{Status: 200}, nil
}

func (n *still) Get(_ context.Context, req fetch.Request) (*fetch.Response, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.get(req)
}

// change replaces what is answered from now on.
func (n *still) change(fn func(n *still)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	fn(n)
}

// count reads a number that the answering functions write.
func (n *still) count(fn func() int) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return fn()
}

// contents lists what was sent to a callback.
func (n *still) contents(to string) []sending {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []sending
	for _, s := range n.sent {
		if s.body != "?" && s.to == to {
			out = append(out, s)
		}
	}
	return out
}

// bubble is a hub in a synctest bubble.
type bubble struct {
	t    *testing.T
	net  *still
	hub  *Hub
	path string
	stop func()
}

func newBubble(t *testing.T, path string, o Options) *bubble {
	t.Helper()
	b := &bubble{t: t, net: &still{}, path: path}
	state, err := hubdb.Open(context.Background(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	o.Base, o.State = "http://hub.example/", state
	if b.hub, err = newHub(o, b.net, b.net); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.hub.Run(ctx) }()
	b.stop = func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := state.Close(); err != nil {
			t.Error(err)
		}
	}
	synctest.Wait()
	return b
}

func (b *bubble) post(want int, kind, body, link string) {
	b.t.Helper()
	q := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	q.RemoteAddr = "127.0.0.1:1"
	q.Header.Set("Content-Type", kind)
	if link != "" {
		q.Header.Set("Link", link)
	}
	w := httptest.NewRecorder()
	b.hub.Handler().ServeHTTP(w, q)
	if w.Code != want {
		b.t.Fatalf("answered %d %s, want %d", w.Code, w.Body, want)
	}
}

func (b *bubble) subscribe(callback string, params ...string) {
	b.t.Helper()
	v := url.Values{"hub.mode": {"subscribe"}, "hub.callback": {callback}, "hub.topic": {aTopic}}
	for i := 0; i < len(params); i += 2 {
		v.Set(params[i], params[i+1])
	}
	b.post(202, websub.FormType, v.Encode(), "")
	synctest.Wait()
}

func (b *bubble) push(body string) {
	b.t.Helper()
	b.post(202, "application/xml", body, `<`+aTopic+`>; rel="self"`)
	synctest.Wait()
}

// subscriptions reads the state.
func (b *bubble) subscriptions() []hubstate.Subscription {
	b.t.Helper()
	subs, err := b.hub.o.State.Subscriptions(context.Background())
	if err != nil {
		b.t.Fatal(err)
	}
	return subs
}

func inBubble(t *testing.T, o Options, fn func(*bubble)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hub.db")
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, path, o)
		defer func() { b.stop() }()
		fn(b)
	})
}

// pass lets the time pass, and everything happen that happens meanwhile.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
