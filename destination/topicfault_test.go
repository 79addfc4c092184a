package destination

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"

	"resyncd/destination/feed"
	"resyncd/destination/fetch"
)

func topicOf(t *testing.T, r *Reader, asked string, o TopicOptions) (*Topic, *Offer) {
	t.Helper()
	offer, err := DiscoverTopic(t.Context(), r, asked, o)
	if err != nil {
		t.Fatal(err)
	}
	return offer.Sets[0].Topic, offer
}

// S-11: a host beyond the Source's own counts where the operator allowed it, or a redirect led there.
func TestTopicHosts(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]page{"/t": atomWith(bodyHub + `<link rel="self" href="http://localhost:1/t"/>`)})
	r := testReader(t, nil)
	topic, offer := topicOf(t, r, s.URL+"/t", TopicOptions{})
	if topic.URL != s.URL+"/t" || len(topic.Hubs) != 1 {
		t.Errorf("a self link on another host: %+v", topic)
	}
	refused := offer.Trail[len(offer.Trail)-1]
	if refused.OK || refused.URL != "http://localhost:1/t" || !strings.Contains(refused.Result, "scope:") || !strings.Contains(refused.Result, "topic:") {
		t.Errorf("the trail does not say what was refused and what to do: %+v", refused)
	}
	var asked []string
	allowed := func(u *url.URL) bool {
		asked = append(asked, u.Host)
		return u.Hostname() == "localhost"
	}
	if topic, _ = topicOf(t, r, s.URL+"/t", TopicOptions{Allowed: allowed}); topic.URL != "http://localhost:1/t" || len(asked) != 1 {
		t.Errorf("an allowed self link: %+v, asked about %v", topic, asked)
	}
	local := strings.Replace(s.URL, "127.0.0.1", "localhost", 1)
	s.on(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/moved" {
			http.Redirect(w, r, local+"/t", http.StatusFound)
		}
		return r.URL.Path == "/moved"
	})
	if topic, _ = topicOf(t, r, s.URL+"/moved", TopicOptions{}); topic.URL != "http://localhost:1/t" {
		t.Errorf("a self link on the host that a redirect led to: %+v", topic)
	}
}

// F60: a document read over https does not make us ask over http.
func TestContentPlace(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ topic, asked, final, want string }{
		{"http://a.example/t", "https://a.example/t", "https://a.example/t", ""},
		{"http://a.example:80/t#x", "https://a.example/t", "https://a.example/t", ""},
		{"http://a.example/other", "https://a.example/t", "https://a.example/t", "https://a.example/other"},
		{"http://a.example:8080/t", "https://a.example/t", "https://a.example/t", ""},
		{"https://a.example/t", "http://a.example/t", "http://a.example/t", "https://a.example/t"},
		{"http://a.example/other", "http://a.example/t", "http://a.example/t", "http://a.example/other"},
		{"https://A.example:443", "https://a.example/", "https://a.example/", ""},
		{"https://a.example/t", "https://a.example/t", "https://b.example/t", ""},
		{"http://[::1]:80/x", "https://[::1]/t", "https://[::1]/t", "https://[::1]/x"},
		{"http://[::1]/t", "https://[::1]/t", "https://[::1]/t", ""},
	} {
		rd := &reading{}
		rd.URL, rd.Final = tc.asked, tc.final
		if got := contentURL(tc.topic, rd); got != tc.want {
			t.Errorf("topic %s of %s: content at %q, want %q", tc.topic, tc.asked, got, tc.want)
		}
	}
}

