package hub

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"resyncd/destination/fetch"
	"resyncd/destination/websub"
)

// The tests of these two files prove the rules H-01 to H-21 of websub.md from the outside, one after another, in both
// dialects. Beside them stand tests of what a rule means in detail.

// TestH01: subscriptions with and without secret, whatever else the request says.
func TestH01(t *testing.T) {
	t.Parallel()
	both(t, nil, func(w *world) {
		w.join("/plain")
		w.join("/signed", "hub.secret", "s")
		w.join("/more", "foo", "bar", "hub.foo", "hub.bar", "hub.url", "nothing", "hub.challenge", "x")
		if n := w.subscriptions(); n != 3 {
			t.Errorf("%d subscriptions", n)
		}
	})
}

// TestH02: the answer of WebSub comes before the verification, and does not depend on it; that of 0.3 tells its outcome.
func TestH02(t *testing.T) {
	t.Parallel()
	both(t, nil, func(w *world) {
		old := w.taken == http.StatusNoContent
		answered := make(chan struct{})
		w.sub.on(func(rw http.ResponseWriter, q url.Values) {
			if !old {
				<-answered
			}
			rw.WriteHeader(http.StatusNotFound)
		}, nil)
		want := map[bool]int{false: http.StatusAccepted, true: http.StatusConflict}[old]
		if status := w.ask("subscribe", "/refuses"); status != want {
			w.Errorf("answered %d, want %d", status, want)
		}
		close(answered)
		w.event(eventUnverified)
		if status := w.ask("subscribe", "", "hub.callback", "http://127.0.0.1:1/nobody"); status != want {
			w.Errorf("for an unreachable callback answered %d, want %d", status, want)
		}
	})
}

// TestH03: what is refused, with the parameter's name and without what it was.
func TestH03(t *testing.T) {
	t.Parallel()
	both(t, nil, func(w *world) {
		for _, c := range [][2]string{
			{"hub.mode", ""}, {"hub.mode", "Subscribe"}, {"hub.mode", "denied"},
			{"hub.callback", ""}, {"hub.callback", "/relative"}, {"hub.callback", "mailto:a@b"}, {"hub.callback", "ftp://h/cb"},
			{"hub.callback", "http://"}, {"hub.callback", "http://h/cb#frag"}, {"hub.callback", "invalid url"}, {"hub.callback", "http://h:port/"},
			{"hub.callback", "http://h/" + strings.Repeat("x", 10_000)},
			{"hub.topic", ""}, {"hub.topic", "topic"}, {"hub.topic", "file:///etc/passwd"}, {"hub.topic", "http://h/feed#frag"}, {"hub.topic", "http://h/#"},
			{"hub.secret", strings.Repeat("s", 200)}, {"hub.secret", strings.Repeat("é", 100)},
			{"hub.lease_seconds", "abc"}, {"hub.lease_seconds", "0"}, {"hub.lease_seconds", "000"}, {"hub.lease_seconds", "-1"},
			{"hub.lease_seconds", "1.5"}, {"hub.lease_seconds", "1e3"}, {"hub.lease_seconds", " 5"}, {"hub.lease_seconds", "5 "},
			{"hub.lease_seconds", "+5"}, {"hub.lease_seconds", "0x10"}, {"hub.lease_seconds", "٣"}, {"hub.lease_seconds", "5\n"},
		} {
			v := url.Values{"hub.mode": {"subscribe"}, "hub.callback": {w.sub.URL + "/cb"}, "hub.topic": {w.topic()}}
			for i := 0; i < len(w.extra); i += 2 {
				v.Add(w.extra[i], w.extra[i+1])
			}
			if v.Set(c[0], c[1]); c[1] == "" {
				v.Del(c[0])
			}
			resp, text := w.say(http.MethodPost, websub.FormType, v.Encode(), nil)
			if resp.StatusCode != http.StatusBadRequest || !strings.Contains(text, c[0]) ||
				resp.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
				w.Errorf("%s %.30q: answered %d %s %q", c[0], c[1], resp.StatusCode, resp.Header.Get("Content-Type"), text)
			}
			if (c[0] == "hub.callback" || c[0] == "hub.secret") && c[1] != "" && strings.Contains(text, c[1]) {
				w.Errorf("the answer repeats %s: %q", c[0], text)
			}
		}
		query := "?hub.mode=subscribe&hub.topic=http://h/&hub.callback=" + w.sub.URL
		for _, c := range []struct {
			method, kind, body string
			want               int
		}{
			{http.MethodGet, "", "", 405}, {http.MethodHead, "", "", 405}, {http.MethodPut, websub.FormType, "", 405}, {http.MethodDelete, "", "", 405},
			{http.MethodPost, "application/json", `{"hub.mode":"subscribe"}`, 415}, {http.MethodPost, "text/plain", "hub.mode=subscribe", 415},
			{http.MethodPost, "multipart/form-data; boundary=x", "--x--", 415}, {http.MethodPost, "", "", 415}, {http.MethodPost, websub.FormType, "", 400},
		} {
			if resp, _ := w.sayTo(w.url()+query, c.method, c.kind, c.body, nil); resp.StatusCode != c.want {
				w.Errorf("%s as %q: answered %d, want %d", c.method, c.kind, resp.StatusCode, c.want)
			}
		}
		if len(w.sub.asked) != 0 {
			w.Errorf("%d verifications of refused requests", len(w.sub.asked))
		}
	})
}

