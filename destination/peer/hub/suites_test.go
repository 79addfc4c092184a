package hub

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"resyncd/destination/fetch"
	"resyncd/destination/fuzztest"
	"resyncd/destination/websub"
)

// TestRocks goes through the tests of a hub of the public suite websub.rocks, 100 to 106, as they are made there: a blog
// that gets a post and pings with hub.topic, and a subscriber that compares what comes with what the blog shows.
func TestRocks(t *testing.T) {
	t.Parallel()
	for num, c := range map[int]struct {
		name, kind string
		params     []string
	}{
		100: {"typical subscriber request", "text/html; charset=UTF-8", nil},
		101: {"subscription with secret", "text/html; charset=UTF-8", []string{"hub.secret", "aRandomStringOf20Cha"}},
		102: {"additional parameters", "text/html; charset=UTF-8", []string{"foo", "bar", "hub.foo", "hub.bar"}},
		103: {"re-subscribes before expiration", "text/html; charset=UTF-8", nil},
		104: {"unsubscription", "text/html; charset=UTF-8", nil},
		105: {"plaintext topic", "text/plain", nil},
		106: {"JSON topic", "application/json", nil},
	} {
		t.Run(fmt.Sprint(num), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, dialects[0], nil)
			w.page.set(func(p *page) {
				p.kind, p.body = c.kind, "the blog without the post"
				p.header = http.Header{"Link": {"<" + w.topic() + `>; rel="self"`, "<" + w.url() + `>; rel="hub"`}}
			})
			callback := fmt.Sprintf("/hub/%d/sub/token", num)
			q := w.join(callback, c.params...)
			if num == 103 {
				q = w.join(callback, c.params...)
			}
			for _, name := range []string{"hub.mode", "hub.topic", "hub.challenge", "hub.lease_seconds"} {
				if q.Get(name) == "" {
					t.Errorf("the verification lacks %s", name)
				}
			}
			if num == 104 {
				if status := w.ask("unsubscribe", callback); status != http.StatusAccepted {
					t.Errorf("answered %d", status)
				}
				w.event(eventEnded)
			}
			w.page.set(func(p *page) { p.body = "the blog with a post" })
			w.form(http.StatusAccepted, "hub.mode", "publish", "hub.topic", w.topic())
			if num == 104 {
				w.form(http.StatusAccepted, "hub.mode", "publish", "hub.topic", w.topic())
				if len(w.sub.got) != 0 || w.page.gets() != 0 {
					t.Error("told after it had unsubscribed")
				}
				return
			}
			h := next(t, w.sub.got)
			links := websub.ParseLinks([]string{strings.Join(h.header.Values("Link"), ", ")}, nil)
			hubs, selves := websub.Targets(links, "hub"), websub.Targets(links, "self")
			if h.body != "the blog with a post" || h.header.Get("Content-Type") != c.kind || len(hubs) != 1 || hubs[0] != w.url() ||
				len(selves) != 1 || selves[0] != w.topic() {
				t.Errorf("%q as %s with %v", h.body, h.header.Get("Content-Type"), links)
			}
			signature := h.header.Get("X-Hub-Signature")
			if num == 101 {
				if err := websub.VerifySignature(signature, c.params[1], []byte(h.body), websub.SHA256); err != nil {
					t.Error(err)
				}
			} else if signature != "" {
				t.Errorf("signed with %s, which nobody expects", signature)
			}
			w.event(eventDelivered)
			if len(w.sub.got) != 0 {
				t.Errorf("%d more notifications", len(w.sub.got))
			}
		})
	}
}