// A 304 that refers to a document which was not the content when it was read says nothing about content: the document is
// read anew once it becomes the content.
func TestTopicFallsBackToWhatNobodyRecorded(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]page{"/t": atomWith(`<link rel="self" href="/canonical"/>`), "/canonical": atomWith(bodyHub)})
	known := states{}
	r, opts := testReader(t, nil), TopicOptions{Recall: known.recall}
	_, offer := topicOf(t, r, s.URL+"/t", opts)
	known.keep(t, offer)
	s.remove("/canonical")
	s.requests()
	for run, want := range []string{"/t 304, /canonical 404, /t 200", "/t 304, /canonical 404"} {
		topic, offer := topicOf(t, r, s.URL+"/t", opts)
		known.keep(t, offer)
		if topic.URL != s.URL+"/canonical" || topic.Answer.URL != s.URL+"/t" || topic.Answer.NotModified != (run == 1) {
			t.Errorf("run %d: %+v", run, topic)
		}
		if got := s.requests(); got != want {
			t.Errorf("run %d: requests %q, want %q", run, got, want)
		}
	}
}

// The operator names the topic of a feed that is known under its own: what it says is new to that topic.
func TestTopicNamedLater(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]page{"/t": atomWith("")})
	known := states{}
	r := testReader(t, nil)
	for run, c := range []struct {
		topic   string
		changed bool
	}{{"", true}, {"", false}, {"https://topic.example/t", true}, {"https://topic.example/t", false}} {
		topic, offer := topicOf(t, r, s.URL+"/t", TopicOptions{Topic: c.topic, Recall: known.recall})
		known.keep(t, offer)
		if topic.Answer.NotModified == c.changed || (topic.Answer.Body != nil) != c.changed {
			t.Errorf("run %d: not modified %t", run, topic.Answer.NotModified)
		}
	}
}

// S-13: hubs and self of a 304's header are newer than what is remembered.
func TestTopicUnchangedWithNewLinks(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]page{"/t": atomWith(bodyLink)})
	known := states{}
	r, opts := testReader(t, nil), TopicOptions{Recall: known.recall}
	_, offer := topicOf(t, r, s.URL+"/t", opts)
	known.keep(t, offer)
	s.set("/t", atomWith(bodyLink).with("Link", `<SITE/new>; rel="hub"`))
	topic, offer := topicOf(t, r, s.URL+"/t", opts)
	if !topic.Answer.NotModified || topic.HubsFrom != "link-header" || topic.Hubs[0] != s.URL+"/new" || topic.SelfFrom != "feed" {
		t.Errorf("%+v", topic)
	}
	known.keep(t, offer)
	s.set("/t", atomWith(bodyLink).with("Link", `<SITE/t#new>; rel="self"`))
	topic, offer = topicOf(t, r, s.URL+"/t", opts)
	if topic.Answer.NotModified || topic.SelfFrom != "link-header" || topic.URL != s.URL+"/t#new" || topic.Hubs[0] != s.URL+"/new" {
		t.Errorf("%+v", topic)
	}
	known.keep(t, offer)
	if topic, _ = topicOf(t, r.Uncached(), s.URL+"/t", opts); topic.Answer.NotModified {
		t.Error("an uncached reader asked conditionally")
	}
}

// The feed that a page leads to has gone, and the page, unchanged, names another one behind it.
func TestTopicFeedOfPageGone(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]page{"/": htmlWith(toFeed + `<link rel="alternate" type="application/rss+xml" href="/two">`), "/t": atomWith(""), "/two": rssWith("")})
	known := states{}
	r, opts := testReader(t, nil), TopicOptions{Recall: known.recall}
	_, offer := topicOf(t, r, s.URL+"/", opts)
	known.keep(t, offer)
	s.remove("/t")
	s.requests()
	for run, want := range []string{"/ 304, /t 404, / 200, /two 200", "/ 304, /two 304"} {
		topic, offer := topicOf(t, r, s.URL+"/", opts)
		if topic.URL != s.URL+"/two" || topic.Answer.Format != feed.RSS {
			t.Errorf("run %d: %+v", run, topic)
		}
		known.keep(t, offer)
		if got := s.requests(); got != want {
			t.Errorf("run %d: requests %q, want %q", run, got, want)
		}
	}
}