// TestH04: both modes are verified, with a challenge that nobody can guess and that comes once.
func TestH04(t *testing.T) {
	t.Parallel()
	both(t, nil, func(w *world) {
		seen := map[string]bool{}
		check := func(mode string, q url.Values) {
			w.Helper()
			c := q.Get("hub.challenge")
			if q.Get("hub.mode") != mode || q.Get("hub.topic") != w.topic() || len(c) < 22 || seen[c] ||
				strings.Trim(c, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
				w.Errorf("asked %v", q)
			}
			seen[c] = true
		}
		for range 3 {
			check("subscribe", w.join("/cb"))
		}
		w.sub.on(func(rw http.ResponseWriter, _ url.Values) { rw.WriteHeader(404) }, nil)
		w.ask("unsubscribe", "/cb")
		next(w, w.sub.asked)
		w.event(eventUnverified)
		if n := w.subscriptions(); n != 1 {
			w.Errorf("%d subscriptions after an unsubscribe that nobody confirmed", n)
		}
		w.sub.on(nil, nil)
		w.ask("unsubscribe", "/cb")
		check("unsubscribe", w.query(next(w, w.sub.asked), "/cb"))
		w.event(eventEnded)
		if n := w.subscriptions(); n != 0 {
			w.Errorf("%d subscriptions after an unsubscribe", n)
		}
		w.ask("unsubscribe", "/never") // of what is not there: no error, nothing happens
		check("unsubscribe", w.query(next(w, w.sub.asked), "/never"))
	})
}

