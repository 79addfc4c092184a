package hub

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"resyncd/destination/fetch"
	"resyncd/destination/websub"
)

// TestH11: what the topic says reaches the subscriber whole, as the type that it has, with both links in one header.
func TestH11(t *testing.T) {
	t.Parallel()
	both(t, nil, func(w *world) {
		w.join("/cb")
		for i, c := range []struct{ kind, body string }{
			{"text/html; charset=UTF-8", "<!doctype html><p>1"},
			{"application/atom+xml; charset=\"utf-8\"; type=feed", "<?xml version='1.0'?>\r\n<feed/>\n"},
			{"application/rss+xml", "<rss version='2.0'/>"},
			{"text/plain", "plain text\n\n"},
			{"application/json", `{"items":[]}`},
			{"TEXT/X;charset=ISO-8859-1", "\xff\x00\xfe"},
			{"application/octet-stream", strings.Repeat("x", 100_000)},
			{"text/plain", ""},
		} {
			w.page.set(func(p *page) {
				p.kind = c.kind
				p.header = http.Header{"Link": {`<http://elsewhere.example/hub>; rel="hub"`, `</self>; rel="self"`, fmt.Sprintf(`</caps/%d>; rel="resourcesync"`, i)}}
			})
			w.publish(c.body)
			h := next(w, w.sub.got)
			if h.method != http.MethodPost || h.target != "/cb" || h.body != c.body || h.header.Get("Content-Type") != c.kind {
				w.Errorf("%s: %s %s %q as %q", c.kind, h.method, h.target, shortly(h.body), h.header.Get("Content-Type"))
			}
			want := fmt.Sprintf(`<%s>; rel="hub", <%s>; rel="self", <%s/caps/%d>; rel="resourcesync"`, w.url(), w.topic(), w.page.URL, i)
			if links := h.header.Values("Link"); len(links) != 1 || links[0] != want {
				w.Errorf("Link %q, want %q", links, want)
			}
		}
	})
}

func shortly(s string) string { return s[:min(len(s), 60)] }

// TestH12: signed for who sent a secret, by the method that the signature names, and for nobody else.
func TestH12(t *testing.T) {
	t.Parallel()
	for _, method := range []websub.Method{websub.MethodNone, websub.SHA1, websub.SHA256, websub.SHA384, websub.SHA512} {
		both(t, func(o *Options) { o.Signature = method }, func(w *world) {
			want := method
			switch {
			case w.taken == http.StatusNoContent:
				want = websub.SHA1 // it knows no other
			case method == websub.MethodNone:
				want = websub.SHA256
			}
			secret := strings.Repeat("ß€", 39)
			w.join("/signed", "hub.secret", secret)
			w.join("/plain")
			w.join("/empty", "hub.secret", "")
			w.publish("content of " + want.String())
			for range 3 {
				h := next(w, w.sub.got)
				signature := h.header.Get("X-Hub-Signature")
				if h.target != "/signed" {
					if signature != "" {
						w.Errorf("%s: signed with %s without a secret", h.target, signature)
					}
					continue
				}
				if !strings.HasPrefix(signature, want.String()+"=") || websub.VerifySignature(signature, secret, []byte(h.body), want) != nil {
					w.Errorf("signed %q, want %v", signature, want)
				}
			}
		})
	}
}

