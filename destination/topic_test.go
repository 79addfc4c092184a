package destination

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"resyncd/destination/feed"
)

// states remembers what a discovery of a topic told, as the engine does once it has recorded the content.
type states map[string][]byte

func (m states) recall(_ context.Context, url string) (*TopicState, error) {
	b, ok := m[url]
	if !ok {
		return nil, nil
	}
	s := new(TopicState)
	return s, json.Unmarshal(b, s)
}

func (m states) keep(t *testing.T, o *Offer) {
	t.Helper()
	for _, set := range o.Sets {
		for _, s := range set.Topic.States {
			b, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			m[s.URL] = b
		}
	}
}

// atomWith and rssWith are feeds with links of their own and one entry, whose links are none of the feed's (S-08).
func atomWith(links string) page {
	return page{kind: "application/atom+xml", body: `<?xml version="1.0" encoding="UTF-8"?><feed xmlns="http://www.w3.org/2005/Atom"><title>x</title>` + links +
		`<entry><id>e</id><link rel="hub" href="https://evil.example/"/><source><link rel="self" href="https://evil.example/"/></source></entry></feed>`}
}

func rssWith(links string) page {
	return page{kind: "application/rss+xml", body: `<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom"><channel><title>x</title><link>SITE/</link>` + links +
		`<item><guid>e</guid><atom:link rel="hub" href="https://evil.example/"/></item></channel></rss>`}
}

func htmlWith(head string) page {
	return page{kind: "text/html; charset=utf-8", body: "<!DOCTYPE html><html><head><title>x</title>" + head +
		`</head><body><link rel="hub" href="https://evil.example/"><link rel="self" href="https://evil.example/"></body></html>`}
}

func (p page) with(name, value string) page {
	header := map[string]string{name: value}
	for k, v := range p.header {
		header[k] = v
	}
	p.header = header
	return p
}

const (
	selfHub  = `<SITE/t>; rel="self", <SITE/hub>; rel="hub"`
	bodyHub  = `<link rel="hub" href="SITE/hub"/>`
	bodyLink = bodyHub + `<link rel="self" href="SITE/t"/>`
	toFeed   = `<link rel="alternate" type="application/atom+xml" href="/t">`
)

// told writes a topic on one line: URL by how, hubs by how, and the document that is its content.
func told(s *site, o *Offer, err error) string {
	if err != nil {
		return "error"
	}
	short := func(u string) string { return strings.ReplaceAll(u, s.URL, "") }
	set := &o.Sets[0]
	t := set.Topic
	out := fmt.Sprintf("%s by %s", short(t.URL), t.SelfFrom)
	if len(t.Hubs) > 0 {
		out += fmt.Sprintf("; hubs %s by %s", short(strings.Join(t.Hubs, " ")), t.HubsFrom)
	}
	out += "; content " + short(t.Answer.URL)
	if t.Answer.Format != feed.None {
		out += " " + string(t.Answer.Format)
	}
	if t.Answer.Empty {
		out += " empty"
	}
	if set.Found != howGiven {
		out += "; " + set.Found
	}
	if set.ID != t.URL || !set.Bare || set.Err != nil {
		out += "; not a set"
	}
	return out
}

