package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"resyncd/destination/peer/hub/hubstate"
	"resyncd/store"
)

// TestOrder: many publishers at once; each subscriber gets what each publisher sent in its order, once, whatever fails in
// between (H-18).
func TestOrder(t *testing.T) {
	t.Parallel()
	const publishers, each = 8, 40
	r := newRig(t, func(o *Options) { o.RetryBase = time.Millisecond })
	subs := make([]*subscriber, 5)
	for i := range subs {
		subs[i] = newSubscriber(t)
		r.subscribed(subs[i], "/cb", aTopic)
		subs[i].on(nil, func(_ http.ResponseWriter, n int) int {
			if n%(7+i) == 3 {
				return 500
			}
			return 200
		})
	}
	var wg sync.WaitGroup
	for p := range publishers {
		wg.Go(func() {
			for i := range each {
				r.push(202, aTopic, fmt.Sprintf("%d-%d", p, i))
			}
		})
	}
	wg.Wait()
	var first []string
	for i, s := range subs {
		var got []string
		for n := 0; len(got) < publishers*each; n++ {
			if h := next(t, s.got); n%(7+i) != 3 {
				got = append(got, h.body)
			}
		}
		last := map[string]string{}
		for _, body := range got {
			p, k, _ := strings.Cut(body, "-")
			if want := fmt.Sprint(len(last[p])); k != want {
				t.Fatalf("subscriber %d: %s, want %s", i, body, want)
			}
			last[p] += "x"
		}
		if first == nil {
			first = got
		}
		if strings.Join(first, " ") != strings.Join(got, " ") {
			t.Errorf("subscriber %d got another order", i)
		}
	}
}

// TestDeadBesideHealthy: subscribers that hang, hundreds of them, do not hold up one that works.
func TestDeadBesideHealthy(t *testing.T) {
	t.Parallel()
	hang, lift := context.WithCancel(context.Background())
	var hanging atomic.Int64
	tarpit := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Method == http.MethodGet {
			_, _ = io.WriteString(w, q.URL.Query().Get("hub.challenge"))
			return
		}
		hanging.Add(1)
		<-hang.Done()
	}))
	defer tarpit.Close()
	defer lift()
	r := newRig(t, nil)
	const dead = 100 // below the places, so that each holds one
	for i := range dead {
		r.form(202, "hub.mode", "subscribe", "hub.callback", fmt.Sprintf("%s/%d", tarpit.URL, i), "hub.topic", aTopic)
	}
	for range dead {
		r.event(eventVerified)
	}
	healthy := newSubscriber(t)
	r.subscribed(healthy, "/cb", aTopic)
	for i := range 50 {
		began := time.Now()
		r.push(202, aTopic, fmt.Sprint(i))
		if h := next(t, healthy.got); h.body != fmt.Sprint(i) {
			t.Fatalf("got %s, want %d", h.body, i)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("notification %d took %v", i, took)
		}
	}
	if hanging.Load() == 0 {
		t.Error("nobody was hanging")
	}
	lift()
}

// TestRestart: subscriptions, queue and order outlive the hub; what was delivered is not delivered again after an orderly
// end.
func TestRestart(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options) { o.RetryBase = time.Millisecond * 50 })
	s := newSubscriber(t)
	r.subscribed(s, "/cb", aTopic, "hub.secret", "x")
	var down atomic.Bool
	s.on(nil, func(http.ResponseWriter, int) int {
		if down.Load() {
			return 503
		}
		return 200
	})
	r.push(202, aTopic, "a")
	if h := next(t, s.got); h.body != "a" {
		t.Fatal(h.body)
	}
	r.event(eventDelivered)
	down.Store(true)
	for _, body := range []string{"b", "c", "d"} {
		r.push(202, aTopic, body)
	}
	next(t, s.got)
	r.stop()
	for len(s.got) > 0 {
		<-s.got
	}
	down.Store(false)
	r.start()
	for _, want := range []string{"b", "c", "d"} {
		if h := next(t, s.got); h.body != want || h.header.Get("X-Hub-Signature") == "" {
			t.Fatalf("got %s, want %s", h.body, want)
		}
	}
	r.event(eventDelivered)
	r.event(eventDelivered)
	r.event(eventDelivered)
	r.restart()
	r.push(202, aTopic, "e")
	if h := next(t, s.got); h.body != "e" {
		t.Fatalf("got %s again", h.body)
	}
}

// TestNotRunning: before and after, nothing is promised.
func TestNotRunning(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	h := r.hub
	r.stop()
	w := httptest.NewRecorder()
	h.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/hub", nil))
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	if err := h.commit(t.Context(), &hubstate.Commit{Notifications: []*hubstate.Notification{{}}}); err == nil {
		t.Error("recorded after the end")
	}
	if err := h.Run(t.Context()); err == nil {
		t.Error("ran twice")
	}
}

// failing is a state whose disk is full, or broken, or slow to confirm what can be read already.
type failing struct {
	hubstate.State
	err     atomic.Pointer[error]
	confirm atomic.Pointer[func()]
	before  atomic.Pointer[func() error] // asked before notifications are recorded
}

func (f *failing) Commit(ctx context.Context, c *hubstate.Commit) error {
	if err := f.err.Load(); err != nil {
		return *err
	}
	if ask := f.before.Load(); ask != nil && len(c.Notifications) > 0 {
		if err := (*ask)(); err != nil {
			return err
		}
	}
	err := f.State.Commit(ctx, c)
	if wait := f.confirm.Load(); wait != nil {
		(*wait)()
	}
	return err
}