// TestH13: whatever a subscriber answers, only 410 ends its subscription; new content is tried again.
func TestH13(t *testing.T) {
	t.Parallel()
	both(t, func(o *Options) { o.RetryBase = time.Microsecond }, func(w *world) {
		w.join("/cb")
		for _, status := range []int{300, 302, 304, 400, 401, 403, 404, 405, 413, 422, 429, 451, 500, 501, 503, 599} {
			w.sub.on(nil, func(http.ResponseWriter, int) int { return status })
			w.push(202, w.topic(), fmt.Sprint("refused with ", status))
			if e := w.event(eventDropped); e.Count != 1 {
				w.Errorf("%d: %+v", status, e)
			}
			w.sub.on(nil, nil)
			w.push(202, w.topic(), fmt.Sprint("taken after ", status))
			w.event(eventDelivered)
		}
		if n := w.subscriptions(); n != 1 {
			w.Fatalf("%d subscriptions", n)
		}
		w.sub.on(nil, func(http.ResponseWriter, int) int { return http.StatusGone })
		w.push(202, w.topic(), "gone")
		if e := w.event(eventEnded); e.Why != "the subscriber answered 410" || w.subscriptions() != 0 {
			w.Errorf("after 410: %+v, %d subscriptions", e, w.subscriptions())
		}
	})
}

// TestH14: bodies of answers mean nothing, and redirects are failures.
func TestH14(t *testing.T) {
	t.Parallel()
	both(t, func(o *Options) { o.RetryBase = time.Millisecond }, func(w *world) {
		w.join("/cb")
		w.sub.on(nil, func(rw http.ResponseWriter, n int) int {
			rw.Header().Set("Location", "/elsewhere")
			return []int{301, 302, 303, 307, 308, 200}[min(n, 5)]
		})
		w.push(202, w.topic(), "x")
		for n := range 6 {
			if h := next(w, w.sub.got); h.method != http.MethodPost || h.target != "/cb" || h.body != "x" {
				w.Errorf("attempt %d: %+v", n, h)
			}
		}
		w.event(eventDelivered)
	})
}

// TestH15: a hub may cut feeds to what is new; this one never does, so that a subscriber that missed some has all.
func TestH15(t *testing.T) {
	t.Parallel()
	both(t, nil, func(w *world) {
		w.join("/cb")
		feed := "<feed xmlns='http://www.w3.org/2005/Atom'>"
		for i := range 3 {
			feed += fmt.Sprintf("<entry><id>%d</id></entry>", i)
			w.publish(feed + "</feed>")
			if h := next(w, w.sub.got); h.body != feed+"</feed>" {
				w.Errorf("got %q", h.body)
			}
		}
	})
}

// TestH16: pings in every form in use; the topic is read after the answer, conditionally, and what has not changed is not
// delivered.
func TestH16(t *testing.T) {
	t.Parallel()
	both(t, nil, func(w *world) {
		for _, name := range []string{"hub.url", "hub.topic"} { // before there are subscribers
			w.form(map[string]int{"hub.url": 204, "hub.topic": 202}[name], "hub.mode", "publish", name, w.topic())
		}
		w.join("/cb")
		if w.page.gets() != 0 {
			w.Error("a topic is read that nobody subscribes to")
		}
		w.publish("first")
		if h := next(w, w.sub.got); h.body != "first" {
			w.Errorf("%q", h.body)
		}
		for range 2 {
			w.publish("first") // 304
			w.event(eventUnchanged)
		}
		w.page.set(func(p *page) { p.moved = "/feed" }) // moved, with the same content
		w.publish("first")
		w.event(eventUnchanged)
		w.publish("second")
		if h := next(w, w.sub.got); h.body != "second" || !strings.Contains(h.header.Get("Link"), "<"+w.topic()+`>; rel="self"`) {
			w.Errorf("%q with %s", h.body, h.header.Get("Link"))
		}
		w.page.set(func(p *page) { p.status = http.StatusNoContent })
		w.publish("nothing")
		w.event(eventUnchanged)
		w.page.set(func(p *page) { p.status = 0 })
		w.publish("third")
		if h := next(w, w.sub.got); h.body != "third" || len(w.sub.got) != 0 {
			w.Errorf("%q, and %d more", h.body, len(w.sub.got))
		}
		w.page.mu.Lock()
		defer w.page.mu.Unlock()
		if n := len(w.page.asked); w.page.asked[n-1].Get("If-None-Match") == "" {
			w.Errorf("asked with %v", w.page.asked[n-1])
		}
	})
}

