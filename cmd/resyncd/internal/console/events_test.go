package console

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// listener is a client of the event stream that keeps what it was sent, and when.
type listener struct {
	header http.Header

	mu     sync.Mutex
	text   strings.Builder
	code   int
	events []time.Time
}

func (l *listener) Header() http.Header { return l.header }
func (l *listener) WriteHeader(code int) {
	l.mu.Lock()
	l.code = code
	l.mu.Unlock()
}

func (l *listener) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if strings.Contains(string(p), "event: change\n") {
		l.events = append(l.events, time.Now())
	}
	return l.text.Write(p)
}

func (l *listener) Flush() {}

func (l *listener) sent() (string, []time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String(), append([]time.Time(nil), l.events...)
}

// listen has h answer a listener until ctx ends.
func listen(ctx context.Context, h http.Handler) (*listener, <-chan struct{}) {
	l, done := &listener{header: http.Header{}}, make(chan struct{})
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/events", nil)
	r.Host = "localhost"
	go func() {
		defer close(done)
		h.ServeHTTP(l, r)
	}()
	return l, done
}

// TestEvents: each change is told, many at once as one, at most two a second, and silence is broken by a comment.
func TestEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Now(), "")
		ctx, cancel := context.WithCancel(t.Context())
		l, done := listen(ctx, New(Options{Data: f}))
		synctest.Wait()
		if text, _ := l.sent(); text != "retry: 3000\nevent: hello\ndata: {}\n\n" || l.header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("at first: %q %v", text, l.header)
		}
		f.change()
		synctest.Wait()
		if _, events := l.sent(); len(events) != 1 {
			t.Errorf("the first change: %d events", len(events))
		}
		begin := time.Now()
		for time.Since(begin) < 10*time.Second {
			f.change()
			<-time.After(20 * time.Millisecond)
		}
		<-time.After(2 * time.Second)
		_, events := l.sent()
		if len(events) < 20 || len(events) > 22 {
			t.Errorf("%d events in 10 s", len(events))
		}
		for i := 1; i < len(events); i++ {
			if d := events[i].Sub(events[i-1]); d < pace {
				t.Errorf("%v between two events", d)
			}
		}
		text, _ := l.sent()
		<-time.After(3*heartbeat + time.Second)
		calm, after := l.sent()
		if got := strings.Count(strings.TrimPrefix(calm, text), ": still here\n\n"); got != 3 || len(after) != len(events) {
			t.Errorf("in silence: %q", strings.TrimPrefix(calm, text))
		}
		cancel()
		<-done
	})
}

// TestChangeAtHello: what changes while a listener is being greeted, and may already look at the page, is told.
func TestChangeAtHello(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Now(), "")
		l := &greeted{listener{header: http.Header{}}, f}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/events", nil)
		r.Host = "localhost"
		New(Options{Data: f}).ServeHTTP(l, r)
		if _, events := l.sent(); len(events) != 1 {
			t.Errorf("%d events", len(events))
		}
	})
}

// greeted has something change as soon as it is greeted.
type greeted struct {
	listener
	f *fake
}

func (g *greeted) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "event: hello\n") {
		g.f.change()
	}
	return g.listener.Write(p)
}

// TestEventsEnd: when the server is to end, and when its listener leaves.
func TestEventsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Now(), "")
		server, end := context.WithCancel(t.Context())
		_, done := listen(context.WithValue(t.Context(), endingKey{}, server), New(Options{Data: f}))
		synctest.Wait()
		end()
		<-done

		browser, leave := context.WithCancel(t.Context())
		_, done = listen(browser, New(Options{Data: f}))
		synctest.Wait()
		leave()
		<-done
	})
}

// TestListenersAreBounded: one too many is sent away, and may come when another has gone.
func TestListenersAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := New(Options{Data: newFake(time.Now(), "")})
		ctx, cancel := context.WithCancel(t.Context())
		var all []<-chan struct{}
		for range listeners {
			_, done := listen(ctx, h)
			all = append(all, done)
		}
		synctest.Wait()
		if w := ask(h, http.MethodGet, "/api/events"); w.Code != 503 || w.Header().Get("Retry-After") == "" {
			t.Errorf("one too many: %d", w.Code)
		}
		cancel()
		for _, done := range all {
			<-done
		}
		if w := ask(h, http.MethodHead, "/api/events"); w.Code != 200 || w.Body.Len() != 0 {
			t.Errorf("afterwards: %d", w.Code)
		}
	})
}

// TestEventsServed: over a real connection, with the deadlines of the server, which ends at once though someone listens.
func TestEventsServed(t *testing.T) {
	t.Parallel()
	f := newFake(time.Now(), "")
	addr, stop := serving(t, New(Options{Data: f}))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/api/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	next := func(want string) {
		t.Helper()
		for lines.Scan() {
			if lines.Text() == want {
				return
			}
		}
		t.Fatalf("no %q: %v", want, lines.Err())
	}
	next("event: hello")
	f.change()
	next("event: change")
	begin := time.Now()
	if err := stop(); err != nil || time.Since(begin) > stopTime-time.Second {
		t.Errorf("stop: %v after %v", err, time.Since(begin))
	}
}

// TestDeadlines: a stream lifts the server's deadline for reading, and sets one for each piece that it writes.
func TestDeadlines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &deadlines{listener: listener{header: http.Header{}}, read: time.Now()}
		out := newDrip(d, streamTime)
		<-time.After(time.Minute)
		if _, err := out.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if !d.read.IsZero() || !d.write.Equal(time.Now().Add(streamTime)) {
			t.Errorf("deadlines %v, %v", d.read, d.write)
		}
	})
}

type deadlines struct {
	listener
	read, write time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error  { d.read = t; return nil }
func (d *deadlines) SetWriteDeadline(t time.Time) error { d.write = t; return nil }
