package fetch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// gauge counts how many handlers run at once.
type gauge struct{ now, most atomic.Int64 }

func (g *gauge) in() {
	n := g.now.Add(1)
	for m := g.most.Load(); n > m && !g.most.CompareAndSwap(m, n); m = g.most.Load() {
	}
}

func (g *gauge) out() { g.now.Add(-1) }

// load asks n times from workers goroutines and returns the errors by kind.
func load(t *testing.T, c *Client, req Request, n, workers int) map[Kind]int {
	t.Helper()
	var mu sync.Mutex
	kinds := make(map[Kind]int)
	jobs := make(chan int)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := range jobs {
				r := req
				r.URL = fmt.Sprintf("%s%d", source, i)
				resp, err := c.Get(t.Context(), r)
				if err == nil {
					readAll(t, resp)
				}
				mu.Lock()
				kinds[KindOf(err)]++
				mu.Unlock()
			}
		})
	}
	for i := range n {
		jobs <- i
	}
	close(jobs)
	wg.Wait()
	return kinds
}

func TestParallelFromTheStart(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ concurrency, policy, workers, most int }{
		{0, 0, 64, 16}, {16, 0, 64, 16}, {3, 0, 64, 3}, {1, 0, 8, 1}, {64, 0, 256, 64}, {64, 5, 256, 5}, {4, 99, 64, 4},
	} {
		t.Run(fmt.Sprintf("%+v", tc), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var g gauge
				c, m := bubble(t, Options{Concurrency: tc.concurrency}, func(http.ResponseWriter, *http.Request) {
					g.in()
					defer g.out()
					<-time.After(20 * time.Millisecond)
				})
				began := time.Now()
				const n = 640
				load(t, c, Request{Policy: &Policy{Concurrency: tc.policy}}, n, tc.workers)
				took := time.Since(began)
				if int(g.most.Load()) != tc.most {
					t.Errorf("%d at once, want %d", g.most.Load(), tc.most)
				}
				// Each is kept for the next request. One more is dialed where a place gets a connection that became
				// free while its own was on the way, which then serves the next.
				if m.count() < tc.most || m.count() > tc.most+tc.most/4+1 {
					t.Errorf("%d connections for %d places", m.count(), tc.most)
				}
				// performance.md goal 4: 1.1 times the ideal, with some rounds of growth where 16 is not yet the bound.
				if ideal := n / tc.most * 20; took > time.Duration(ideal+100)*time.Millisecond {
					t.Errorf("took %v, ideal is %d ms", took, ideal)
				}
			})
		})
	}
}

func TestPlaceIsHeldUntilTheBodyIsClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, _ := bubble(t, Options{Concurrency: 1}, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "x") })
		resp, err := c.Get(t.Context(), Request{URL: source})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = c.Get(ctx, Request{URL: source})
		if e := wantKind(t, err, Canceled); e.Requests != 0 {
			t.Errorf("%+v", e)
		}
		readAll(t, resp)
		resp, err = c.Get(t.Context(), Request{URL: source})
		if err != nil {
			t.Fatal(err)
		}
		readAll(t, resp)
		_ = resp.Body.Close() // twice is harmless
		if h := c.hosts.get("source.example:80", nil); h.inflight != 0 || h.users.Load() != 1 {
			t.Errorf("%d under way, %d users", h.inflight, h.users.Load())
		}
	})
}

func TestOpenDocumentDoesNotBlockItsResources(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, _ := bubble(t, Options{Concurrency: 1}, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(make([]byte, 100_000))
		})
		for range 3 {
			list, err := c.Get(t.Context(), Request{URL: source, Gzip: true})
			if err != nil {
				t.Fatal(err)
			}
			defer readAll(t, list)
		}
		load(t, c, Request{}, 10, 4)
	})
}

// moodyHost takes 20 ms for an answer, which is 429 while it is angry. parallel asks it n times, workers at once, and tells how
// many of those were under way at most.
func moodyHost(t *testing.T, o Options, workers int) (angry *atomic.Bool, parallel func(n int) int64) {
	t.Helper()
	var g gauge
	angry = &atomic.Bool{}
	c, _ := bubble(t, o, func(w http.ResponseWriter, _ *http.Request) {
		g.in()
		defer g.out()
		<-time.After(20 * time.Millisecond)
		if angry.Load() {
			w.WriteHeader(429)
		}
	})
	return angry, func(n int) int64 {
		g.most.Store(0)
		load(t, c, Request{}, n, workers)
		return g.most.Load()
	}
}

func TestOverloadHalvesOnceARound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		angry, parallel := moodyHost(t, Options{Retries: -1}, 64)
		if n := parallel(160); n != 16 {
			t.Fatalf("%d at once", n)
		}
		angry.Store(true)
		parallel(16) // one round
		angry.Store(false)
		if n := parallel(8); n != 8 {
			t.Errorf("after one round of 429: %d at once, want 8", n)
		}
		angry.Store(true)
		parallel(60)
		angry.Store(false)
		if n := parallel(1); n != 1 {
			t.Errorf("after many rounds: %d at once, want 1", n)
		}
		if n := parallel(1000); n != 16 {
			t.Errorf("it does not recover: %d at once", n)
		}
	})
}

func TestPlacesAreFoundSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		angry, parallel := moodyHost(t, Options{Concurrency: 256, Retries: -1}, 300)
		began := time.Now()
		for i, want := range []int{64, 256, 256} { // a full round each
			if n := parallel(want); n != int64(want) {
				t.Errorf("round %d: %d at once, want %d", i, n, want)
			}
		}
		if took := time.Since(began); took != 60*time.Millisecond {
			t.Errorf("three rounds took %v", took)
		}
		angry.Store(true)
		parallel(256)
		angry.Store(false)
		if n := parallel(128); n != 128 {
			t.Errorf("after one round of 429: %d at once, want 128", n)
		}
	})
}

