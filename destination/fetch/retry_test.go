package fetch

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"resyncd/destination/fuzztest"
)

func TestRetryAfterHeader(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{ // F53
		"": 0, "0": 0, "7": 7 * time.Second, " 7 ": 7 * time.Second, "3600": time.Hour, "3601": time.Hour,
		"1000000000": time.Hour, "9223372036854775807": time.Hour, "99999999999999999999999999": time.Hour,
		"-1": 0, "1.5": 0, "1e3": 0, "soon": 0, "0x10": 0, "+5": 0, "5 s": 0, "99999999999999999999 s": 0,
		"Tue, 01 Sep 2026 12:00:09 GMT": 9 * time.Second, "Tue, 01 Sep 2026 11:00:00 GMT": 0,
		"Fri, 31 Dec 9999 23:59:59 GMT": time.Hour, "Tuesday, 01-Sep-26 12:00:09 GMT": 9 * time.Second,
		"Tue Sep  1 12:00:09 2026": 9 * time.Second,
	} {
		if got := retryAfter(http.Header{"Retry-After": {value}}, now); got != want {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
	// F74: a peer whose clock is a year behind means a distance, not a moment.
	h := http.Header{"Retry-After": {"Mon, 01 Sep 2025 12:00:30 GMT"}, "Date": {"Mon, 01 Sep 2025 12:00:00 GMT"}}
	if got := retryAfter(h, now); got != 30*time.Second {
		t.Errorf("by the peer's clock: %v", got)
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"", "120", "-1", "9223372036854775807", "Fri, 31 Dec 1999 23:59:59 GMT", "1e9", "00"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, value, date string) {
		fuzztest.Bound(t)
		d := retryAfter(http.Header{"Retry-After": {value}, "Date": {date}}, time.Unix(1e9, 0))
		if d < 0 || d > retryAfterCap {
			t.Errorf("%q at %q: %v", value, date, d)
		}
	})
}

// fail answers the first n requests with status and header, then 200.
func fail(n int64, status int, header ...string) (http.HandlerFunc, *atomic.Int64) {
	var count atomic.Int64
	return func(w http.ResponseWriter, _ *http.Request) {
		if count.Add(1) <= n {
			for i := 0; i+1 < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(status)
			return
		}
		fmt.Fprint(w, "ok")
	}, &count
}

func TestQuickRetries(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		failures int64
		status   int
		header   []string
		requests int64
		kind     Kind // KindUnknown: it went well
		min, max time.Duration
	}{
		"two 500s":               {2, 500, nil, 3, 0, 50 * time.Millisecond, 100 * time.Millisecond},
		"three 500s":             {3, 500, nil, 3, Transient, 50 * time.Millisecond, 100 * time.Millisecond},
		"501 will not change":    {1, 501, nil, 1, Transient, 0, 0},
		"404 will not change":    {1, 404, nil, 1, Gone, 0, 0},
		"403 will not change":    {1, 403, nil, 1, Denied, 0, 0},
		"429 for a second":       {1, 429, []string{"Retry-After", "1"}, 2, 0, time.Second, time.Second},
		"503 for two seconds":    {1, 503, []string{"Retry-After", "2"}, 2, 0, 2 * time.Second, 2 * time.Second},
		"503 for five: not ours": {1, 503, []string{"Retry-After", "5"}, 1, Throttled, 0, 0},
		"429 for 300 years":      {1, 429, []string{"Retry-After", "9999999999"}, 1, Throttled, 0, 0},
		"429 overflowing":        {1, 429, []string{"Retry-After", "9223372036854775807"}, 1, Throttled, 0, 0},
		"429 garbage":            {1, 429, []string{"Retry-After", "-1"}, 2, 0, 100 * time.Millisecond, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h, count := fail(tc.failures, tc.status, tc.header...)
				c, _ := bubble(t, Options{}, h)
				began := time.Now()
				resp, err := c.Get(t.Context(), Request{URL: source})
				took := time.Since(began)
				if tc.kind == KindUnknown {
					if err != nil {
						t.Fatal(err)
					}
					if int64(resp.Requests) != tc.requests {
						t.Errorf("counted %d requests", resp.Requests)
					}
					readAll(t, resp)
				} else if e := wantKind(t, err, tc.kind); int64(e.Requests) != tc.requests || e.RetryAfter > time.Hour {
					t.Errorf("%+v", e)
				}
				if count.Load() != tc.requests || c.Requests() != tc.requests || took < tc.min || took > tc.max {
					t.Errorf("%d requests (counted %d) in %v", count.Load(), c.Requests(), took)
				}
			})
		})
	}
}

// TestRetryAsksTheSame: the first try goes another way than those that follow it, and all ask alike.
func TestRetryAsksTheSame(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, _ := fail(2, 500)
		var asked []http.Header
		c, _ := bubble(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, r.Header)
			h(w, r)
		})
		u, _ := url.Parse(source)
		policy := &Policy{AuthOrigin: u.Scheme + "://" + u.Host, Auth: &Auth{Bearer: "b"}}
		resp, err := c.Get(t.Context(), Request{URL: source, Policy: policy, ETag: `"e"`, RangeFrom: 1, IfRange: `"e"`})
		if err != nil {
			t.Fatal(err)
		}
		readAll(t, resp)
		if len(asked) != 3 || asked[0].Get("Authorization") != "Bearer b" || asked[0].Get("If-Range") == "" {
			t.Fatal(asked)
		}
		for _, again := range asked[1:] {
			if !maps.EqualFunc(asked[0], again, slices.Equal) {
				t.Errorf("asked first with %v, then with %v", asked[0], again)
			}
		}
	})
}

