package fetch

import (
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// drip sends one chunk every pause until it has sent n.
func drip(n int, chunk int, pause time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for range n {
			if _, err := w.Write(make([]byte, chunk)); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
			select {
			case <-time.After(pause):
			case <-r.Context().Done():
				return
			}
		}
	}
}

func TestWatchdog(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct { // F54
		h        http.HandlerFunc
		o        Options
		kind     Kind
		min, max time.Duration
	}{
		"headers, then nothing":      {drip(1, 5, time.Hour), Options{}, Stalled, 60 * time.Second, 61 * time.Second},
		"own idle time":              {drip(1, 5, time.Hour), Options{IdleTimeout: 5 * time.Second}, Stalled, 5 * time.Second, 6 * time.Second},
		"a byte a second":            {drip(9999, 1, time.Second), Options{}, Stalled, 60 * time.Second, 62 * time.Second},
		"a byte now and then":        {drip(9999, 1, 59*time.Second), Options{}, Stalled, 60 * time.Second, 119 * time.Second},
		"slow but honest, for hours": {drip(500, 4096, 50*time.Second), Options{}, KindUnknown, 6 * time.Hour, 8 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c, _ := bubble(t, tc.o, tc.h)
				began := time.Now()
				resp, err := c.Get(t.Context(), Request{URL: source})
				if err != nil {
					t.Fatal(err)
				}
				_, err = io.Copy(io.Discard, resp.Body)
				took := time.Since(began)
				if tc.kind == KindUnknown && err != nil {
					t.Error(err)
				} else if tc.kind != KindUnknown {
					wantKind(t, err, tc.kind)
				}
				_ = resp.Body.Close()
				if took < tc.min || took > tc.max {
					t.Errorf("after %v", took)
				}
			})
		})
	}
}

func TestSlowReaderIsNotAStall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, _ := bubble(t, Options{}, drip(3, 10, time.Second))
		resp, err := c.Get(t.Context(), Request{URL: source})
		if err != nil {
			t.Fatal(err)
		}
		for range 30 { // our disk hangs for minutes between reads
			<-time.After(5 * time.Minute)
			if _, err = resp.Body.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
		}
		readAll(t, resp)
	})
}

func TestNoHeaders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, _ := bubble(t, Options{}, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		began := time.Now()
		_, err := c.Get(t.Context(), Request{URL: source})
		// The peer's timeout is a passing failure, not our cancellation, and is not sat through three times.
		if e := wantKind(t, err, Transient); e.Requests != 1 || time.Since(began) != headerTimeout {
			t.Errorf("%+v after %v", e, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = c.Get(ctx, Request{URL: source})
		wantKind(t, err, Canceled)
	})
}

func TestErrorPageCannotHoldUs(t *testing.T) {
	t.Parallel()
	for _, status := range []int{404, 500, 302} {
		synctest.Test(t, func(t *testing.T) {
			c, _ := bubble(t, Options{Retries: -1}, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/" {
					return
				}
				w.Header().Set("Location", "/end")
				w.Header().Set("Content-Length", "100")
				w.WriteHeader(status)
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			})
			began := time.Now()
			resp, err := c.Get(t.Context(), Request{URL: source})
			if err == nil {
				readAll(t, resp)
			}
			if took := time.Since(began); took > errorBodyTimeout {
				t.Errorf("%d: %v after %v", status, err, took)
			}
		})
	}
}

// TestWaitsAreTold: of the time that a download takes, just that is told in which the peer is waited for: not the pause
// before another try, nor that of our own disk.
func TestWaitsAreTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		c, _ := bubble(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
			<-time.After(time.Second)
			if tries++; tries == 1 {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			drip(3, 10, time.Second)(w, r)
		})
		var waited time.Duration
		var began time.Time
		req := Request{URL: source, Waiting: func(begins bool, at time.Time) {
			if begins == !began.IsZero() {
				t.Fatalf("told twice: %v", begins)
			}
			if begins {
				began = at
			} else {
				waited, began = waited+at.Sub(began), time.Time{}
			}
		}}
		start := time.Now()
		if _, err := c.Download(t.Context(), req, &slowSink{}, DownloadOptions{DeclaredLength: -1}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); waited < 4*time.Second || waited > 5*time.Second || took < waited+time.Minute || !began.IsZero() {
			t.Errorf("waited %v of %v", waited, took)
		}
	})
}

// slowSink is on a disk that takes a minute.
type slowSink struct{ sink }

func (s *slowSink) Write(p []byte) (int, error) {
	<-time.After(time.Minute)
	return s.sink.Write(p)
}