// TestH17: content is taken from who is known to publish, for topics that are served.
func TestH17(t *testing.T) {
	t.Parallel()
	both(t, func(o *Options) {
		o.PublisherToken, o.TopicPrefixes = "token", []string{"http://127.0.0.1", "http://served.example/"}
	}, func(w *world) {
		w.join("/cb", "hub.topic", "http://served.example/t")
		for _, c := range []struct {
			topic, auth string
			want        int
		}{
			{"http://served.example/t", "", 401}, {"http://served.example/t", "Bearer wrong", 401}, {"http://served.example/t", "Basic dG9rZW4=", 401},
			{"http://unknown.example/t", "Bearer token", 403}, {"http://served.example.evil/t", "Bearer token", 403},
			{"http://served.example/t", "Bearer token", 202}, {"http://served.example/nobody", "Bearer token", 202},
		} {
			header := http.Header{"Link": {"<" + c.topic + `>; rel="self", <` + w.url() + `>; rel="hub"`}}
			if c.auth != "" {
				header.Set("Authorization", c.auth)
			}
			if resp, text := w.say(http.MethodPost, "application/xml", c.auth, header); resp.StatusCode != c.want {
				w.Errorf("%+v: answered %d %s", c, resp.StatusCode, text)
			}
		}
		if h := next(w, w.sub.got); h.body != "Bearer token" || len(w.sub.got) != 0 {
			w.Errorf("%+v, and %d more", h, len(w.sub.got))
		}
	})
}

// TestH18: in order, each once, also over failures and a restart; the rest of the rule is in TestOrder, TestRetries,
// TestRetryAfter, TestRestart, TestQueueCap and TestDeadBesideHealthy.
func TestH18(t *testing.T) {
	t.Parallel()
	both(t, func(o *Options) { o.RetryBase = time.Millisecond }, func(w *world) {
		w.join("/cb")
		w.sub.on(nil, func(_ http.ResponseWriter, n int) int { return []int{500, 200, 503}[n%3] })
		var want, got []string
		for i := range 20 {
			want = append(want, fmt.Sprint(i))
			if w.push(202, w.topic(), want[i]); i == 10 {
				w.restart()
			}
		}
		for n := 0; len(got) < len(want); n++ {
			if h := next(w, w.sub.got); n%3 == 1 {
				got = append(got, h.body)
			}
		}
		if !slices.Equal(got, want) {
			w.Errorf("got %v", got)
		}
	})
}

// TestH19: callbacks and topics have lists of their own; hosts and topics bear so many subscriptions. How often a host is
// asked is in TestVerifyRate.
func TestH19(t *testing.T) {
	t.Parallel()
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	for _, topics := range []bool{false, true} {
		clients := [2]*fetch.Client{fetch.New(fetch.Options{Allow: loopback}), fetch.New(fetch.Options{})}
		t.Cleanup(func() { clients[0].Close(); clients[1].Close() })
		both(t, nil, func(w *world) {
			w.hub.topics = clients[1]
			if topics {
				w.hub.net, w.hub.topics = clients[1], clients[0]
				w.ask("subscribe", "/cb")
				if e := w.event(eventUnverified); !strings.Contains(e.Why, "not public") {
					w.Errorf("%+v", e)
				}
				return
			}
			w.join("/cb")
			w.publish("x")
			if e := w.event(eventUnreadable); !strings.Contains(e.Why, "not public") {
				w.Errorf("%+v", e)
			}
		})
	}
	both(t, func(o *Options) { o.MaxPerTopic, o.MaxPerHost = 2, 3 }, func(w *world) {
		w.join("/1")
		w.join("/2")
		if status := w.ask("subscribe", "/3"); status != http.StatusServiceUnavailable {
			w.Errorf("a third one for the topic: answered %d", status)
		}
		w.join("/3", "hub.topic", "http://another.example/")
		if status := w.ask("subscribe", "/4", "hub.topic", "http://another.example/"); status != http.StatusServiceUnavailable {
			w.Errorf("a fourth one of the host: answered %d", status)
		}
		w.join("/2") // renewals need no room
		w.ask("unsubscribe", "/2")
		w.event(eventEnded)
		next(w, w.sub.asked)
		w.join("/4")
	})
}