// A worker does not sleep for as long as one resource asks to be left alone, nor does it keep others from being asked for.
func TestDownloadLeavesRetryAfterToTheQueue(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]time.Duration{"1": time.Second, "120": 2 * time.Minute, "": 0} {
		synctest.Test(t, func(t *testing.T) {
			h, count := fail(1, 429, "Retry-After", value)
			c, _ := bubble(t, Options{Concurrency: 1}, h)
			began := time.Now()
			_, err := c.Download(t.Context(), Request{URL: source}, &sink{}, DownloadOptions{DeclaredLength: -1})
			if e := wantKind(t, err, Throttled); e.RetryAfter != want || e.Requests != 1 {
				t.Errorf("%q: %+v", value, e)
			}
			res, err := c.Download(t.Context(), Request{URL: source + "other"}, &sink{}, DownloadOptions{DeclaredLength: 2})
			if took := time.Since(began); err != nil || res.Requests != 1 || count.Load() != 2 || took != 0 {
				t.Errorf("%q: %v after %v and %d requests", value, err, took, count.Load())
			}
		})
	}
}

func TestShortRetryAfterClosesTheHostWhenAllAreTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, count := fail(overloadsToClose, 429, "Retry-After", "1")
		c, _ := bubble(t, Options{}, h)
		began := time.Now()
		for range overloadsToClose - 1 {
			_, err := c.Download(t.Context(), Request{URL: source}, &sink{}, DownloadOptions{DeclaredLength: -1})
			wantKind(t, err, Throttled)
		}
		_, err := c.Download(t.Context(), Request{URL: source}, &sink{}, DownloadOptions{DeclaredLength: -1})
		if took := time.Since(began); err != nil || took != time.Second || count.Load() != overloadsToClose+1 {
			t.Errorf("%v after %v and %d requests", err, took, count.Load())
		}
	})
}

// TestThrottlingHostIsNotStormed: of a queue for a host that serves so many a second and refuses the others, nearly all
// arrives; it is not handed back as fast as the host refuses (F53).
func TestThrottlingHostIsNotStormed(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]struct {
		status int
		after  string
	}{"429": {429, ""}, "429 and when": {429, "1"}, "503": {503, ""}} {
		synctest.Test(t, func(t *testing.T) {
			const n, perSecond = 1000, 50
			bucket := rate.NewLimiter(perSecond, perSecond)
			var refused, failed atomic.Int64
			c, _ := bubble(t, Options{}, func(w http.ResponseWriter, _ *http.Request) {
				<-time.After(time.Millisecond)
				if !bucket.Allow() {
					refused.Add(1)
					if refusal.after != "" {
						w.Header().Set("Retry-After", refusal.after)
					}
					w.WriteHeader(refusal.status)
				}
			})
			var workers sync.WaitGroup
			jobs := make(chan struct{})
			for range 16 {
				workers.Go(func() {
					for range jobs {
						if _, err := c.Download(t.Context(), Request{URL: source}, &sink{}, DownloadOptions{DeclaredLength: -1}); err != nil {
							failed.Add(1)
						}
					}
				})
			}
			for range n {
				jobs <- struct{}{}
			}
			close(jobs)
			workers.Wait()
			if failed.Load() > n/8 || refused.Load() > 3*n {
				t.Errorf("%s: %d of %d failed, %d requests refused", name, failed.Load(), n, refused.Load())
			}
		})
	}
}

func TestRetryAfterClosesTheHost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, count := fail(overloadsToClose, 429, "Retry-After", "600")
		c, _ := bubble(t, Options{}, h)
		for range overloadsToClose { // one such answer may be about one resource
			_, err := c.Get(t.Context(), Request{URL: source})
			if e := wantKind(t, err, Throttled); e.RetryAfter != 10*time.Minute || e.Status != 429 {
				t.Errorf("%+v", e)
			}
		}
		_, err := c.Get(t.Context(), Request{URL: source + "other"}) // asked in vain: nothing may be sent
		if e := wantKind(t, err, Throttled); e.RetryAfter != 10*time.Minute || e.Requests != 0 || count.Load() != overloadsToClose {
			t.Errorf("%+v after %d requests", e, count.Load())
		}
		resp, err := c.Get(t.Context(), Request{URL: "http://elsewhere.example/"}) // others are not concerned
		if err != nil {
			t.Fatal(err)
		}
		readAll(t, resp)
		<-time.After(9*time.Minute + 59*time.Second)
		resp, err = c.Get(t.Context(), Request{URL: source}) // the last second is short enough to wait for
		if err != nil {
			t.Fatal(err)
		}
		readAll(t, resp)
		if count.Load() != overloadsToClose+2 {
			t.Errorf("%d requests", count.Load())
		}
	})
}

// A resource that always asks for an hour does not close the host for the others (F79).
func TestOneLamentIsNotTheHost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, _ := bubble(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/poison" {
				w.Header().Set("Retry-After", "3600")
				w.WriteHeader(503)
			}
		})
		for range 2 * overloadsToClose {
			_, err := c.Get(t.Context(), Request{URL: source + "poison"})
			wantKind(t, err, Throttled)
			resp, err := c.Get(t.Context(), Request{URL: source + "good"})
			if err != nil {
				t.Fatal(err)
			}
			readAll(t, resp)
		}
	})
}

func TestGivingUpKeepsConnections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, m := bubble(t, Options{Retries: 1}, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/bad" {
				w.WriteHeader(500)
			}
		})
		for _, path := range []string{"good", "bad", "good", "bad", "good"} {
			resp, err := c.Get(t.Context(), Request{URL: source + path})
			if err == nil {
				readAll(t, resp)
			}
		}
		if m.count() != 1 {
			t.Errorf("%d connections were made for 7 requests in a row", m.count())
		}
	})
}