// newFailing is a hub whose state fails when it is told to.
func newFailing(t *testing.T) (*rig, *failing) {
	t.Helper()
	f, r := &failing{}, newRig(t, nil)
	r.stop()
	r.wrap = func(s hubstate.State) hubstate.State { f.State = s; return f }
	r.start()
	return r, f
}

// TestDeliveredBeforeDurable: deliveries do not wait until the disk confirms, publishers do.
func TestDeliveredBeforeDurable(t *testing.T) {
	t.Parallel()
	r, f := newFailing(t)
	s := newSubscriber(t)
	r.subscribed(s, "/cb", aTopic)
	confirmed := make(chan struct{})
	wait := func() { <-confirmed }
	f.confirm.Store(&wait)
	var publisher sync.WaitGroup
	var answered atomic.Bool
	publisher.Go(func() {
		r.push(202, aTopic, "a")
		answered.Store(true)
	})
	if h := next(t, s.got); h.body != "a" || answered.Load() {
		t.Errorf("got %q, the publisher is answered: %v", h.body, answered.Load())
	}
	close(confirmed)
	publisher.Wait()
	r.event(eventDelivered)
}

// TestStateFails: a full disk is told to the publisher and passes (F7); one that stays broken ends the hub (F10).
func TestStateFails(t *testing.T) {
	t.Parallel()
	r, f := newFailing(t)
	s := newSubscriber(t)
	r.subscribed(s, "/cb", aTopic)
	full, broken := fmt.Errorf("commit: %w", store.ErrFull), errors.New("input/output error")
	for range badCommits + 1 {
		f.err.Store(&full)
		r.push(503, aTopic, "a")
	}
	f.err.Store(nil)
	r.push(202, aTopic, "b")
	h := next(t, s.got)
	if h.body == "a" { // the first one may have been on its way
		h = next(t, s.got)
	}
	if h.body != "b" {
		t.Error(h.body)
	}
	r.event(eventDelivered)
	f.err.Store(&broken)
	for range badCommits + 5 {
		r.push(503, aTopic, "c")
	}
	r.failed = true
	r.stop()
}

func (f *failing) Subscribe(ctx context.Context, s hubstate.Subscription) (hubstate.Subscription, hubstate.Topic, error) {
	if err := f.err.Load(); err != nil {
		return s, hubstate.Topic{}, *err
	}
	return f.State.Subscribe(ctx, s)
}

func (f *failing) End(ctx context.Context, ids ...int64) error {
	if err := f.err.Load(); err != nil {
		return *err
	}
	return f.State.End(ctx, ids...)
}

// TestStateUnsure: a disk that did not confirm one write ends the hub at once, whatever was being written, because only
// opening the state anew recovers (F10).
func TestStateUnsure(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(r *rig, s *subscriber){
		"content": func(r *rig, _ *subscriber) { r.push(503, aTopic, "a") },
		"subscribe": func(r *rig, s *subscriber) {
			r.form(202, "hub.mode", "subscribe", "hub.callback", s.URL+"/2", "hub.topic", aTopic)
		},
		"end": func(r *rig, s *subscriber) {
			r.form(202, "hub.mode", "unsubscribe", "hub.callback", s.URL+"/1", "hub.topic", aTopic)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, f := newFailing(t)
			s := newSubscriber(t)
			r.subscribed(s, "/1", aTopic)
			unsure := fmt.Errorf("commit: %w", store.ErrUnsure)
			f.err.Store(&unsure)
			write(r, s)
			select {
			case err := <-r.ended:
				if !errors.Is(err, store.ErrUnsure) || !strings.Contains(err.Error(), "start again") {
					t.Errorf("the hub ended with %v", err)
				}
				r.ended <- err
			case <-time.After(20 * time.Second):
				t.Error("the hub goes on")
			}
			r.failed = true
			r.stop()
		})
	}
}

// TestServe: the server keeps its deadlines and ends orderly.
func TestServe(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.hub.Serve(ctx, listener) }()
	target := "http://" + listener.Addr().String() + "/hub"
	if resp, _ := r.sayTo(target, http.MethodGet, "", "", nil); resp.StatusCode != 405 {
		t.Errorf("%d", resp.StatusCode)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	r.http.Client().CloseIdleConnections()
}

// BenchmarkRelay is content from publishers to one subscriber, every notification durable before its 2xx.
func BenchmarkRelay(b *testing.B) {
	for _, publishers := range []int{1, 8, 32} {
		b.Run(fmt.Sprintf("publishers=%d", publishers), func(b *testing.B) {
			r := newRig(b, nil)
			var n atomic.Int64
			all := make(chan struct{})
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				if q.Method == http.MethodGet {
					_, _ = io.WriteString(w, q.URL.Query().Get("hub.challenge"))
				} else if n.Add(1) == int64(b.N) {
					close(all)
				}
			}))
			defer s.Close()
			r.form(202, "hub.mode", "subscribe", "hub.callback", s.URL, "hub.topic", aTopic, "hub.secret", "x")
			r.event(eventVerified)
			r.http.Client().Transport.(*http.Transport).MaxIdleConnsPerHost = publishers
			body := strings.Repeat("x", 1024)
			b.SetBytes(1024)
			b.ResetTimer()
			began := time.Now()
			var wg sync.WaitGroup
			var next atomic.Int64
			for range publishers {
				wg.Go(func() {
					for next.Add(1) <= int64(b.N) {
						r.push(202, aTopic, body)
					}
				})
			}
			wg.Wait()
			taken := time.Since(began)
			<-all
			b.ReportMetric(float64(b.N)/taken.Seconds(), "taken/s")
			b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "delivered/s")
		})
	}
}
