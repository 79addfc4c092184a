package console

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"
)

// browser asks for a page, and returns its cookie and the token of its forms.
func browser(t *testing.T, h http.Handler) (*http.Cookie, string) {
	t.Helper()
	w := ask(h, http.MethodGet, "/source/maps")
	cookies := w.Result().Cookies()
	if len(cookies) != 1 || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteStrictMode {
		t.Fatalf("cookies %v", cookies)
	}
	token := ""
	for n := range parse(t, w.Body.String()).Descendants() {
		if n.Data == "input" && attr(n, "name") == "csrf" {
			token = attr(n, "value")
		}
	}
	if token == "" {
		t.Fatal("the page has no token")
	}
	return cookies[0], token
}

// post sends a form of that browser.
func post(h http.Handler, path string, cookie *http.Cookie, form url.Values, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if cookie != nil {
		r.AddCookie(cookie)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return send(h, r)
}

// TestForgery: only a form of our own page, in the browser that it was made for, does anything.
func TestForgery(t *testing.T) {
	t.Parallel()
	f := newFake(time.Now(), "")
	h := New(Options{Data: f})
	cookie, token := browser(t, h)
	_, othersToken := browser(t, h)
	othersCookie, restarted := browser(t, New(Options{Data: f}))
	form := func(token string) url.Values { return url.Values{"action": {"pull"}, "csrf": {token}} }
	for _, tc := range []struct {
		name   string
		cookie *http.Cookie
		form   url.Values
		header []string
		code   int
	}{
		{"as a browser sends it", cookie, form(token), []string{"Origin", "http://localhost:8091", "Sec-Fetch-Site", "same-origin"}, 303},
		{"behind a proxy that speaks TLS", cookie, form(token), []string{"Origin", "https://localhost:8091"}, 303},
		{"a program", cookie, form(token), nil, 303},
		{"no token", cookie, form(""), nil, 403},
		{"no cookie", nil, form(token), nil, 403},
		{"another browser's token", cookie, form(othersToken), nil, 403},
		{"another browser's cookie", othersCookie, form(token), nil, 403},
		{"a token from before a restart", othersCookie, form(restarted), nil, 403},
		{"a cut token", cookie, form(token[:len(token)-1]), nil, 403},
		{"another site", cookie, form(token), []string{"Origin", "http://evil.example"}, 403},
		{"another port", cookie, form(token), []string{"Origin", "http://localhost:8092"}, 403},
		{"no origin to tell", cookie, form(token), []string{"Origin", "null"}, 403},
		{"cross-site by the browser's word", cookie, form(token), []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"same site is not same origin", cookie, form(token), []string{"Sec-Fetch-Site", "same-site", "Origin", "http://localhost:8091"}, 403},
		{"typed into the address bar", cookie, form(token), []string{"Sec-Fetch-Site", "none"}, 403},
		{"another site by its referrer", cookie, form(token), []string{"Referer", "http://evil.example/localhost:8091"}, 403},
		{"not a form", cookie, form(token), []string{"Content-Type", "text/plain"}, 415},
		{"another form", cookie, form(token), []string{"Content-Type", "multipart/form-data; boundary=x"}, 415},
		{"too long", cookie, url.Values{"csrf": {token}, "action": {"pull"}, "topic": {strings.Repeat("x", mostForm)}}, nil, 400},
		{"no such action", cookie, url.Values{"csrf": {token}, "action": {"forget"}}, nil, 400},
		{"restore what", cookie, url.Values{"csrf": {token}, "action": {"restore"}}, nil, 400},
	} {
		before := len(f.asked())
		w := post(h, "/source/maps/do", tc.cookie, tc.form, tc.header...)
		if did := len(f.asked()) > before; w.Code != tc.code || did != (tc.code == 303) {
			t.Errorf("%s: %d, done %t", tc.name, w.Code, did)
		}
	}
	// The address is no place for the form.
	r := httptest.NewRequest(http.MethodPost, "/source/maps/do?"+form(token).Encode(), nil)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.AddCookie(cookie)
	if w := send(h, r); w.Code != 403 {
		t.Errorf("a form in the address: %d", w.Code)
	}
}

// TestActions: each reaches Data with what it needs, and its answer is told on the page that follows, once and as text.
func TestActions(t *testing.T) {
	t.Parallel()
	f := newFake(time.Now(), "")
	var log bytes.Buffer
	h := New(Options{Data: f, Log: slog.New(slog.NewTextHandler(&log, nil))})
	cookie, token := browser(t, h)
	for _, tc := range []struct {
		form     url.Values
		answer   string
		err      error
		want     Action
		to, told string
	}{
		{form: url.Values{"action": {"renew"}, "topic": {"https://a.example/t"}}, answer: "Asked the hub.", want: Action{Kind: Renew, Source: "maps", Topic: "https://a.example/t"}, to: "/source/maps", told: "Asked the hub."},
		{form: url.Values{"action": {"approve"}}, answer: nasty, want: Action{Kind: Approve, Source: "maps"}, to: "/source/maps", told: plain(nasty)},
		{form: url.Values{"action": {"restore"}, "uri": {"//evil.example/?a&b"}}, answer: "Restored.", want: Action{Kind: Restore, Source: "maps", URI: "//evil.example/?a&b"}, to: "/source/maps/resource", told: "Restored."},
		{form: url.Values{"action": {"pause"}}, err: errors.New("the store is full"), want: Action{Kind: Pause, Source: "maps"}, to: "/source/maps", told: "That failed: the store is full"},
		{form: url.Values{"action": {"resume"}}, err: fmt.Errorf("resume: %w", ErrUnknown), want: Action{Kind: Resume, Source: "maps"}, to: "/source/maps", told: "There is nothing of that name any more; nothing was done."},
		{form: url.Values{"action": {"pull"}, "next": {"https://evil.example/"}}, answer: strings.Repeat("long ", 1000), want: Action{Kind: Pull, Source: "maps"}, to: "/source/maps", told: strings.Repeat("long ", 400) + "…"},
	} {
		f.answer = func(Action) (string, error) { return tc.answer, tc.err }
		tc.form.Set("csrf", token)
		w := post(h, "/source/maps/do", cookie, tc.form)
		to, err := url.Parse(w.Header().Get("Location"))
		if err != nil || w.Code != 303 || to.Path != tc.to || to.Host != "" || to.Scheme != "" || !strings.HasPrefix(w.Header().Get("Location"), "/source/") {
			t.Errorf("%v: %d %q", tc.form, w.Code, w.Header().Get("Location"))
			continue
		}
		asked := f.asked()
		if diff := cmp.Diff(tc.want, asked[len(asked)-1]); diff != "" {
			t.Error(diff)
		}
		page := parse(t, ask(h, http.MethodGet, to.String()).Body.String())
		if told := textOf(byID(page, "flash")); told != strings.Join(strings.Fields(tc.told), " ") {
			t.Errorf("told %q, want %q", told, tc.told)
		}
	}
	if page := parse(t, ask(h, http.MethodGet, "/source/maps?said=<b>hello").Body.String()); byID(page, "flash") != nil {
		t.Error("anyone can have the page say something")
	}
	if !strings.Contains(log.String(), "action=approve source=maps client=192.0.2.1") || !strings.Contains(log.String(), "the store is full") || strings.Contains(log.String(), token) {
		t.Errorf("logged: %s", &log)
	}
}

// TestFlashEnds: what an action had to say is told for a while, and not for ever.
func TestFlashEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := New(Options{Data: newFake(time.Now(), "")})
		cookie, token := browser(t, h)
		w := post(h, "/source/maps/do", cookie, url.Values{"action": {"pull"}, "csrf": {token}})
		told := func() *html.Node {
			return byID(parse(t, ask(h, http.MethodGet, w.Header().Get("Location")).Body.String()), "flash")
		}
		if told() == nil {
			t.Error("nothing is told")
		}
		<-time.After(flashTime + time.Second)
		if told() != nil {
			t.Error("told for ever")
		}
	})
}

// TestBoardIsBounded: the oldest give way.
func TestBoardIsBounded(t *testing.T) {
	t.Parallel()
	var b flashes
	now := time.Now()
	first := b.pin(now, Good, "first")
	for range mostFlashes {
		b.pin(now, Good, "more")
	}
	if len(b.kept) != mostFlashes || b.find(now, first) != nil || b.find(now, "") != nil {
		t.Errorf("%d kept", len(b.kept))
	}
}

func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func byID(n *html.Node, id string) *html.Node {
	for d := range n.Descendants() {
		if d.Type == html.ElementNode && attr(d, "id") == id {
			return d
		}
	}
	return nil
}

// textOf is the text below n, with single spaces.
func textOf(n *html.Node) string {
	if n == nil {
		return ""
	}
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data + " ")
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

func parse(t *testing.T, page string) *html.Node {
	t.Helper()
	n, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
