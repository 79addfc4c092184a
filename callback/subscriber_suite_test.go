package callback_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"resyncd/destination"
	"resyncd/destination/subscribe"
	"resyncd/destination/websub"
	"resyncd/store"
)

// blog is the other side of a public conformance suite for subscribers (websub.rocks): a blog with its own hub, one for
// each test, numbered as there.
type blog struct {
	*hub
	num   int
	pages *httptest.Server

	mu    sync.Mutex
	posts int
}

// blogs are the tests: where the subscriber must have come to subscribe, below the blog, and the hub it must have asked.
var blogs = map[int]struct{ what, topic, hub string }{
	100: {"HTTP header discovery", "/blog", "/hub"},
	101: {"HTML tag discovery", "/blog", "/hub"},
	102: {"Atom feed discovery", "/blog", "/hub"},
	103: {"RSS feed discovery", "/blog", "/hub"},
	104: {"discovery priority", "/blog", "/hub"},
	200: {"a URL that reports a different rel=self", "/blog?self=other", "/hub"},
	201: {"a topic that sends a 302", "/blog?redirect=complete", "/hub"},
	202: {"a topic that sends a 301", "/blog?redirect=complete", "/hub"},
	203: {"a hub that sends a 307", "/blog", "/hub?redirect=true"},
	204: {"a hub that sends a 308", "/blog", "/hub?redirect=true"},
	205: {"a verification of another topic", "/blog", "/hub"},
	300: {"delivery", "/blog", "/hub"},
	301: {"an invalid signature", "/blog", "/hub"},
	302: {"no signature", "/blog", "/hub"},
}

func newBlog(t *testing.T, num int) *blog {
	b := &blog{num: num, posts: 2}
	b.hub = newHub(t, b.subscribe)
	b.pages = httptest.NewServer(http.HandlerFunc(b.page))
	t.Cleanup(b.pages.Close)
	return b
}

func (b *blog) url() string { return b.pages.URL + "/blog" }

// page serves the blog.
func (b *blog) page(w http.ResponseWriter, r *http.Request) {
	self, hub := b.pages.URL+blogs[b.num].topic, b.srv.URL+blogs[b.num].hub
	if (b.num == 201 || b.num == 202) && !r.URL.Query().Has("redirect") {
		w.Header().Set("Location", self)
		w.WriteHeader(map[int]int{201: http.StatusFound, 202: http.StatusMovedPermanently}[b.num])
		return
	}
	body := b.body(self, hub)
	switch b.num {
	case 102, 103, 104: // for browsers' sake
		w.Header().Set("Content-Type", "text/xml")
	default:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
	}
	if b.num < 101 || b.num > 103 {
		w.Header().Add("Link", "<"+self+`>; rel="self"`)
		w.Header().Add("Link", "<"+hub+`>; rel="hub"`)
	}
	_, _ = io.WriteString(w, body)
}

// body is what is published, and pushed.
func (b *blog) body(self, hub string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.num == 104 {
		hub += "?error=wrongtag"
	}
	var items strings.Builder
	for i := range b.posts {
		switch b.num {
		case 102, 104:
			fmt.Fprintf(&items, `<entry><id>urn:post:%d</id><title>%d</title><updated>2026-01-01T00:00:%02dZ</updated></entry>`, i, i, i)
		case 103:
			fmt.Fprintf(&items, `<item><guid isPermaLink="false">%d</guid><title>%d</title></item>`, i, i)
		default:
			fmt.Fprintf(&items, `<article class="h-entry">%d</article>`, i)
		}
	}
	switch b.num {
	case 102, 104:
		return `<?xml version="1.0"?><feed xmlns="http://www.w3.org/2005/Atom"><link rel="self" href="` + self + `"/><link rel="hub" href="` + hub + `"/>` +
			`<id>` + self + `</id><title>blog</title><updated>2026-01-01T00:00:00Z</updated>` + items.String() + `</feed>`
	case 103:
		return `<?xml version="1.0"?><rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom"><channel><title>blog</title><link>` + self +
			`</link><description>d</description><atom:link rel="self" href="` + self + `"/><atom:link rel="hub" href="` + hub + `"/>` + items.String() + `</channel></rss>`
	}
	head := "<title>blog</title>"
	if b.num == 101 {
		head += `<link rel="hub" href="` + hub + `"><link rel="self" href="` + self + `">`
	}
	return "<!doctype html><html><head>" + head + "</head><body>" + items.String() + "</body></html>"
}

// subscribe is the blog's hub: it verifies inside of the request.
func (b *blog) subscribe(h *hub, a ask) (int, string) {
	topic := b.pages.URL + blogs[b.num].topic
	switch {
	case a.query == "redirect=true":
		a.reply.Set("Location", h.srv.URL+"/hub")
		return map[int]int{203: http.StatusTemporaryRedirect, 204: http.StatusPermanentRedirect}[b.num], ""
	case a.query != "":
		return http.StatusBadRequest, "wrong_discovery_priority"
	case a.get("topic") != topic:
		return http.StatusBadRequest, "invalid_topic"
	case a.get("mode") == "unsubscribe" && !slices.Contains(h.holds(), a.get("callback")):
		return http.StatusNotFound, "invalid_subscription"
	}
	if b.num == 205 {
		a.form.Set("hub.topic", topic+"/another")
		if h.verify(a, "lease_seconds", "86400") {
			return http.StatusBadRequest, "subscription_not_rejected"
		}
		return http.StatusOK, "Your subscriber properly rejected the subscription request for an invalid topic URL."
	}
	if !h.verify(a, "lease_seconds", "86400") {
		return http.StatusBadRequest, "verification_failed"
	}
	h.hold(a, false)
	return http.StatusAccepted, ""
}

