package callback

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"resyncd/destination/websub"
	"resyncd/store"
)

// TestFull: what there is no room for is asked to come again (F45), and room comes back.
func TestFull(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, w *httptest.ResponseRecorder, status int, after string) {
		t.Helper()
		if w.Code != status || w.Header().Get("Retry-After") != after {
			t.Errorf("answered %d, Retry-After %q", w.Code, w.Header().Get("Retry-After"))
		}
	}
	t.Run("inbox, deliveries", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s := start(t, func(o *Options) { o.limits.inboxDeliveries = 3 * shares })
			for n := range 3 {
				check(t, s.post(tokenOf, fmt.Sprint(n)), 200, "")
			}
			check(t, s.post(tokenOf, "more"), 503, "60")
			check(t, s.post("pending-token", "of another source"), 200, "")
			// Verification goes on (F6).
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequest("GET", "/cb/"+tokenOf+query("subscribe", topic, "abc"), nil))
			check(t, w, 200, "")
			s.store.set(func(f *fakeStore) { f.kept = nil }) // the engine has taken them
			<-time.After(2 * tallyEvery)
			check(t, s.post(tokenOf, "more"), 200, "")
		})
	})
	t.Run("inbox, bytes, from before", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s := start(t, func(o *Options) { o.limits.inboxBytes = 1000 })
			synctest.Wait() // it has looked
			s.store.set(func(f *fakeStore) { f.size.Bytes = 1000 })
			check(t, s.post(tokenOf, "not seen yet"), 200, "")
			<-time.After(2 * tallyEvery)
			check(t, s.post(tokenOf, "x"), 503, "60")
			s.store.set(func(f *fakeStore) { f.size.Bytes = 900 })
			<-time.After(2 * tallyEvery)
			check(t, s.post(tokenOf, "x"), 200, "")
		})
	})
	t.Run("queue", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			let := make(chan struct{})
			s := start(t, func(o *Options) { o.limits.waiting = 2 })
			s.store.deliver = func([]*store.Delivery) error { <-let; return nil }
			var wg sync.WaitGroup
			for n := range 3 { // one is being committed, two wait
				wg.Go(func() { check(t, s.post(tokenOf, fmt.Sprint(n)), 200, "") })
				synctest.Wait()
			}
			check(t, s.post(tokenOf, "more"), 503, "5")
			close(let)
			wg.Wait()
			check(t, s.post(tokenOf, "more"), 200, "")
		})
	})
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			let := make(chan struct{})
			s := start(t, func(o *Options) { o.MaxBody, o.limits.memory = 100<<10, 1 })
			s.store.deliver = func([]*store.Delivery) error { <-let; return nil }
			var wg sync.WaitGroup
			big := func(token string) { wg.Go(func() { check(t, s.post(token, strings.Repeat(token, 2000)), 200, "") }) }
			big(tokenOf)
			big(tokenOf)
			synctest.Wait()
			check(t, s.post(tokenOf, strings.Repeat("x", 90<<10)), 503, "5")
			big("pending-token") // another subscription has its own share
			synctest.Wait()
			close(let)
			wg.Wait()
			s.answered(t)
			check(t, s.post(tokenOf, strings.Repeat("x", 90<<10)), 200, "")
		})
	})
	t.Run("a store that hangs (F19)", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			let := make(chan struct{})
			s := start(t, nil)
			s.store.deliver = func([]*store.Delivery) error { <-let; return nil }
			began := time.Now()
			check(t, s.post(tokenOf, "x"), 503, "5")
			if took := time.Since(began); took != commitPatience {
				t.Errorf("after %v", took)
			}
			if s.memory.used == 0 {
				t.Error("it takes memory as long as it waits")
			}
			close(let)
			synctest.Wait()
			if n := len(s.store.deliveries()); n != 1 { // it counts all the same
				t.Errorf("%d kept", n)
			}
			s.answered(t)
		})
	})
}