// TestH05: which answers confirm.
func TestH05(t *testing.T) {
	t.Parallel()
	both(t, nil, func(w *world) {
		for name, c := range map[string]struct {
			answer   func(rw http.ResponseWriter, challenge string)
			confirms bool
		}{
			"200": {func(rw http.ResponseWriter, c string) { io.WriteString(rw, c) }, true},
			"201": {func(rw http.ResponseWriter, c string) { rw.WriteHeader(201); io.WriteString(rw, c) }, true},
			"299": {func(rw http.ResponseWriter, c string) { rw.WriteHeader(299); io.WriteString(rw, c) }, true},
			"as html": {func(rw http.ResponseWriter, c string) {
				rw.Header().Set("Content-Type", "text/html")
				io.WriteString(rw, c)
			}, true},
			"empty":        {func(http.ResponseWriter, string) {}, false},
			"204":          {func(rw http.ResponseWriter, c string) { rw.WriteHeader(204) }, false},
			"other":        {func(rw http.ResponseWriter, c string) { io.WriteString(rw, "NOT THE CHALLENGE") }, false},
			"newline":      {func(rw http.ResponseWriter, c string) { io.WriteString(rw, c+"\n") }, false},
			"blank before": {func(rw http.ResponseWriter, c string) { io.WriteString(rw, " "+c) }, false},
			"lower case":   {func(rw http.ResponseWriter, c string) { io.WriteString(rw, strings.ToLower(c)) }, false},
			"json":         {func(rw http.ResponseWriter, c string) { fmt.Fprintf(rw, "%q", c) }, false},
			"much more":    {func(rw http.ResponseWriter, c string) { io.WriteString(rw, c+strings.Repeat(" ", 9000)) }, false},
			"redirect": {func(rw http.ResponseWriter, c string) {
				rw.Header().Set("Location", "/yes")
				rw.WriteHeader(302)
				io.WriteString(rw, c)
			}, false},
			"308": {func(rw http.ResponseWriter, c string) {
				rw.Header().Set("Location", "/yes")
				rw.WriteHeader(308)
				io.WriteString(rw, c)
			}, false},
			"404":            {func(rw http.ResponseWriter, c string) { rw.WriteHeader(404); io.WriteString(rw, c) }, false},
			"410":            {func(rw http.ResponseWriter, c string) { rw.WriteHeader(410); io.WriteString(rw, c) }, false},
			"another's 2xx ": {func(rw http.ResponseWriter, c string) { io.WriteString(rw, c[1:]+c[:1]) }, false},
		} {
			w.sub.on(func(rw http.ResponseWriter, q url.Values) { c.answer(rw, q.Get("hub.challenge")) }, nil)
			status := w.ask("subscribe", "/cb")
			next(w, w.sub.asked)
			if c.confirms {
				w.event(eventVerified)
				w.sub.on(nil, nil)
				w.ask("unsubscribe", "/cb")
				next(w, w.sub.asked)
				w.event(eventEnded)
			} else {
				w.event(eventUnverified)
			}
			if n := w.subscriptions(); n != 0 {
				w.Errorf("%s: %d subscriptions", name, n)
			}
			if old := w.taken == http.StatusNoContent; old && (status == http.StatusNoContent) != c.confirms {
				w.Errorf("%s: answered %d", name, status)
			}
		}
		if len(w.sub.asked) != 0 {
			w.Errorf("asked again, or asked for the target of a redirect: %d", len(w.sub.asked))
		}
	})
}

// TestH06: the callback is used as it was given, with what the hub has to say behind it.
func TestH06(t *testing.T) {
	t.Parallel()
	both(t, nil, func(w *world) {
		w.sub.on(func(rw http.ResponseWriter, q url.Values) {
			all := q["hub.challenge"] // the last is the hub's
			_, _ = io.WriteString(rw, all[len(all)-1])
		}, nil)
		for _, callback := range []string{"/cb", "/cb?x=y", "/cb?z=y&a=b;c", "/cb?hub.challenge=imahacker&hub.mode=x", "/a%2Fb//c/?q=%20+%C3%A9", "/cb?x", "/?u=http://h/?a=b"} {
			if q := w.join(callback); q.Get("hub.challenge") == "" || q.Get("hub.topic") != w.topic() || q.Get("hub.mode") != "subscribe" {
				w.Errorf("%s: asked %v", callback, q)
			}
			w.push(202, w.topic(), callback)
			if h := next(w, w.sub.got); h.target != callback || h.body != callback {
				w.Errorf("content for %s went to %s", callback, h.target)
			}
			w.ask("unsubscribe", callback)
			next(w, w.sub.asked)
			w.event(eventEnded)
		}
	})
}