// TestOldSuite goes through what the public test suite for hubs of PubSubHubbub 0.2 and 0.3 asks beyond the rules that
// TestH01 to TestH21 prove. What it asks against WebSub is not asked here: that hub.verify must be there (H-21).
func TestOldSuite(t *testing.T) {
	t.Parallel()
	t.Run("every status but 2xx fails a synchronous verification", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, dialects[1], nil)
		for _, status := range []int{300, 301, 302, 303, 304, 305, 307, 400, 401, 403, 404, 405, 406, 408, 409, 410, 415, 417, 429, 500, 501, 502, 503, 504, 505} {
			w.sub.on(func(rw http.ResponseWriter, _ url.Values) { rw.WriteHeader(status) }, nil)
			for _, mode := range []string{"subscribe", "unsubscribe"} {
				if got := w.ask(mode, "/cb"); got != http.StatusConflict {
					t.Errorf("%s: the callback says %d, the hub %d", mode, status, got)
				}
				next(t, w.sub.asked)
			}
		}
		if len(w.sub.asked) != 0 || w.subscriptions() != 0 {
			t.Errorf("asked %d times more, %d subscriptions", len(w.sub.asked), w.subscriptions())
		}
	})
	t.Run("an asynchronous one is tried again, and then changes nothing", func(t *testing.T) {
		t.Parallel()
		inBubble(t, Options{}, func(b *bubble) {
			asked := 0
			b.net.change(func(n *still) {
				n.ask = func(url.Values) (*fetch.Answer, error) { asked++; return &fetch.Answer{Status: 500}, nil }
			})
			b.subscribe(cb, "hub.verify", "async")
			pass(6 * time.Second) // as long as the suite waits
			if n := b.net.count(func() int { return asked }); n < 3 {
				t.Errorf("asked %d times", n)
			}
			pass(time.Hour)
			if n := b.net.count(func() int { return asked }); n != len(verifyAgain)+1 || len(b.subscriptions()) != 0 {
				t.Errorf("asked %d times, %d subscriptions", n, len(b.subscriptions()))
			}
		})
	})
	t.Run("a publisher", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, dialects[1], nil)
		w.join("/cb")
		for _, c := range []struct {
			method, query, kind, body string
			want                      int
		}{
			{http.MethodGet, "?hub.mode=publish&hub.url=http://example.com/", "", "", 405},
			{http.MethodPost, "?hub.mode=publish&hub.url=http://example.com/", "application/json", `{"hub.mode":"publish"}`, 415},
			{http.MethodPost, "", websub.FormType, "hub.url=http://example.com/", 400},
			{http.MethodPost, "", websub.FormType, "hub.mode=&hub.url=http://example.com/", 400},
			{http.MethodPost, "", websub.FormType, "hub.mode=publish", 400},
			{http.MethodPost, "", websub.FormType, "hub.mode=publish&hub.url=", 400},
			{http.MethodPost, "", websub.FormType, "hub.mode=publish&hub.url=invalid url", 400},
			{http.MethodPost, "", websub.FormType, "hub.mode=publish&hub.url=" + url.QueryEscape(w.topic()), 204},
		} {
			if resp, text := w.sayTo(w.url()+c.query, c.method, c.kind, c.body, nil); resp.StatusCode != c.want {
				t.Errorf("%+v: answered %d %s", c, resp.StatusCode, text)
			}
		}
		if h := next(t, w.sub.got); h.header.Get("Content-Type") != "application/atom+xml; charset=UTF-8" || !strings.Contains(h.body, "<id>1</id>") {
			t.Errorf("%+v", h)
		}
	})
	t.Run("content is tried again", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, dialects[1], nil)
		w.join("/cb")
		w.sub.on(nil, func(_ http.ResponseWriter, n int) int { return []int{500, 200}[min(n, 1)] })
		w.publish("news")
		if a, b := next(t, w.sub.got), next(t, w.sub.got); a.body != "news" || b.body != "news" {
			t.Errorf("%q, then %q", a.body, b.body)
		}
	})
}

