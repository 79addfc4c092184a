package console

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestHosts(t *testing.T) {
	t.Parallel()
	h := New(whole(Options{Data: newFake(time.Now(), ""), Metrics: NewMetrics(), Hosts: []string{"console.example.org"}}))
	for host, code := range map[string]int{
		"localhost": 200, "localhost:8091": 200, "LOCALHOST.:1": 200, "x.localhost": 200, "127.0.0.1:8091": 200, "[::1]:8091": 200, "[::1]": 200,
		"192.0.2.7:8091":      200, // an address cannot be pointed elsewhere
		"console.example.org": 200, "Console.Example.org.:443": 200,
		"evil.example": 421, "evil.example:8091": 421, "localhost.evil.example": 421, "127.0.0.1.evil.example": 421, "xlocalhost": 421, "": 421,
		"sub.console.example.org": 421, "2130706433": 421, "0x7f.1": 421, "127.0.0.1@evil.example": 421,
	} {
		for path, open := range map[string]bool{
			"/": false, "/source/maps": false, "/api/events?": false, "/assets/x": false, "/nothing": false, "/healthz": true, "/metrics": true,
		} {
			r := httptest.NewRequest(http.MethodHead, path, nil)
			r.Host = host
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if refused := w.Code == http.StatusMisdirectedRequest; refused != (code == 421 && !open) {
				t.Errorf("Host %q %s: %d", host, path, w.Code)
			}
		}
	}
}

func TestAuth(t *testing.T) {
	t.Parallel()
	both := &Auth{User: "ann", Password: "pass:word", Token: "t0ken"}
	for _, tc := range []struct {
		name  string
		auth  *Auth
		set   func(*http.Request)
		admit bool
	}{
		{"open", nil, func(*http.Request) {}, true},
		{"nothing given", both, func(*http.Request) {}, false},
		{"basic", both, func(r *http.Request) { r.SetBasicAuth("ann", "pass:word") }, true},
		{"wrong password", both, func(r *http.Request) { r.SetBasicAuth("ann", "pass:wor") }, false},
		{"wrong user", both, func(r *http.Request) { r.SetBasicAuth("Ann", "pass:word") }, false},
		{"bearer", both, func(r *http.Request) { r.Header.Set("Authorization", "bearer t0ken") }, true},
		{"wrong bearer", both, func(r *http.Request) { r.Header.Set("Authorization", "Bearer T0ken") }, false},
		{"empty bearer", both, func(r *http.Request) { r.Header.Set("Authorization", "Bearer ") }, false},
		{"token as a password", both, func(r *http.Request) { r.SetBasicAuth("whoever", "t0ken") }, true},
		{"password as a token", both, func(r *http.Request) { r.Header.Set("Authorization", "Bearer pass:word") }, false},
		{"token only, empty basic", &Auth{Token: "t0ken"}, func(r *http.Request) { r.SetBasicAuth("", "") }, false},
		{"nothing configured", &Auth{}, func(r *http.Request) { r.SetBasicAuth("", "") }, false},
		{"nothing configured, bearer", &Auth{}, func(r *http.Request) { r.Header.Set("Authorization", "Bearer ") }, false},
		{"user without a password", &Auth{User: "ann"}, func(r *http.Request) { r.SetBasicAuth("ann", "") }, false},
		{"garbage", both, func(r *http.Request) { r.Header.Set("Authorization", "Basic %%%") }, false},
	} {
		h := New(whole(Options{Data: newFake(time.Now(), ""), Metrics: NewMetrics(), Auth: tc.auth}))
		for _, path := range []string{"/", "/source/maps", "/api/events", "/api/status", "/metrics", at("console.css"), "/nothing", "/source/maps/do", "/healthz"} {
			r := httptest.NewRequest(http.MethodHead, path, nil)
			tc.set(r)
			w := send(h, r)
			if refused := w.Code == http.StatusUnauthorized; refused != (!tc.admit && path != "/healthz") {
				t.Errorf("%s, %s: %d", tc.name, path, w.Code)
			} else if refused && !strings.Contains(strings.Join(w.Header().Values("WWW-Authenticate"), ", "), "Basic realm=") {
				t.Errorf("%s, %s: %q", tc.name, path, w.Header())
			}
		}
	}
}

// TestHeaders: what every answer carries, and what the pages add.
func TestHeaders(t *testing.T) {
	t.Parallel()
	h := New(whole(Options{Data: newFake(time.Now(), ""), Metrics: NewMetrics()}))
	const uri = "?uri=https://a.example/1"
	for _, tc := range []struct {
		path, policy, kind, cache string
		code                      int
	}{
		{"/", pagePolicy, "text/html; charset=utf-8", "no-store", 200},
		{"/source/maps", pagePolicy, "text/html; charset=utf-8", "no-store", 200},
		{"/source/maps/find?q=a", pagePolicy, "text/html; charset=utf-8", "no-store", 200},
		{"/source/maps/resource" + uri, pagePolicy, "text/html; charset=utf-8", "no-store", 200},
		{"/source/maps/bytes" + uri, "sandbox; default-src 'none'", "application/octet-stream", "no-store", 200},
		{"/nothing", pagePolicy, "text/html; charset=utf-8", "no-store", 404},
		{"/source/nobody", pagePolicy, "text/html; charset=utf-8", "no-store", 404},
		{"/source/maps/", pagePolicy, "text/html; charset=utf-8", "no-store", 404},
		{"/source//find", pagePolicy, "text/html; charset=utf-8", "no-store", 404},
		{"/source/maps/find/x", pagePolicy, "text/html; charset=utf-8", "no-store", 404},
		{"/source/maps/bytes", pagePolicy, "text/html; charset=utf-8", "no-store", 404},
		{at("console.js"), "default-src 'none'; frame-ancestors 'none'", "text/javascript; charset=utf-8", "public, max-age=31536000, immutable", 200},
		{at("favicon.svg"), "default-src 'none'; frame-ancestors 'none'", "image/svg+xml", "public, max-age=31536000, immutable", 200},
		{"/assets/console.css", pagePolicy, "text/html; charset=utf-8", "no-store", 404},
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			w := ask(h, method, tc.path)
			got := w.Header()
			if w.Code != tc.code || got.Get("Content-Security-Policy") != tc.policy || got.Get("Content-Type") != tc.kind || got.Get("Cache-Control") != tc.cache ||
				got.Get("X-Content-Type-Options") != "nosniff" || got.Get("Referrer-Policy") == "" || got.Get("Cross-Origin-Resource-Policy") != "same-origin" {
				t.Errorf("%s %s: %d %v", method, tc.path, w.Code, got)
			}
		}
		if w := ask(h, http.MethodPut, tc.path); tc.code == 200 && (w.Code != 405 || w.Header().Get("Allow") != "GET, HEAD") {
			t.Errorf("PUT %s: %d", tc.path, w.Code)
		}
	}
	if w := ask(h, http.MethodGet, "/source/maps/do"); w.Code != 405 || w.Header().Get("Allow") != "POST" {
		t.Errorf("GET do: %d %v", w.Code, w.Header())
	}
}
