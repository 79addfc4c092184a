package fetch

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"resyncd/destination/backoff"
)

func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	const port = maxAnswer
	var conns atomic.Int64
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.URL.Query().Get("n"))
		if r.URL.Query().Has("cut") {
			w.Header().Set("Content-Length", strconv.Itoa(n+1))
		}
		_, _ = w.Write(bytes.Repeat([]byte("x"), n))
	}))
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			conns.Add(1)
		}
	}
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	srv.Start()
	defer srv.Close()
	c := New(Options{Allow: loopback()})
	defer c.Close()
	for _, tc := range []struct {
		query     string
		kept      int
		cut       bool
		keepAlive bool
	}{
		{"n=0", 0, false, true}, {"n=1", 1, false, true}, {"n=4096", port, false, true}, {"n=4097", port, true, true},
		{"n=60000", port, true, true}, {"n=3000000", port, true, false}, {"n=10&cut", 10, true, false},
	} {
		if _, err := c.Send(t.Context(), Message{URL: srv.URL + "/?n=0"}); err != nil { // a fresh connection if need be
			t.Fatal(err)
		}
		before, bytesBefore := conns.Load(), c.Bytes()
		for range 3 {
			a, err := c.Send(t.Context(), Message{URL: srv.URL + "/?" + tc.query})
			if err != nil || len(a.Body) != tc.kept || a.Cut != tc.cut || a.Status != http.StatusOK {
				t.Fatalf("%s: %d bytes, %+v, %v", tc.query, len(a.Body), a, err)
			}
		}
		if fresh := conns.Load() - before; (fresh == 0) != tc.keepAlive {
			t.Errorf("%s: %d new connections", tc.query, fresh)
		}
		if read := c.Bytes() - bytesBefore; read > 3*(100_000+port) {
			t.Errorf("%s: %d bytes read", tc.query, read)
		}
	}
}

// Many messages to one host share a few connections, also after the peer has closed them all.
func TestSendReusesConnections(t *testing.T) {
	t.Parallel()
	var conns atomic.Int64
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusNoContent)
	}))
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			conns.Add(1)
		}
	}
	srv.Start()
	defer srv.Close()
	c := New(Options{Allow: loopback(), Concurrency: 1})
	defer c.Close()
	policy := &Policy{Meter: new(Meter), Concurrency: 1, Rate: 1}
	body := make([]byte, 1024)
	for round := range 3 {
		var wg sync.WaitGroup
		for range 32 {
			wg.Go(func() {
				for range 50 {
					if a, err := c.Send(t.Context(), Message{URL: srv.URL, Body: body, Policy: policy}); err != nil || a.Status != http.StatusNoContent {
						t.Errorf("%+v, %v", a, err)
					}
				}
			})
		}
		wg.Wait()
		if n := conns.Load(); n > int64(sendConnections*(round+1)) {
			t.Errorf("%d connections after round %d", n, round)
		}
		srv.CloseClientConnections()
	}
	if policy.Meter.Requests() != 4800 || c.Requests() != 4800 {
		t.Errorf("%d and %d requests counted", policy.Meter.Requests(), c.Requests())
	}
}