// TestH20: the hub calls itself what it was told to, whatever it is called by others.
func TestH20(t *testing.T) {
	t.Parallel()
	both(t, func(o *Options) { o.Base = "https://hub.example/hub" }, func(w *world) {
		w.join("/cb")
		req, err := http.NewRequestWithContext(w.Context(), http.MethodPost, w.url(), strings.NewReader("x"))
		if err != nil {
			w.Fatal(err)
		}
		req.Host = "evil.example"
		req.Header.Set("Link", "<"+w.topic()+">; rel=self, <http://evil.example/>; rel=hub")
		resp, err := w.http.Client().Do(req)
		if err != nil {
			w.Fatal(err)
		}
		resp.Body.Close()
		if link, want := next(w, w.sub.got).header.Get("Link"), `<https://hub.example/hub>; rel="hub", <`+w.topic()+`>; rel="self"`; link != want {
			w.Errorf("Link %s, want %s", link, want)
		}
	})
}

// TestH21: the first keyword known decides, the token comes back; without hub.verify there is only WebSub.
func TestH21(t *testing.T) {
	t.Parallel()
	w := newWorld(t, dialects[0], nil)
	for _, c := range []struct {
		verify []string
		want   int
	}{
		{nil, 202}, {[]string{""}, 202}, {[]string{"sync"}, 204}, {[]string{"async"}, 202}, {[]string{"sync", "async"}, 204}, {[]string{"async", "sync"}, 202},
		{[]string{"foobar", "sync"}, 204}, {[]string{"sync", "foobar"}, 204}, {[]string{"foobar", "async", "sync"}, 202}, {[]string{"sync,async"}, 204},
		{[]string{"foobar"}, 400}, {[]string{"foo", "bar"}, 400},
	} {
		for _, mode := range []string{"subscribe", "unsubscribe"} {
			v := url.Values{"hub.mode": {mode}, "hub.callback": {w.sub.URL + "/cb"}, "hub.topic": {w.topic()}, "hub.verify": c.verify, "hub.verify_token": {"tok&en="},
				"hub.lease_seconds": {""}}
			if c.verify == nil || c.verify[0] == "" {
				v.Del("hub.lease_seconds")
			}
			resp, text := w.say(http.MethodPost, websub.FormType, v.Encode(), nil)
			if resp.StatusCode != c.want {
				t.Fatalf("%s %v: answered %d %s, want %d", mode, c.verify, resp.StatusCode, text, c.want)
			}
			if c.want == 400 {
				continue
			}
			if c.want == 204 && len(w.sub.asked) != 1 {
				t.Errorf("%s %v: the answer came before the verification", mode, c.verify)
			}
			if q := w.query(next(t, w.sub.asked), "/cb"); q.Get("hub.verify_token") != "tok&en=" || mode == "subscribe" && q.Get("hub.lease_seconds") == "" {
				t.Errorf("%s %v: asked %v", mode, c.verify, q)
			}
			w.event(map[string]eventKind{"subscribe": eventVerified, "unsubscribe": eventEnded}[mode])
		}
	}
	if q := newWorld(t, dialects[0], nil).join("/cb"); q.Has("hub.verify_token") {
		t.Errorf("a token that nobody sent: %v", q)
	}
	if status := w.ask("subscribe", "/cb", "hub.verify_token", strings.Repeat("x", tokenMost+1)); status != 400 {
		t.Errorf("a huge token: answered %d", status)
	}
}