// A link on a host that was refused is taken once the operator allows the host, although the page has not changed.
func TestTopicAllowedLater(t *testing.T) {
	t.Parallel()
	feeds := newSite(t, map[string]page{"/t": atomWith("")})
	other := strings.Replace(feeds.URL, "127.0.0.1", "localhost", 1)
	s := newSite(t, map[string]page{"/": htmlWith(`<link rel="alternate" type="application/atom+xml" href="` + other + `/t">`)})
	known := states{}
	r := testReader(t, nil)
	for _, allow := range []bool{false, true, false} {
		topic, offer := topicOf(t, r, s.URL+"/", TopicOptions{Recall: known.recall, Allowed: func(*url.URL) bool { return allow }})
		known.keep(t, offer)
		if want := map[bool]string{true: other + "/t", false: s.URL + "/"}[allow]; topic.URL != want || topic.Answer.URL != want {
			t.Errorf("allowed %v: %+v", allow, topic)
		}
	}
}

// What the quick search for links cannot read, the reader of feeds can: UTF-16, and links behind very much text.
func TestTopicLinksOfOddFeeds(t *testing.T) {
	t.Parallel()
	late := `<feed xmlns="http://www.w3.org/2005/Atom">` + strings.Repeat("<entry><id>e</id><title>xxxxxxxxxxxxxxxx</title></entry>", 10_000) + bodyLink + "</feed>"
	wide := []byte{0xFE, 0xFF}
	for name, body := range map[string]func(site string) []byte{
		"late": func(site string) []byte { return []byte(strings.ReplaceAll(late, "SITE", site)) },
		"utf-16": func(site string) []byte {
			text := `<?xml version="1.0" encoding="UTF-16"?><feed xmlns="http://www.w3.org/2005/Atom">` + strings.ReplaceAll(bodyLink, "SITE", site) + "</feed>"
			out := wide
			for _, c := range utf16.Encode([]rune(text)) {
				out = append(out, byte(c>>8), byte(c))
			}
			return out
		},
		"gzip": func(site string) []byte {
			return gzipped(strings.ReplaceAll(atomWith(bodyLink).body, "SITE", site))
		},
	} {
		s := newSite(t, nil)
		s.on(func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", "application/atom+xml")
			_, _ = w.Write(body(s.URL))
			return true
		})
		topic, _ := topicOf(t, testReader(t, nil), s.URL+"/t", TopicOptions{})
		if topic.URL != s.URL+"/t" || topic.SelfFrom != "feed" || len(topic.Hubs) != 1 || topic.Hubs[0] != s.URL+"/hub" || topic.Answer.Format != feed.Atom {
			t.Errorf("%s: %s by %s, hubs %v, %s", name, topic.URL, topic.SelfFrom, topic.Hubs, topic.Answer.Format)
		}
	}
}

// P8: a feed is held whole, up to a bound, however small it is packed.
func TestTopicTooLarge(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]page{"/t": atomWith("<subtitle>" + strings.Repeat("x", 1<<16) + "</subtitle>")})
	packed := gzipped(s.pages["/t"].body)
	s.on(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/packed" {
			_, _ = w.Write(packed)
		}
		return r.URL.Path == "/packed"
	})
	r := testReader(t, nil)
	r.limits.feedBytes = 1 << 16
	for _, path := range []string{"/t", "/packed"} {
		o, err := DiscoverTopic(t.Context(), r, s.URL+path, TopicOptions{})
		if err == nil || len(o.Sets) > 0 || !strings.Contains(err.Error(), "larger than the 65536 bytes") {
			t.Errorf("%s: %v", path, err)
		}
		if _, err := r.Page(t.Context(), s.URL+path); err == nil || !strings.Contains(err.Error(), "larger than") {
			t.Errorf("%s: page: %v", path, err)
		}
	}
}

