package destination

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"resyncd/destination/fetch"
)

// feedReader is a reader whose Discover knows topics from last time.
func feedReader(t *testing.T, known states) *Reader {
	t.Helper()
	return testReader(t, func(o *ReaderOptions) { o.Topic.Recall = known.recall })
}

// A feed that is given as the address of a Source is a set; what merely links to one is not.
func TestDiscoverGivenFeed(t *testing.T) {
	t.Parallel()
	doctype := atomWith(bodyLink)
	doctype.body = strings.Replace(doctype.body, "?>", `?><!DOCTYPE feed [<!ENTITY a "b">]>`, 1)
	malformed := rssWith("")
	malformed.body = strings.Replace(malformed.body, "<rss ", `<rss dc:x="undeclared" `, 1)
	latin := rssWith("")
	latin.body = `<?xml version="1.0" encoding="ISO-8859-1"?>` + latin.body
	capable := atomWith("").with("Link", `</a/cap.xml>; rel="resourcesync"`)
	const wellKnown = "/.well-known/resourcesync 404, "
	tests := []struct {
		name, ask    string
		page         page
		library      bool
		want         string
		first, again string
	}{
		{"a document", "/t", atomWith(bodyLink), true, "/t by feed; hubs /hub by feed; content /t atom", "/t 200, /t 200", "/t 304"},
		{"WordPress", "/feed/", rssWith(""), false, "/feed/ by final-url; content /feed/ rss", wellKnown + "/feed/ 200, /feed/ 200", "/feed/ 304"},
		{"with a document type", "/t", doctype, false, "/t by feed; hubs /hub by feed; content /t atom", "/t 200, /t 200", "/t 304"},
		{"that is no good XML", "/t", malformed, false, "/t by final-url; content /t rss", "/t 200, /t 200", "/t 304"},
		{"in another encoding", "/t", latin, false, "/t by final-url; content /t rss", "/t 200, /t 200", "/t 304"},
		{"ResourceSync of a site comes first", "/feed/", rssWith(""), true, setA + ", " + setB,
			"/.well-known/resourcesync 200, /a/cap.xml 200, /b/cap.xml 200", "/.well-known/resourcesync 304, /a/cap.xml 304, /b/cap.xml 304"},
		{"a feed that names its Capability List", "/t", capable, true, setA + ", " + setB,
			"/t 200, /a/cap.xml 200, /.well-known/resourcesync 200, /b/cap.xml 200", "/.well-known/resourcesync 304, /a/cap.xml 304, /b/cap.xml 304"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, nil)
			if tc.library {
				s.pages = library()
			}
			s.set(tc.ask, tc.page)
			known := states{}
			r := feedReader(t, known)
			for run, requests := range []string{tc.first, tc.again} {
				o, err := Discover(t.Context(), r, s.URL+tc.ask)
				got := strings.Join(shown(s, o), ", ")
				if err == nil && o.Sets[0].Topic != nil {
					got = told(s, o, err)
					known.keep(t, o)
				}
				if got != tc.want || err != nil {
					t.Errorf("run %d: %s, %v", run, got, err)
				}
				if diff := cmp.Diff(requests, s.requests()); diff != "" {
					t.Errorf("run %d: requests (-want +got):\n%s", run, diff)
				}
			}
		})
	}
}

func TestDiscoverPageWithFeed(t *testing.T) {
	t.Parallel()
	for _, ask := range []string{"/", "/page"} {
		s := newSite(t, map[string]page{ask: htmlWith(toFeed), "/t": atomWith("")})
		r := feedReader(t, states{})
		_, err := Discover(t.Context(), r, s.URL+ask)
		if err == nil || !strings.Contains(err.Error(), "its feed is "+s.URL+"/t: give that, or kind: feed") || strings.Contains(s.requests(), "/t ") {
			t.Errorf("%s: %v", ask, err)
		}
		s.set(ask, htmlWith(bodyLink))
		if _, err = Discover(t.Context(), r, s.URL+ask); err == nil || !strings.Contains(err.Error(), "give kind: feed") {
			t.Errorf("%s: %v", ask, err)
		}
	}
}

func TestDiscoverWithoutFeeds(t *testing.T) {
	t.Parallel()
	s := newSite(t, library())
	s.set("/t", atomWith(bodyLink))
	m := memory{}
	with := func(never bool) *Reader {
		return testReader(t, func(o *ReaderOptions) { o.Memory, o.NoFeeds = m, never })
	}
	for _, never := range []bool{true, false, true} {
		o, err := Discover(t.Context(), with(never), s.URL+"/t")
		if isTopic := err == nil && o.Sets[0].Topic != nil; err != nil || isTopic == never {
			t.Errorf("never %v: %v, %v", never, shown(s, o), err)
		}
		delete(m, routeKey(s.URL+"/.well-known/resourcesync"))
		if never {
			delete(m, routeKey(s.URL+"/t"))
		}
	}
}

// While the feed does not answer, nothing else is taken for it, and its set keeps its name. When something else is in its
// place, the Source is looked at anew.
func TestDiscoverFeedLater(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]page{"/feed/": atomWith(`<link rel="self" href="/feed/?canonical"/>`), "/feed/?canonical": atomWith(""),
		"/robots.txt": {body: "Sitemap: SITE/sitemap.xml"}, "/sitemap.xml": library()["/sitemap.xml"]})
	known := states{}
	r := feedReader(t, known)
	ask := func() (*Offer, error) {
		o, err := Discover(t.Context(), r, s.URL+"/feed/")
		if err == nil && o.Sets[0].Topic != nil {
			known.keep(t, o)
		}
		return o, err
	}
	if _, err := ask(); err != nil {
		t.Fatal(err)
	}
	for status, kind := range map[int]fetch.Kind{503: fetch.Transient, 404: fetch.Gone} {
		s.set("/feed/", page{status: status})
		s.requests()
		o, err := ask()
		if e, ok := errors.AsType[*Error](err); !ok || fetch.KindOf(err) != kind || !strings.Contains(e.Hint, "feed") {
			t.Errorf("%d: %v", status, err)
		}
		if len(o.Sets) != 1 || o.Sets[0].Err == nil || o.Sets[0].ID != s.URL+"/feed/?canonical" {
			t.Errorf("%d: %+v", status, o.Sets)
		}
		if got := s.requests(); strings.Contains(got, "sitemap") {
			t.Errorf("%d: requests %q", status, got)
		}
	}
	s.set("/feed/", xml(urlset(rootMD(`capability="capabilitylist"`)+capability("/l.xml", "resourcelist"))))
	o, err := ask()
	if err != nil || o.Sets[0].Topic != nil || o.Sets[0].ID != s.URL+"/feed/" {
		t.Errorf("%+v, %v", o.Sets, err)
	}
}

func TestDiscoverOnlyFeed(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]page{"/t": atomWith("")})
	r := feedReader(t, states{})
	if _, err := Discover(t.Context(), r, s.URL+"/t", s.URL+"/t"); err != nil {
		t.Error(err)
	}
	o, err := Discover(t.Context(), feedReader(t, states{}), s.URL+"/t", "https://other.example/")
	if err == nil || len(o.Sets) != 0 || len(o.Others) != 1 {
		t.Errorf("%+v, %v", o, err)
	}
}
