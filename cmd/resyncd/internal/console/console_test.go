package console

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"resyncd/sync/report"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// whole has a stand-in for each function that a test does not look at.
func whole(o Options) Options {
	o.Status = func(context.Context) (any, error) { return map[string]any{}, nil }
	o.Ready = func(context.Context) error { return nil }
	return o
}

func ask(h http.Handler, method, target string) *httptest.ResponseRecorder {
	return send(h, httptest.NewRequest(method, target, nil))
}

// send has a request answered; httptest's own host is taken for ours.
func send(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	if r.Host == "example.com" {
		r.Host = "localhost:8091"
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	var broken, unready error
	h := New(Options{
		Status: func(context.Context) (any, error) {
			return map[string]any{"sources": []string{"https://a.example/?a&b", "<script>"}}, broken
		},
		Ready:   func(context.Context) error { return unready },
		Metrics: NewMetrics(),
		Log:     slog.New(slog.NewTextHandler(&log, nil)),
	})
	const status = `{"sources":["https://a.example/?a&b","<script>"]}` + "\n"
	for _, tc := range []struct {
		method, target string
		code           int
		kind, body     string
	}{
		{"GET", "/api/status", 200, "application/json", status},
		{"HEAD", "/api/status", 200, "application/json", status}, // the server leaves the body out
		{"GET", "/api/status?x=%zz", 200, "application/json", status},
		{"GET", "/healthz", 200, "text/plain; charset=utf-8", "ok\n"},
		{"GET", "/readyz", 200, "text/plain; charset=utf-8", "ready\n"},
		{"POST", "/api/status", 405, "text/plain; charset=utf-8", "only GET, HEAD here\n"},
		{"OPTIONS", "/metrics", 405, "text/plain; charset=utf-8", "only GET, HEAD here\n"},
		{"POST", "/", 405, "text/plain; charset=utf-8", "only GET, HEAD here\n"},
		{"GET", "//metrics", 404, "", ""},
		{"GET", "/metrics/", 404, "", ""},
		{"GET", "/a/../metrics", 404, "", ""},
		{"GET", "/debug/pprof/", 404, "", ""},
	} {
		w := ask(h, tc.method, tc.target)
		if w.Code != tc.code || tc.kind != "" && (w.Header().Get("Content-Type") != tc.kind || w.Body.String() != tc.body) {
			t.Errorf("%s %s: %d %q %q", tc.method, tc.target, w.Code, w.Header().Get("Content-Type"), w.Body)
		}
		if w.Header().Get("X-Content-Type-Options") != "nosniff" || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s %s: headers %v", tc.method, tc.target, w.Header())
		}
		if allow := w.Header().Get("Allow"); (allow == "GET, HEAD") != (tc.code == 405) {
			t.Errorf("%s %s: Allow %q", tc.method, tc.target, allow)
		}
	}
	if log.Len() != 0 {
		t.Errorf("logged: %s", &log)
	}

	unready = errors.New("callback not\nlistening")
	if w := ask(h, "GET", "/readyz"); w.Code != 503 || w.Body.String() != "not ready: callback not listening\n" || w.Header().Get("Retry-After") == "" {
		t.Errorf("not ready: %d %q", w.Code, w.Body)
	}
	if w := ask(h, "GET", "/healthz"); w.Code != 200 {
		t.Errorf("alive, though not ready: %d", w.Code)
	}
	broken = errors.New("the inner cause")
	if w := ask(h, "GET", "/api/status"); w.Code != 500 || strings.Contains(w.Body.String(), "cause") || !strings.Contains(log.String(), "the inner cause") {
		t.Errorf("broken status: %d %q, logged %q", w.Code, w.Body, &log)
	}
}

func TestUnspeakableStatus(t *testing.T) {
	t.Parallel()
	h := New(Options{Status: func(context.Context) (any, error) { return func() {}, nil }})
	if w := ask(h, "GET", "/api/status"); w.Code != 500 {
		t.Errorf("%d %q", w.Code, w.Body)
	}
}

// TestTimeLimit: what is asked gets a deadline, and a client that has gone is no reason to log.
func TestTimeLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		wait := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		h := New(Options{
			Status: func(ctx context.Context) (any, error) { return nil, wait(ctx) }, Ready: wait,
			Log: slog.New(slog.NewTextHandler(&log, nil)),
		})
		begin := time.Now()
		if w := ask(h, "GET", "/readyz"); w.Code != 503 || time.Since(begin) > readTime {
			t.Errorf("%d after %v", w.Code, time.Since(begin))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		send(h, httptest.NewRequestWithContext(ctx, "GET", "/api/status", nil))
		if log.Len() != 0 {
			t.Errorf("logged: %s", &log)
		}
		if w := ask(h, "GET", "/api/status"); w.Code != 500 || log.Len() == 0 {
			t.Errorf("%d, logged %q", w.Code, &log)
		}
	})
}

// TestScrapesAreBounded: more than a few at once are sent away, those that run are not disturbed.
func TestScrapesAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := NewMetrics()
		gate := make(chan struct{})
		m.Gauges = func(context.Context) []SourceGauges {
			<-gate
			return []SourceGauges{{SourceStatus: report.SourceStatus{Name: "a"}, Totals: Totals{Resources: 5}}}
		}
		h := New(Options{Metrics: m})
		bodies := make(chan string, scrapes)
		for range scrapes {
			go func() { bodies <- ask(h, "GET", "/metrics").Body.String() }()
		}
		synctest.Wait()
		if w := ask(h, "GET", "/metrics"); w.Code != 503 {
			t.Errorf("one too many: %d", w.Code)
		}
		close(gate)
		for range scrapes {
			if body := <-bodies; !strings.Contains(body, `resyncd_resources{source="a"} 5`) {
				t.Errorf("a scrape: %s", body)
			}
		}
		if w := ask(h, "GET", "/metrics"); w.Code != 200 {
			t.Errorf("afterwards: %d", w.Code)
		}
	})
}

// TestSlowScrapers: clients that do not read what they asked for leave scrapes to others.
func TestSlowScrapers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := New(Options{Metrics: NewMetrics()})
		gate, ended := make(chan struct{}), make(chan struct{})
		for range scrapes {
			go func() {
				h.ServeHTTP(&stuck{httptest.NewRecorder(), gate}, httptest.NewRequest(http.MethodGet, "/metrics", nil))
				ended <- struct{}{}
			}()
		}
		synctest.Wait()
		if w := ask(h, "GET", "/metrics"); w.Code != 200 || !strings.Contains(w.Body.String(), "resyncd_clock_jumps_total 0") {
			t.Errorf("%d", w.Code)
		}
		close(gate)
		for range scrapes {
			<-ended
		}
	})
}

// stuck is a client that reads nothing until its gate opens.
type stuck struct {
	*httptest.ResponseRecorder
	gate <-chan struct{}
}

func (s *stuck) Write(p []byte) (int, error) {
	<-s.gate
	return s.ResponseRecorder.Write(p)
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}