// TestH07: a renewal changes lease and secret, once it is verified, of the one subscription.
func TestH07(t *testing.T) {
	t.Parallel()
	both(t, nil, func(w *world) {
		w.join("/cb", "hub.secret", "one")
		w.sub.on(func(rw http.ResponseWriter, _ url.Values) { rw.WriteHeader(404) }, nil)
		w.ask("subscribe", "/cb", "hub.secret", "stolen")
		next(w, w.sub.asked)
		w.event(eventUnverified)
		w.sub.on(nil, nil)
		for i, secret := range []string{"one", "two", ""} {
			if i > 0 {
				w.join("/cb", "hub.secret", secret)
			}
			body := "content for " + secret
			w.push(202, w.topic(), body)
			h := next(w, w.sub.got)
			switch signature := h.header.Get("X-Hub-Signature"); {
			case secret == "" && signature != "":
				w.Errorf("signed after the secret was taken back: %s", signature)
			case secret != "":
				if err := websub.VerifySignature(signature, secret, []byte(body), websub.SHA1); err != nil {
					w.Errorf("secret %s: %v", secret, err)
				}
			}
		}
		if n := w.subscriptions(); n != 1 || len(w.sub.got) != 0 {
			w.Errorf("%d subscriptions, %d more deliveries", n, len(w.sub.got))
		}
	})
}

// TestH08: leases are finite, said, and over when they are over.
func TestH08(t *testing.T) {
	t.Parallel()
	both(t, func(o *Options) {
		o.MinLease, o.MaxLease, o.defaultLease = 300*time.Second, 1000*time.Second, 500*time.Second
	}, func(w *world) {
		for asked, want := range map[string]string{"": "500", "1": "300", "300": "300", "0400": "400", "1000": "1000", "2678400": "1000",
			"99999999999999999999999999": "1000"} {
			var params []string
			if asked != "" {
				params = []string{"hub.lease_seconds", asked}
			}
			if q := w.join("/cb", params...); q.Get("hub.lease_seconds") != want {
				w.Errorf("asked for %q, granted %q, want %q", asked, q.Get("hub.lease_seconds"), want)
			}
		}
	})
	inBubble(t, Options{}, func(b *bubble) {
		b.subscribe(cb, "hub.lease_seconds", "400")
		b.net.change(func(n *still) {
			n.ask = func(url.Values) (*fetch.Answer, error) { return &fetch.Answer{Status: 404}, nil }
		})
		pass(401 * time.Second)
		b.push("late")
		pass(time.Minute)
		if len(b.net.contents(cb)) != 0 || len(b.subscriptions()) != 0 {
			t.Errorf("after the lease: %v, %v", b.net.contents(cb), b.subscriptions())
		}
	})
}

// TestH09: who asks for a topic that is not served is told so, in the manner of its dialect.
func TestH09(t *testing.T) {
	t.Parallel()
	both(t, func(o *Options) { o.TopicPrefixes = []string{"https://only.example/"} }, func(w *world) {
		status := w.ask("subscribe", "/cb?x=1")
		if w.taken == http.StatusNoContent {
			if status != http.StatusConflict {
				w.Errorf("answered %d", status)
			}
			return
		}
		q := w.query(next(w, w.sub.asked), "/cb?x=1")
		if status != 202 || q.Get("hub.mode") != "denied" || q.Get("hub.topic") != w.topic() || q.Get("hub.reason") == "" || q.Has("hub.challenge") {
			w.Errorf("answered %d, told %v", status, q)
		}
	})
}

// TestH10: a hub may send subscribers elsewhere; this one answers for itself at each of its addresses.
func TestH10(t *testing.T) {
	t.Parallel()
	both(t, nil, func(w *world) {
		for _, at := range []string{"/hub", "/hub/", "/"} {
			v := url.Values{"hub.mode": {"subscribe"}, "hub.callback": {w.sub.URL}, "hub.topic": {w.topic()}}
			if resp, _ := w.sayTo(w.http.URL+at, http.MethodPost, websub.FormType, v.Encode(), nil); resp.StatusCode != 202 || resp.Header.Get("Location") != "" {
				w.Errorf("%s: answered %d %v", at, resp.StatusCode, resp.Header)
			}
		}
	})
}