// publish adds a post and delivers it, with a signature made by sign of a secret and a body.
func (b *blog) publish(sign func(secret, body string) string) []int {
	b.mu.Lock()
	b.posts++
	b.mu.Unlock()
	self, hub := b.pages.URL+blogs[b.num].topic, b.srv.URL+blogs[b.num].hub
	body := b.body(self, hub)
	var out []int
	for cb, l := range b.leases() {
		headers := []string{"Content-Type", "text/html", "Link", "<" + self + `>; rel="self", <` + hub + `>; rel="hub"`}
		if v := sign(l.secret, body); v != "" {
			headers = append(headers, websub.SignatureHeader, v)
		}
		out = append(out, b.post(cb, body, headers...))
	}
	return out
}

func valid(secret, body string) string {
	return websub.Sign(websub.SHA256, secret, []byte(body))
}

// discover finds the topic that a URL stands for, and has the keeper follow it, as the daemon does.
func (r *rig) discover(url string, p subscribe.Plan) {
	r.t.Helper()
	reader := destination.NewReader(destination.ReaderOptions{Client: r.out})
	offer, err := destination.DiscoverTopic(context.Background(), reader, url, destination.TopicOptions{})
	if err != nil || len(offer.Sets) != 1 {
		r.t.Fatalf("discovered %+v, %v", offer, err)
	}
	channels := offer.Sets[0].Channels()
	if len(channels) != 1 || channels[0].Kind != destination.KindFeed {
		r.t.Fatalf("channels %+v", channels)
	}
	r.follow(channels[0].Topic, p, channels[0].Hubs...)
}

// TestConformance: 100 to 104 and 200 to 205, then content of the right kind, then the end.
func TestConformance(t *testing.T) {
	t.Parallel()
	for num, want := range blogs {
		t.Run(fmt.Sprint(num, " ", want.what), func(t *testing.T) {
			t.Parallel()
			b, r := newBlog(t, num), newRig(t)
			r.discover(b.url(), signed)
			if num == 205 {
				s := r.await("an accepted request", func(s store.Subscription) bool { return s.State == store.SubPending })
				if b.verified[0] != http.StatusNotFound || s.Verified.Known() {
					t.Errorf("answered %v", b.verified)
				}
				return
			}
			s := r.awaitState(store.SubActive)
			if s.Topic != b.pages.URL+want.topic || s.Hub != b.srv.URL+want.hub || s.Granted != 86400 {
				t.Errorf("subscribed to %s at %s for %d s", s.Topic, s.Hub, s.Granted)
			}
			r.eventually("a lease", func() bool { return len(b.holds()) == 1 })
			r.distribution(b)
			if n := len(b.holds()); n != 1 { // the suite cannot tell two apart
				t.Errorf("%d subscriptions", n)
			}
			r.pass(6 * time.Second) // F23
			r.cancel()
			r.eventually("the end", func() bool { return len(b.holds()) == 0 })
		})
	}
}

// distribution is 300, or 301 and 302 before it.
func (r *rig) distribution(b *blog) {
	r.t.Helper()
	var got []int
	switch b.num {
	case 301:
		got = b.publish(func(_, body string) string { return valid("invalid", body) })
	case 302:
		got = b.publish(func(_, _ string) string { return "" })
	}
	if len(got) > 0 && (got[0] != http.StatusForbidden || len(r.inbox()) != 0) {
		r.t.Errorf("answered %v, %d kept", got, len(r.inbox()))
	}
	if got := b.publish(valid); !slices.Equal(got, []int{http.StatusOK}) || len(r.inbox()) != 1 || !r.inbox()[0].Signed {
		r.t.Errorf("answered %v, %d kept", got, len(r.inbox()))
	}
}

// TestConformanceFeatures are what the suite asks for without a test of its own: a lease, a secret below 200 bytes, each
// method of signing, callbacks that are unique and cannot be guessed.
func TestConformanceFeatures(t *testing.T) {
	t.Parallel()
	b := newBlog(t, 300)
	var asks []ask
	for range 2 {
		r := newRig(t)
		r.discover(b.url(), signed)
		r.awaitState(store.SubActive)
		r.eventually("a lease", func() bool { return len(b.holds()) == len(asks)+1 })
		asks = append(asks, b.asks()...)
		for _, m := range []websub.Method{websub.SHA1, websub.SHA256, websub.SHA384, websub.SHA512} {
			if got := b.publish(func(secret, body string) string { return websub.Sign(m, secret, []byte(body)) }); slices.Contains(got, http.StatusForbidden) {
				t.Errorf("%s: %v", m, got)
			}
		}
	}
	last := func(a ask) string { _, token, _ := strings.Cut(a.get("callback"), "/cb/"); return token }
	for _, a := range asks {
		if a.get("lease_seconds") != "864000" || a.get("secret") == "" || len(last(a)) < 22 { // 128 bits (S-21)
			t.Errorf("asked %v", a.form)
		}
	}
	if len(asks) != 2 || last(asks[0]) == last(asks[1]) || asks[0].get("secret") == asks[1].get("secret") {
		t.Error("callbacks or secrets are not unique")
	}
}
