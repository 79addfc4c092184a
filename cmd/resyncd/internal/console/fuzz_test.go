package console

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"resyncd/destination/fuzztest"
)

// FuzzRequest: whatever is asked of the console, it answers, does nothing without its token, and repeats nothing raw.
func FuzzRequest(f *testing.F) {
	data := newFake(time.Now(), "")
	for _, target := range append(everyPage(data), "/metrics", "/api/status", "/healthz", "/readyz", "//", "/..%2f", "/source/%00", "/?q=%ff") {
		f.Add(http.MethodGet, target, "", "")
	}
	f.Add(http.MethodPost, "/act", "application/x-www-form-urlencoded", "do=pull&source=maps&token=x")
	f.Add(http.MethodPost, "/source/maps/act", "multipart/form-data; boundary=x", "--x\r\n\r\n--x--")
	h := New(whole(Options{Data: data, Metrics: NewMetrics()}))
	f.Fuzz(func(t *testing.T, method, target, contentType, body string) {
		fuzztest.Bound(t)
		u, err := url.ParseRequestURI(target)
		if err != nil || strings.HasPrefix(u.Path, "/api/events") { // that one goes on until the asker leaves
			return
		}
		r := httptest.NewRequest(http.MethodGet, "/", strings.NewReader(body))
		r.Method, r.URL, r.RequestURI = method, u, target
		r.Header["Content-Type"] = []string{contentType}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code >= 500 && w.Code != http.StatusServiceUnavailable {
			t.Errorf("%s %q: %d", method, target, w.Code)
		}
		if strings.Contains(w.Header().Get("Content-Type"), "html") && strings.Contains(w.Body.String(), "<script>alert(") {
			t.Errorf("%s %q is repeated raw", method, target)
		}
		if len(data.done) > 0 {
			t.Fatalf("%s %q did %v", method, target, data.done)
		}
	})
}