// TestPublishers pings as the software in the field does.
func TestPublishers(t *testing.T) {
	t.Parallel()
	const form, utf8 = websub.FormType, websub.FormType + "; charset=UTF-8"
	for name, c := range map[string]struct {
		query, kind, body string // TOPIC and OTHER stand for topics
		want              int
	}{
		"Google's Python client":       {"", form, "hub.mode=publish&hub.url=TOPIC", 204},
		"its batches":                  {"", form, "hub.url=OTHER&hub.url=TOPIC&hub.mode=publish", 204},
		"WordPress":                    {"", form, "hub.mode=publish&hub.url=OTHER&hub.url=TOPIC&hub.url=TOPIC", 204},
		"Java":                         {"", utf8, "hub.mode=publish&hub.url=TOPIC", 204},
		"a form of a page":             {"", "application/x-www-form-urlencoded;charset=\"utf-8\"", "hub.mode=publish&hub.url=TOPIC", 204},
		"a broken parameter":           {"", form + "; charset", "hub.mode=publish&hub.url=TOPIC", 204},
		"letter case":                  {"", "Application/X-WWW-Form-URLEncoded", "hub.mode=publish&hub.url=TOPIC", 204},
		"curl with a file":             {"", form, "hub.mode=publish&hub.url=TOPIC\n", 204},
		"the same on Windows":          {"", form, "hub.url=TOPIC&hub.mode=publish\r\n", 204},
		"Superfeedr's arrays":          {"", form, "hub.mode=publish&hub.url[]=OTHER&hub.url[]=TOPIC", 204},
		"the same, encoded":            {"", form, "hub.mode=publish&hub.url%5B%5D=TOPIC", 204},
		"PHP's and Node's arrays":      {"", form, "hub.mode=publish&hub.url%5B0%5D=OTHER&hub.url%5B1%5D=TOPIC", 204},
		"arrays of topics":             {"", form, "hub.mode=publish&hub.topic[]=TOPIC", 202},
		"in the query":                 {"?hub.mode=publish&hub.url=TOPIC", "", "", 204},
		"in the query, as a form":      {"?hub.mode=publish&hub.url[]=OTHER&hub.url=TOPIC", form, "", 204},
		"Switchboard, websub.rocks":    {"", form, "hub.mode=publish&hub.topic=TOPIC", 202},
		"careful ones":                 {"", form, "hub.mode=publish&hub.url=TOPIC&hub.topic=TOPIC", 202},
		"with what we do not know":     {"", form, "hub.mode=publish&hub.url=TOPIC&hub.secret=x&format=json", 204},
		"an array of something else":   {"", form, "hub.mode=publish&hub.url[x]=TOPIC", 400},
		"content beside the query":     {"?hub.mode=publish&hub.topic=TOPIC", "application/json", "{}", 415},
		"a subscription in the query":  {"?hub.mode=subscribe&hub.topic=TOPIC&hub.callback=TOPIC", "", "", 415},
		"a ping with a lot of nothing": {"", form, "&&hub.mode=publish&&&hub.url=TOPIC&", 204},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, dialects[0], nil)
			w.join("/cb")
			fill := strings.NewReplacer("TOPIC", url.QueryEscape(w.topic()), "OTHER", url.QueryEscape("http://nobody.example/feed"))
			body := fill.Replace(c.body)
			resp, text := w.sayTo(w.url()+fill.Replace(c.query), http.MethodPost, c.kind, body, nil)
			if resp.StatusCode != c.want || c.want < 300 && text != "" {
				t.Fatalf("answered %d %q, want %d", resp.StatusCode, text, c.want)
			}
			if c.want < 300 {
				next(t, w.sub.got)
			}
		})
	}
}

// FuzzForm: whatever is sent, an accepted form is usable, and a refusal is one line that says which parameter.
func FuzzForm(f *testing.F) {
	for _, seed := range []string{
		"hub.mode=publish&hub.url[]=http://h/", "hub.mode=publish&hub.url%5B0%5D=http%3A%2F%2Fh%2F\r\n", "hub.mode=subscribe&hub.topic=http://h/&hub.callback=http://c/?a;b&hub.verify=sync",
		"hub.mode=subscribe&hub.topic=http://h/&hub.callback=http://c/&hub.lease_seconds=%205", "=&[]=&hub.[=%", "hub.mode=unsubscribe&hub.verify=x", "&&&", "\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		fuzztest.Bound(t)
		got, err := readForm(body)
		if err != nil {
			if s := err.Error(); !strings.HasPrefix(s, "hub.") && s != "more parameters than anyone needs" || strings.ContainsAny(s, "\r\n") {
				t.Errorf("%q", s)
			}
			return
		}
		switch got.Mode {
		case websub.ModePublish:
			if len(got.Topics) == 0 {
				t.Error("a ping about nothing")
			}
		default:
			if got.Topic == "" || got.Callback == "" || len(got.Secret) > 199 || got.Lease < 0 || got.old != (got.Verify != "") {
				t.Errorf("%+v", got)
			}
		}
	})
}