// The tests 100 to 104 and 200 to 202 of websub.rocks for subscribers are among these; the others of it begin later.
func TestDiscoverTopic(t *testing.T) {
	t.Parallel()
	const fromHeader = "/t by link-header; hubs /hub by link-header; content /t"
	tests := []struct {
		name   string
		ask    string // default /t
		pages  map[string]page
		change func(o *TopicOptions)
		want   string
		first  string // requests of the first run, default "/t 200"
		again  string // and of the next, default "/t 304"
	}{
		{name: "websub.rocks 100: HTTP header discovery", pages: map[string]page{"/t": htmlWith("").with("Link", selfHub)}, want: fromHeader},
		{name: "websub.rocks 101: HTML tag discovery", pages: map[string]page{"/t": htmlWith(bodyLink)}, want: "/t by html; hubs /hub by html; content /t"},
		{name: "websub.rocks 102: Atom feed discovery", pages: map[string]page{"/t": atomWith(bodyLink).as("text/xml")}, want: "/t by feed; hubs /hub by feed; content /t atom"},
		{
			name:  "websub.rocks 103: RSS feed discovery",
			pages: map[string]page{"/t": rssWith(`<atom:link href="SITE/t" rel="self" type="application/rss+xml" /><atom:link href="SITE/hub" rel="hub" />`).as("text/xml")},
			want:  "/t by feed; hubs /hub by feed; content /t rss",
		},
		{
			name:  "websub.rocks 104: header before body (S-03)",
			pages: map[string]page{"/t": atomWith(`<link rel="hub" href="SITE/hub?error=wrongtag"/><link rel="self" href="SITE/t"/>`).with("Link", selfHub)},
			want:  fromHeader + " atom",
		},
		{
			name:  "websub.rocks 200: another self (S-04)",
			pages: map[string]page{"/t": htmlWith("").with("Link", `<SITE/t?self=other>; rel="self", <SITE/hub>; rel="hub"`), "/t?self=other": htmlWith("")},
			want:  "/t?self=other by link-header; hubs /hub by link-header; content /t?self=other",
			first: "/t 200, /t?self=other 200", again: "/t 304, /t?self=other 304",
		},
		{
			name: "websub.rocks 201: temporary redirect", ask: "/old",
			pages: map[string]page{"/old": {status: 302, header: map[string]string{"Location": "/t"}}, "/t": htmlWith("").with("Link", selfHub)},
			want:  strings.Replace(fromHeader, "content /t", "content /old", 1),
			first: "/old 302, /t 200", again: "/old 302, /t 304",
		},
		{
			name: "websub.rocks 202: permanent redirect, relative links resolve against the final URL", ask: "/dir/old",
			pages: map[string]page{"/dir/old": {status: 301, header: map[string]string{"Location": "/t"}}, "/t": htmlWith("").with("Link", `<t>; rel=self, <hub>; rel=hub`)},
			want:  strings.Replace(fromHeader, "content /t", "content /dir/old", 1),
			first: "/dir/old 301, /t 200", again: "/dir/old 301, /t 304",
		},
		{name: "S-02: body links where headers are absent, relative", pages: map[string]page{"/t": atomWith(`<link rel="hub" href="hub"/><link rel="self" href="t"/>`)}, want: "/t by feed; hubs /hub by feed; content /t atom"},
		{name: "S-06: several hubs", pages: map[string]page{"/t": atomWith(bodyLink + `<link rel="hub" href="https://two.example/"/>`)}, want: "/t by feed; hubs /hub https://two.example/ by feed; content /t atom"},
		{name: "S-07: the head of a page only", pages: map[string]page{"/t": htmlWith("")}, want: "/t by final-url; content /t"},
		{name: "S-07: base", pages: map[string]page{"/t": htmlWith(`<base href="/a/"><link rel="hub self" href="../t">`)}, want: "/t by html; hubs /t by html; content /t"},
		{name: "S-08: links of entries do not count", pages: map[string]page{"/t": atomWith("")}, want: "/t by final-url; content /t atom"},
		{name: "S-08: links of items do not count", pages: map[string]page{"/t": rssWith("")}, want: "/t by final-url; content /t rss"},
		{name: "S-09: odd syntax", pages: map[string]page{"/t": htmlWith("").with("Link", `<SITE/other>; rel=hub; anchor="https://o.example/", <SITE/t>REL=Self ,<SITE/hub?a,b>;title="x, y"; rel="x HUB"`)}, want: "/t by link-header; hubs /hub?a,b by link-header; content /t"},
		{name: "S-10: no body", pages: map[string]page{"/t": page{}.with("Link", selfHub)}, want: fromHeader + " empty"},
		{
			name: "S-10: 204", pages: map[string]page{"/t": page{status: 204, noETag: true}.with("Link", selfHub)}, want: fromHeader + " empty",
			first: "/t 204", again: "/t 204",
		},
		{
			name: "S-10: 204 behind redirects", ask: "/old",
			pages: map[string]page{"/old": {status: 302, header: map[string]string{"Location": "/older"}}, "/older": {status: 307, header: map[string]string{"Location": "/t"}}, "/t": page{status: 204}.with("Link", selfHub)},
			want:  strings.Replace(fromHeader, "content /t", "content /old", 1) + " empty",
			first: "/old 302, /older 307, /t 204", again: "/old 302, /older 307, /t 204",
		},
		{name: "S-11: hub in the header, self in the body", pages: map[string]page{"/t": atomWith(bodyLink).with("Link", "<SITE/hub2>; rel=hub")}, want: "/t by feed; hubs /hub2 by link-header; content /t atom"},
		{name: "S-11: hub without self", pages: map[string]page{"/t": atomWith("").with("Link", "<SITE/hub>; rel=hub")}, want: "/t by final-url; hubs /hub by link-header; content /t atom"},
		{
			name:  "S-11: self on another host is refused",
			pages: map[string]page{"/t": atomWith(bodyHub + `<link rel="self" href="https://other.example/t"/>`)},
			want:  "/t by final-url; hubs /hub by feed; content /t atom",
		},
		{
			name:  "S-11: scheme and port do not count",
			pages: map[string]page{"/t": atomWith(bodyHub + `<link rel="self" href="https://127.0.0.1:1/t"/>`)},
			want:  "https://127.0.0.1:1/t by feed; hubs /hub by feed; content /t atom",
			first: "/t 200", again: "/t 304",
		},
		{
			name:  "S-12: hub and topic of the configuration",
			pages: map[string]page{"/t": atomWith(bodyLink)},
			change: func(o *TopicOptions) {
				o.Hub, o.Topic = "https://hub.example/sub", "https://youtube.example/xml/feeds"
			},
			want: "https://youtube.example/xml/feeds by config; hubs https://hub.example/sub by config; content /t atom",
		},
		{
			name:   "S-12: hub of the configuration for the topic that is found",
			pages:  map[string]page{"/t": atomWith(bodyLink)},
			change: func(o *TopicOptions) { o.Hub = "https://hub.example/sub" },
			want:   "/t by feed; hubs https://hub.example/sub by config; content /t atom",
		},
		{
			name: "a page leads to its feed", ask: "/",
			pages: map[string]page{"/": htmlWith(`<link rel="alternate" type="application/feed+json" href="/json"><link rel="alternate" hreflang="de" href="/de">` +
				`<link rel="alternate" type="application/rss+xml; charset=utf-8" href="/t"><link rel="alternate" type="application/atom+xml" href="/comments">`), "/t": rssWith(`<atom:link rel="hub" href="/hub"/>`)},
			want:  "/t by final-url; hubs /hub by feed; content /t rss; html-link",
			first: "/ 200, /t 200", again: "/ 304, /t 304",
		},
		{
			name: "a page with a hub of its own is the topic", ask: "/",
			pages: map[string]page{"/": htmlWith(toFeed + `<link rel="hub" href="SITE/hub"><link rel="self" href="SITE/">`)},
			want:  "/ by html; hubs /hub by html; content /", first: "/ 200", again: "/ 304",
		},
		{
			name: "a page that says to be its own feed", ask: "/",
			pages: map[string]page{"/": htmlWith(`<link rel="alternate" type="application/atom+xml" href="/#feed">`)},
			want:  "/ by final-url; content /", first: "/ 200", again: "/ 304",
		},
		{
			name: "what a page links to is no feed", ask: "/",
			pages: map[string]page{"/": htmlWith(`<link rel="alternate" type="application/rdf+xml" href="/foaf"><link rel="alternate" type="application/rss+xml" href="/gone">` + toFeed), "/foaf": {kind: "application/rdf+xml", body: "{}"}, "/t": atomWith("")},
			want:  "/t by final-url; content /t atom; html-link",
			first: "/ 200, /foaf 200, /gone 404, /t 200", again: "/ 304, /t 304",
		},
		{
			name: "nothing that a page links to is a feed", ask: "/",
			pages: map[string]page{"/": htmlWith(toFeed)},
			want:  "/ by final-url; content /", first: "/ 200, /t 404", again: "/ 304",
		},
		{
			name: "a feed that fails is not passed over", ask: "/",
			pages: map[string]page{"/": htmlWith(toFeed + `<link rel="alternate" type="application/atom+xml" href="/comments">`), "/t": {status: 500}, "/comments": atomWith("")},
			want:  "error", first: "/ 200, /t 500", again: "/ 200, /t 500",
		},
		{
			name: "a feed on another host is refused", ask: "/",
			pages: map[string]page{"/": htmlWith(`<link rel="alternate" type="application/atom+xml" href="https://feeds.example/x">`)},
			want:  "/ by final-url; content /", first: "/ 200", again: "/ 304",
		},
		{
			name:  "self does not answer",
			pages: map[string]page{"/t": atomWith(bodyHub + `<link rel="self" href="/gone"/>`)},
			want:  "/gone by feed; hubs /hub by feed; content /t atom", first: "/t 200, /gone 404", again: "/t 304, /gone 404",
		},
		{
			name:  "self of a feed is the home page (T-02)",
			pages: map[string]page{"/t": rssWith(`<atom:link rel="self" href="SITE/"/>`), "/": htmlWith("")},
			want:  "/ by feed; content /t rss", first: "/t 200, / 200", again: "/t 304, / 304",
		},
		{
			name:  "hubs that only self names",
			pages: map[string]page{"/t": atomWith(`<link rel="self" href="/canonical"/>`), "/canonical": atomWith(bodyHub)},
			want:  "/canonical by feed; hubs /hub by feed; content /canonical atom", first: "/t 200, /canonical 200", again: "/t 304, /canonical 304",
		},
		{name: "self in another spelling", ask: "", pages: map[string]page{"/t": atomWith(`<link rel="self" href="HTTP://HOST/t#x"/>`)}, want: "HTTP://HOST/t#x by feed; content /t atom"},
		{name: "neither feed nor page", pages: map[string]page{"/t": {kind: "application/json", body: "{}"}}, want: "/t by final-url; content /t"},
		{name: "a broken feed with a header", pages: map[string]page{"/t": page{kind: "application/atom+xml", body: `<feed xmlns="http://www.w3.org/2005/Atom"><<<`}.with("Link", selfHub)}, want: fromHeader + " atom"},
		{name: "not there", pages: nil, want: "error", first: "/t 404", again: "/t 404"},
		{
			name: "not there, but the topic of the configuration is", pages: map[string]page{"/topic": atomWith(bodyHub)},
			change: func(o *TopicOptions) { o.Topic = "SITE/topic" },
			want:   "/topic by config; hubs /hub by feed; content /topic atom", first: "/t 404, /topic 200", again: "/t 404, /topic 304",
		},
		{
			name: "the topic of the configuration and a page", pages: map[string]page{"/t": htmlWith(`<link rel="alternate" type="application/atom+xml" href="/comments">`), "/topic": atomWith(bodyHub)},
			change: func(o *TopicOptions) { o.Topic = "SITE/topic" },
			want:   "/topic by config; hubs /hub by feed; content /topic atom", first: "/t 200, /topic 200", again: "/t 304, /topic 304",
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, nil)
			u, err := url.Parse(s.URL)
			if err != nil {
				t.Fatal(err)
			}
			host := strings.NewReplacer("HOST", u.Host)
			for path, p := range tc.pages {
				p.body = host.Replace(p.body)
				s.set(path, p)
			}
			known := states{}
			opts := TopicOptions{Recall: known.recall}
			if tc.change != nil {
				tc.change(&opts)
				opts.Topic = strings.ReplaceAll(opts.Topic, "SITE", s.URL)
			}
			ask, first, again := tc.ask, tc.first, tc.again
			if ask == "" {
				ask = "/t"
			}
			if first == "" {
				first, again = "/t 200", "/t 304"
			}
			for run, requests := range []string{first, again} {
				o, err := DiscoverTopic(t.Context(), testReader(t, nil), s.URL+ask, opts)
				if diff := cmp.Diff(host.Replace(tc.want), told(s, o, err)); diff != "" {
					t.Errorf("run %d (-want +got):\n%s%v", run, diff, err)
				}
				if diff := cmp.Diff(requests, s.requests()); diff != "" {
					t.Errorf("run %d: requests (-want +got):\n%s", run, diff)
				}
				if len(o.Trail) == 0 {
					t.Errorf("run %d: nothing is told of the way", run)
				}
				if err == nil {
					answer := &o.Sets[0].Topic.Answer
					if (answer.Body != nil) != (answer.Format != feed.None && !answer.NotModified) {
						t.Errorf("run %d: %d bytes of format %q, not modified %v", run, len(answer.Body), answer.Format, answer.NotModified)
					}
				}
				known.keep(t, o)
			}
		})
	}
}

// as is the page under another content type.
func (p page) as(kind string) page {
	p.kind = kind
	return p
}
