package hub

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestTrustTopics: with it, content is taken from strangers for topics that name this hub, by whatever means (H-17, R-04).
func TestTrustTopics(t *testing.T) {
	t.Parallel()
	const named, silent = http.StatusAccepted, http.StatusForbidden
	for name, c := range map[string]struct {
		token  string
		change func(p *page, hub string)
		want   int
	}{
		"in its header":     {"", func(p *page, hub string) { p.header = http.Header{"Link": {"<" + hub + ">; rel=hub"}} }, named},
		"with a slash more": {"", func(p *page, hub string) { p.header = http.Header{"Link": {"<" + hub + "/>; rel=hub"}} }, named},
		"among others": {"", func(p *page, hub string) {
			p.header = http.Header{"Link": {"<http://h/>; rel=hub, <" + hub + `>; rel="x hub"`}}
		}, named},
		"in its head": {"", func(p *page, hub string) { p.body = "<html><head><link rel=hub href='" + hub + "'></head></html>" }, named},
		"in its feed": {"", func(p *page, hub string) {
			p.body = "<feed xmlns='http://www.w3.org/2005/Atom'><link rel='hub' href='" + hub + "'/></feed>"
		}, named},
		"without content": {"", func(p *page, hub string) { p.status, p.header = 204, http.Header{"Link": {"<" + hub + ">; rel=hub"}} }, named},
		"empty":           {"", func(p *page, hub string) { p.body, p.header = "", http.Header{"Link": {"<" + hub + ">; rel=hub"}} }, named},
		"after a move": {"", func(p *page, hub string) {
			p.moved, p.header = "/feed", http.Header{"Link": {"<" + hub + ">; rel=hub"}}
		}, named},
		"not at all":  {"", func(*page, string) {}, silent},
		"another":     {"", func(p *page, hub string) { p.header = http.Header{"Link": {"<" + hub + "x>; rel=hub"}} }, silent},
		"in its body": {"", func(p *page, hub string) { p.body = "<html><head></head><body><link rel=hub href='" + hub + "'>" }, silent},
		"in an entry": {"", func(p *page, hub string) {
			p.body = "<feed xmlns='http://www.w3.org/2005/Atom'><entry><link rel='hub' href='" + hub + "'/></entry></feed>"
		}, silent},
		"for another": {"", func(p *page, hub string) {
			p.header = http.Header{"Link": {"<" + hub + ">; rel=hub; anchor=\"http://h/\""}}
		}, silent},
		"not there":              {"", func(p *page, hub string) { p.status, p.header = 404, http.Header{"Link": {"<" + hub + ">; rel=hub"}} }, silent},
		"beside a token":         {"token", func(p *page, hub string) { p.header = http.Header{"Link": {"<" + hub + ">; rel=hub"}} }, named},
		"no token and no naming": {"token", func(*page, string) {}, http.StatusUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, dialects[0], func(o *Options) { o.TrustTopics, o.PublisherToken = true, c.token })
			w.join("/cb")
			w.page.set(func(p *page) { c.change(p, w.url()) })
			header := http.Header{"Link": {"<" + w.topic() + `>; rel="self"`}, "X-Forwarded-For": {"192.0.2.1"}}
			for i := range 3 {
				resp, text := w.say(http.MethodPost, "text/plain", fmt.Sprint(i), header)
				if resp.StatusCode != c.want {
					t.Fatalf("answered %d %s, want %d", resp.StatusCode, text, c.want)
				}
				if c.want == named {
					if h := next(t, w.sub.got); h.body != fmt.Sprint(i) {
						t.Errorf("got %q, want %d", h.body, i)
					}
				}
			}
			if n := w.page.gets(); n > 2 {
				t.Errorf("the topic was asked %d times", n)
			}
		})
	}
	w := newWorld(t, dialects[0], nil)
	w.page.set(func(p *page) { p.header = http.Header{"Link": {"<" + w.url() + ">; rel=hub"}} })
	header := http.Header{"Link": {"<" + w.topic() + `>; rel="self"`}, "X-Forwarded-For": {"192.0.2.1"}}
	if resp, _ := w.say(http.MethodPost, "text/plain", "x", header); resp.StatusCode != http.StatusForbidden || w.page.gets() != 0 {
		t.Errorf("without it: answered %d after %d looks", resp.StatusCode, w.page.gets())
	}
}

// TestClaims: a topic's word is remembered for a while, and only so many of them.
func TestClaims(t *testing.T) {
	t.Parallel()
	c := claims{}
	now := time.Now()
	c.put("good", claim{until: now.Add(claimGood)})
	c.put("bad", claim{errNotNamed, now.Add(claimBad)})
	for at, want := range map[time.Duration]string{0: "good bad ", claimBad: "good ", claimGood: ""} {
		got := ""
		for _, topic := range []string{"good", "bad", "unknown"} {
			if _, ok := c.get(topic, now.Add(at)); ok {
				got += topic + " "
			}
		}
		if got != want {
			t.Errorf("after %v: %s, want %s", at, got, want)
		}
	}
	for i := range 3 * claimMost {
		if c.put(strings.Repeat("x", i%7)+fmt.Sprint(i), claim{until: now}); len(c) > claimMost {
			t.Fatalf("%d are remembered", len(c))
		}
	}
}