// TestLargest: what is as large as allowed fits, however it comes.
func TestLargest(t *testing.T) {
	t.Parallel()
	random := make([]byte, 300<<10)
	_, _ = rand.NewChaCha8([32]byte{}).Read(random)
	body := string(random)
	packed := gzipped(t, body) // a little larger
	s := serve(t, func(o *Options) { o.MaxBody, o.limits.memory = int64(len(packed)), 1 })
	for name, tc := range map[string]struct {
		body    io.Reader
		signed  string
		headers []string
	}{
		"length":          {strings.NewReader(packed), packed, nil},
		"chunked":         {io.MultiReader(strings.NewReader(packed)), packed, nil},
		"packed":          {strings.NewReader(packed), packed, []string{"Content-Encoding", "gzip"}},
		"packed, chunked": {io.MultiReader(strings.NewReader(packed)), body, []string{"Content-Encoding", "gzip"}},
	} {
		req, err := http.NewRequestWithContext(t.Context(), "POST", s.base+tokenOf, tc.body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Hub-Signature", sign(tc.signed))
		if len(tc.headers) > 0 {
			req.Header.Set(tc.headers[0], tc.headers[1])
		}
		resp, err := client(t).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != 200 {
			t.Errorf("%s: %s", name, resp.Status)
		}
		s.answered(t)
	}
}

// TestBufferIsReserved: a notification never takes more memory than was reserved for it, even one that does not come.
func TestBufferIsReserved(t *testing.T) {
	t.Parallel()
	for _, size := range []int64{0, 1, 4 << 10, 64 << 10, 64<<10 + 1, 1 << 20} {
		for _, expected := range []int64{-1, size} {
			m := newMemoryLimit(16 << 20)
			r := m.reserve(1)
			b, err := readAll(iotest.HalfReader(bytes.NewReader(make([]byte, size))), expected, 1<<20, r)
			if err != nil || int64(len(b)) != size || int64(cap(b)) > r.n {
				t.Errorf("%d bytes, %d expected: read %d into %d, reserved %d: %v", size, expected, len(b), cap(b), r.n, err)
			}
		}
	}
	r := newMemoryLimit(64 << 10).reserve(1)
	if _, err := readAll(iotest.ErrReader(io.ErrUnexpectedEOF), 64<<10, 64<<10, r); !errors.Is(err, errBusy) {
		t.Errorf("memory that there is not was used: %v", err)
	}
}

// TestPanics: a bug in what we call costs one answer, and no memory (F5).
func TestPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bugs := map[string]bool{}
		bug := func(name string) {
			if bugs[name] {
				panic("bug in " + name)
			}
		}
		var log bytes.Buffer
		s := start(t, func(o *Options) {
			o.MaxBody = 10_000
			o.Log = slog.New(slog.NewTextHandler(&log, nil))
			o.Weakest = func(int64) websub.Method { bug("policy"); return websub.MethodNone }
			o.Wake = func(int64) { bug("wake") }
			o.TooLarge = func(int64, int64) { bug("pull") }
		})
		next := change("2026-01-01T00:00:10Z", "2026-01-01T00:00:20Z")
		for name, want := range map[string]int{"policy": 500, "wake": 200, "pull": 413} {
			body := next + "<!-- " + name + " -->"
			if name == "pull" {
				body = strings.Repeat("x", 10_001)
			}
			bugs[name] = true
			if w := s.post(tokenOf, body); w.Code != want {
				t.Errorf("bug in %s: answered %d", name, w.Code)
			}
			<-time.After(20 * time.Second)
			synctest.Wait()
			bugs[name] = false
			if !strings.Contains(log.String(), "bug in "+name) {
				t.Errorf("the bug in %s is not in the log", name)
			}
			s.answered(t)
		}
		if w := s.post(tokenOf, next); w.Code != 200 {
			t.Errorf("afterwards: %d", w.Code)
		}
	})
}