// A page is read no further than its head.
func TestTopicOfEndlessPage(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.on(func(w http.ResponseWriter, r *http.Request) bool {
		_, _ = w.Write([]byte(strings.ReplaceAll(htmlWith(bodyLink).body, "SITE", s.URL)))
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 4096)); err != nil {
				break
			}
		}
		return true
	})
	topic, _ := topicOf(t, testReader(t, nil), s.URL+"/t", TopicOptions{})
	if topic.SelfFrom != "html" || topic.Answer.Body != nil {
		t.Errorf("%+v", topic)
	}
}

func TestTopicErrors(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]page{"/down": {status: 503}, "/t": atomWith("")})
	r := testReader(t, nil)
	for asked, kind := range map[string]fetch.Kind{"ftp://x.example/": fetch.KindUnknown, s.URL + "/down": fetch.Transient, s.URL + "/gone": fetch.Gone} {
		o, err := DiscoverTopic(t.Context(), r, asked, TopicOptions{})
		e, ok := errors.AsType[*Error](err)
		if !ok || e.Hint == "" || fetch.KindOf(err) != kind || o == nil || o.Asked != asked {
			t.Errorf("%s: %v", asked, err)
		}
	}
	sick := errors.New("sick")
	_, err := DiscoverTopic(t.Context(), r, s.URL+"/t", TopicOptions{Recall: func(context.Context, string) (*TopicState, error) { return nil, sick }})
	if !errors.Is(err, sick) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(sick)
	if _, err = DiscoverTopic(ctx, r, s.URL+"/t", TopicOptions{}); !errors.Is(err, sick) {
		t.Error(err)
	}
	if got := s.requests(); got != "/down 503, /gone 404" && got != "/gone 404, /down 503" {
		t.Errorf("requests %q", got)
	}
}

// A body that breaks off is begun anew, and is no state to come back to.
func TestTopicBrokenOff(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]page{"/t": atomWith(bodyLink)})
	cuts := 0
	s.on(func(w http.ResponseWriter, _ *http.Request) bool {
		if cuts++; cuts > 2 {
			return false
		}
		w.Header().Set("Content-Length", "5000")
		_, _ = w.Write([]byte(atomWith("").body))
		return true
	})
	topic, offer := topicOf(t, testReader(t, nil), s.URL+"/t", TopicOptions{})
	if len(topic.Hubs) != 1 || len(topic.States) != 1 || topic.States[0].ETag == "" || len(offer.Trail) != 1 {
		t.Errorf("%+v", topic)
	}
}

func TestPage(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]page{"/p": rssWith(""), "/html": htmlWith("")})
	r := testReader(t, nil)
	for range 2 {
		a, err := r.Page(t.Context(), s.URL+"/p")
		if err != nil || a.Format != feed.RSS || a.NotModified || a.Final != s.URL+"/p" || !strings.Contains(string(a.Body), "<rss") || !a.Date.Known() {
			t.Errorf("%+v, %v", a, err)
		}
	}
	if diff := cmp.Diff("/p 200, /p 200", s.requests()); diff != "" {
		t.Error(diff)
	}
	if _, err := r.Page(t.Context(), s.URL+"/html"); !errors.Is(err, errNoFeed) {
		t.Error(err)
	}
	if _, err := r.Page(t.Context(), s.URL+"/gone"); fetch.KindOf(err) != fetch.Gone {
		t.Error(err)
	}
}

func TestChannelsOfTopic(t *testing.T) {
	t.Parallel()
	set := SetOffer{Topic: &Topic{URL: "https://a.example/t", Hubs: []string{"https://h.example/"}}}
	want := []Channel{{Kind: KindFeed, Topic: "https://a.example/t", Hubs: []string{"https://h.example/"}}}
	if diff := cmp.Diff(want, set.Channels()); diff != "" {
		t.Error(diff)
	}
	if set.Topic.Hubs = nil; len(set.Channels()) != 0 {
		t.Error("a topic without hubs has a channel")
	}
}