func TestMeters(t *testing.T) {
	t.Parallel()
	c, base := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/r" {
			http.Redirect(w, r, "/", http.StatusTemporaryRedirect)
			return
		}
		_, _ = w.Write(make([]byte, 5000))
	})
	one, two := &Policy{Meter: new(Meter)}, &Policy{Meter: new(Meter)}
	for _, p := range []*Policy{one, two, two, nil, {}} {
		resp, err := c.Get(t.Context(), Request{URL: base + "/r", Policy: p})
		if err != nil {
			t.Fatal(err)
		}
		readAll(t, resp)
		if _, err := c.Send(t.Context(), Message{URL: base, Policy: p}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Send(t.Context(), Message{URL: "http://127.0.0.1:1/", Policy: one}); err == nil {
		t.Error("an answer of nobody")
	}
	type cost struct{ requests, bytes int64 }
	var none *Meter
	got := []cost{{one.Meter.Requests(), one.Meter.Bytes()}, {two.Meter.Requests(), two.Meter.Bytes()}, {none.Requests(), none.Bytes()}, {c.Requests(), c.Bytes()}}
	if d := cmp.Diff([]cost{{3, 10000}, {6, 20000}, {0, 0}, {15, 50000}}, got, cmp.AllowUnexported(cost{})); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestSendTimeouts(t *testing.T) {
	t.Parallel()
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for name, tc := range map[string]struct {
		h       http.HandlerFunc
		timeout time.Duration
		took    time.Duration
		status  int // 0: no answer
	}{
		"no answer":               {hang, 0, 30 * time.Second, 0},
		"own timeout":             {hang, 2 * time.Second, 2 * time.Second, 0},
		"longer than headers may": {func(_ http.ResponseWriter, r *http.Request) { _ = backoff.Wait(r.Context(), 50*time.Second) }, time.Minute, 50 * time.Second, 200},
		"each hop a part of it": {func(w http.ResponseWriter, r *http.Request) {
			_ = backoff.Wait(r.Context(), 8*time.Second)
			w.Header().Set("Location", r.RequestURI+"x")
			w.WriteHeader(http.StatusTemporaryRedirect)
		}, 20 * time.Second, 20 * time.Second, 0},
		"a status, then nothing": {drip(1, 5, time.Hour), 0, answerTimeout, 200},
		"a status, then drops":   {drip(9999, 1, time.Second), 0, answerTimeout, 200},
		"a status at the end":    {drip(9999, 1, time.Second), 3 * time.Second, 3 * time.Second, 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c, _ := bubble(t, Options{}, tc.h)
				began := time.Now()
				a, err := c.Send(t.Context(), Message{URL: source, Timeout: tc.timeout, Repeat: 9})
				if took := time.Since(began).Round(100 * time.Millisecond); took != tc.took {
					t.Errorf("took %s", took)
				}
				if tc.status == 0 {
					wantKind(t, err, Stalled)
				} else if err != nil || a.Status != tc.status || a.Cut != (tc.took < 50*time.Second) {
					t.Errorf("%+v, %v", a, err)
				}
			})
		})
	}
}

func TestSendCanceled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, m := bubble(t, Options{}, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.Send(ctx, Message{URL: source})
		if e := wantKind(t, err, Canceled); !errors.Is(e, context.DeadlineExceeded) {
			t.Error(e)
		}
		m.set(true)
		_, err = c.Send(t.Context(), Message{URL: source, Policy: &Policy{Meter: new(Meter)}})
		if e := wantKind(t, err, Transient); e.Requests != 0 || e.Err == nil {
			t.Error(e)
		}
	})
}

// A connection that the peer closes as we speak is no failure of the message; a fresh one that closes is, and is not
// tried twice.
func TestSendOnClosedConnections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		c, m := bubble(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
			calls.Add(1)
			if r.URL.Path == "/drop" || r.URL.Path == "/once" && calls.Load() == 2 {
				panic(http.ErrAbortHandler)
			}
		})
		if _, err := c.Send(t.Context(), Message{URL: source, Body: []byte("x")}); err != nil {
			t.Fatal(err)
		}
		if a, err := c.Send(t.Context(), Message{URL: source + "once", Body: []byte("x")}); err != nil || a.Status != http.StatusOK || calls.Load() != 3 {
			t.Errorf("%+v, %v after %d calls", a, err, calls.Load())
		}
		c.messages.close()
		before, dials := calls.Load(), m.count()
		_, err := c.Send(t.Context(), Message{URL: source + "drop", Body: []byte("x")})
		wantKind(t, err, Transient)
		if calls.Load() != before+1 || m.count() != dials+1 {
			t.Errorf("%d calls, %d dials", calls.Load()-before, m.count()-dials)
		}
	})
}
