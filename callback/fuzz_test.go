package callback

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"resyncd/destination/fuzztest"
	"resyncd/destination/websub"
	"resyncd/store"
)

// FuzzQuery: whatever a GET asks, it is answered 200 or 404, and what is sent back is a challenge that was asked for and
// harmless.
func FuzzQuery(f *testing.F) {
	for _, q := range []string{
		query("subscribe", topic, "abc")[1:], query("denied", topic, "")[1:], query("unsubscribe", topic, "<script>")[1:],
		"?" + query("subscribe", topic, "abc"), "hub.mode=subscribe&hub.topic=" + topic + "&hub.challenge=%0d%0a", "hub.mode=subscribe;hub.challenge=a", "%", "&&&", "",
	} {
		f.Add(q)
	}
	s := start(f, nil)
	f.Fuzz(func(t *testing.T, q string) {
		fuzztest.Bound(t)
		r := httptest.NewRequest("GET", "/cb/"+tokenOf, nil)
		r.URL.RawQuery = q
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		body := w.Body.String()
		switch {
		case w.Code == http.StatusNotFound:
		case w.Code == http.StatusOK && body == "":
			if !strings.Contains(q, "denied") {
				t.Errorf("%q was taken as a denial", q)
			}
		case w.Code == http.StatusOK:
			plain, err := url.QueryUnescape(q)
			if !websub.ValidChallenge(body) || err == nil && !strings.Contains(plain, body) && !strings.Contains(q, body) {
				t.Errorf("%q was answered %q", q, body)
			}
		default:
			t.Errorf("%q was answered %d", q, w.Code)
		}
		for name, values := range w.Header() {
			if strings.ContainsAny(name+strings.Join(values, ""), "\r\n") {
				t.Errorf("header %q: %q", name, values)
			}
		}
	})
}

// FuzzPost: whatever is posted with a right signature is acknowledged and kept as it came (S-61).
func FuzzPost(f *testing.F) {
	next := change("2026-01-01T00:00:10Z", "2026-01-01T00:00:20Z")
	for _, body := range []string{next, next[:80], "", "\x1f\x8b", gzipped(f, next), "<urlset/>", strings.Repeat("<a>", 100), "\xef\xbb\xbf" + next} {
		f.Add(body, tokenOf, "")
		f.Add(body, "framework-token", "gzip")
	}
	s := start(f, func(o *Options) { o.MaxBody, o.limits.inboxDeliveries = 1<<16, 1<<40 })
	f.Fuzz(func(t *testing.T, body, token, coding string) {
		fuzztest.Bound(t)
		if token != tokenOf && token != "framework-token" && token != "unsigned-token" {
			token = tokenOf
		}
		r := httptest.NewRequest("POST", "/cb/"+token, strings.NewReader(body))
		r.Header["Content-Encoding"] = []string{coding}
		r.Header["X-Hub-Signature"] = []string{sign(body)}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		var kept []store.Delivery
		s.store.set(func(f *fakeStore) { kept, f.kept = f.kept, nil })
		if len(body) > 1<<16 {
			if w.Code != http.StatusRequestEntityTooLarge || len(kept) > 0 {
				t.Errorf("answered %d", w.Code)
			}
			return
		}
		switch {
		case w.Code == http.StatusRequestEntityTooLarge && coding != "": // once decoded
		case w.Code != http.StatusOK || len(kept) != 1:
			t.Errorf("answered %d, kept %d", w.Code, len(kept))
		case coding == "" && string(kept[0].Body) != body:
			t.Error("kept something else")
		}
	})
}

// FuzzToken: nothing but the one path is a callback.
func FuzzToken(f *testing.F) {
	for _, p := range []string{"/cb/" + tokenOf, "/cb//" + tokenOf, "/cb/x/../" + tokenOf, "/cb/%61", "//cb/" + tokenOf, "/cb/" + tokenOf + "/", "*", ""} {
		f.Add(p)
	}
	s := start(f, nil)
	f.Fuzz(func(t *testing.T, path string) {
		fuzztest.Bound(t)
		r := httptest.NewRequest("POST", "/", strings.NewReader("x"))
		u, err := url.ParseRequestURI(path)
		if err != nil {
			return
		}
		r.URL = u
		r.Header.Set("X-Hub-Signature", sign("x"))
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		for token, sub := range s.store.subs {
			if u.EscapedPath() == "/cb/"+token {
				if w.Code == http.StatusNotFound {
					t.Errorf("%q: %d for subscription %d", path, w.Code, sub.ID)
				}
				return
			}
		}
		if w.Code != http.StatusNotFound {
			t.Errorf("%q was answered %d", path, w.Code)
		}
	})
}