func TestStrayComplaintIsSoonForgotten(t *testing.T) {
	t.Parallel()
	h := newHost("source.example:80", 16, slog.New(slog.DiscardHandler))
	answers := func(n, status int) {
		for range n {
			h.report(time.Now(), time.Now(), attemptResultOf(KindUnknown, status, 0), nil)
		}
	}
	answers(100, 200)
	answers(1, 429)
	if h.limit != 8 {
		t.Fatalf("%v places after a complaint, want 8", h.limit)
	}
	answers(6, 200)
	if h.limit != 14 { // seven eighths at once …
		t.Errorf("%v places six answers later, want 14", h.limit)
	}
	answers(13, 200)
	if h.limit < 14.5 || h.limit >= 15 { // … and the rest slowly
		t.Errorf("%v places after a round", h.limit)
	}
	for range troubleMost { // it means it
		answers(1, 429)
		answers(1, 200)
	}
	if h.limit > 3 {
		t.Errorf("%v places after many complaints", h.limit)
	}
	before := h.limit
	answers(1, 200)
	if step := h.limit - before; step >= 1 {
		t.Errorf("grew by %v at once", step)
	}
}

func TestRate(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		policy float64
		want   time.Duration
	}{{10, 9900 * time.Millisecond}, {20, 4950 * time.Millisecond}, {0, 0}} {
		synctest.Test(t, func(t *testing.T) {
			c, _ := bubble(t, Options{}, func(http.ResponseWriter, *http.Request) {})
			began := time.Now()
			load(t, c, Request{Policy: &Policy{Rate: tc.policy}}, 100, 8)
			if took := time.Since(began).Round(10 * time.Millisecond); took != tc.want.Round(10*time.Millisecond) {
				t.Errorf("%+v: 100 requests took %v", tc, took)
			}
		})
	}
}

func TestRateAgainstADeadlineIsOurOwnEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, _ := bubble(t, Options{}, func(http.ResponseWriter, *http.Request) {})
		slow := &Policy{Rate: 0.01}
		load(t, c, Request{Policy: slow}, 1, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.Get(ctx, Request{URL: source, Policy: slow})
		wantKind(t, err, Canceled)
	})
}

func TestCircuit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // F78
		c, m := bubble(t, Options{Retries: -1}, func(http.ResponseWriter, *http.Request) {})
		m.set(true)
		kinds := load(t, c, Request{}, 10, 1)
		if kinds[Transient] != 10 {
			t.Fatalf("%v", kinds)
		}
		<-time.After(time.Second) // the first pause is over
		before := m.count()
		_, err := c.Get(t.Context(), Request{URL: source})
		wantKind(t, err, Transient) // the probe
		<-time.After(2 * time.Second)
		_, err = c.Get(t.Context(), Request{URL: source})
		wantKind(t, err, Transient)
		_, err = c.Get(t.Context(), Request{URL: source})
		if e := wantKind(t, err, Throttled); !errors.Is(err, ErrHostDown) || e.Requests != 0 || e.RetryAfter < 3*time.Second {
			t.Errorf("%+v", e)
		}
		if n := m.count() - before; n != 2 {
			t.Errorf("%d probes", n)
		}
		for range 20 { // for ever down: the pause doubles to its cap
			<-time.After(circuitPauseMax)
			_, err = c.Get(t.Context(), Request{URL: source})
			wantKind(t, err, Transient)
		}
		m.set(false)
		<-time.After(circuitPauseMax)
		if kinds := load(t, c, Request{}, 100, 32); kinds[KindUnknown] != 100 {
			t.Errorf("back again: %v", kinds)
		}
	})
}

func TestHalfOpenSendsOneProbe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, m := bubble(t, Options{Retries: -1}, func(http.ResponseWriter, *http.Request) {})
		m.set(true)
		load(t, c, Request{}, 10, 1)
		<-time.After(time.Second)
		before := m.count()
		kinds := load(t, c, Request{}, 50, 50)
		// The pauses of up to two seconds are waited out, each ends with one probe.
		if probes := m.count() - before; probes > 3 || kinds[Transient] != probes || kinds[Throttled] != 50-probes {
			t.Errorf("%d probes, %v", probes, kinds)
		}
	})
}

func TestPoisonDoesNotCloseTheHost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // P11
		c, _ := bubble(t, Options{Retries: -1}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
		if kinds := load(t, c, Request{}, 500, 16); kinds[Transient] != 500 {
			t.Errorf("%v", kinds)
		}
	})
}

func TestHostsAreBounded(t *testing.T) {
	t.Parallel()
	s := newHosts(Options{}.withDefaults())
	now := time.Now()
	busy, closed := s.get("busy:80", nil), s.get("closed:80", nil)
	for range overloadsToClose {
		closed.report(now, now, attemptResultOf(0, 429, time.Hour), nil)
	}
	closed.unref()
	for i := range 2 * hostsKept {
		s.get(fmt.Sprintf("host%d:80", i), nil).unref()
	}
	if len(s.all) > hostsKept || s.all["busy:80"] != busy || s.all["closed:80"] != closed {
		t.Errorf("%d hosts; busy kept: %v, closed kept: %v", len(s.all), s.all["busy:80"] == busy, s.all["closed:80"] == closed)
	}
	for i := range 2 * hostsKept {
		h := s.get(fmt.Sprintf("shut%d:80", i), nil)
		h.report(now, now, attemptResultOf(0, 429, time.Hour), nil)
		h.unref()
	}
	if len(s.all) > hostsKept || s.all["busy:80"] != busy {
		t.Errorf("%d hosts that all remember something", len(s.all))
	}
}
