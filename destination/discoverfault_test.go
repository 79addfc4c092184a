package destination

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"resyncd/destination/fuzztest"
	"resyncd/destination/rsdoc"
)

func TestDiscoverOnly(t *testing.T) {
	t.Parallel()
	s := newSite(t, library())
	r := testReader(t, nil)
	o, err := Discover(t.Context(), r, s.URL, s.URL+"/b/cap.xml")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{setB}, shown(s, o)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{s.URL + "/a/cap.xml"}, o.Others); diff != "" {
		t.Error(diff)
	}
	if got, want := s.requests(), "/.well-known/resourcesync 200, /b/cap.xml 200"; got != want {
		t.Errorf("requests %q, want %q", got, want)
	}
	if _, err = Discover(t.Context(), r, s.URL, "https://no.example/"); err == nil {
		t.Error("a set that is not offered was found")
	}
}

func TestDiscoverMoved(t *testing.T) {
	t.Parallel()
	s := newSite(t, library())
	r := testReader(t, nil)
	if _, err := Discover(t.Context(), r, s.URL+"/sitemap.xml"); err != nil {
		t.Fatal(err)
	}
	s.set("/sitemap.xml", s.pages["/a/cap.xml"])
	tour, err := r.Walk(t.Context(), Ref{URL: s.URL + "/sitemap.xml"}, rsdoc.KindResourceList, &log{})
	if err != nil || tour.Failed != 1 || tour.Complete {
		t.Fatalf("walked a Capability List as a Resource List: %+v, %v", tour, err)
	}
	o, err := Discover(t.Context(), r, s.URL+"/sitemap.xml")
	if err != nil || len(o.Sets) != 1 || o.Sets[0].Bare {
		t.Errorf("after the list became a Capability List: %+v, %v", o.Sets, err)
	}
	// The documents of the remembered way are gone: look anew.
	s.remove("/sitemap.xml")
	s.set("/sitemap.xml", xml(urlset(rootMD(`capability="description"`)+capability("/b/cap.xml", "capabilitylist"))))
	o, err = Discover(t.Context(), r, s.URL+"/sitemap.xml")
	if diff := cmp.Diff([]string{setB}, shown(s, o)); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

// A Source Description that is down for now must neither hide its sets nor make us guess lesser ones.
func TestDiscoverWhileDescriptionIsDown(t *testing.T) {
	t.Parallel()
	s := newSite(t, library())
	r := testReader(t, nil)
	if _, err := Discover(t.Context(), r, s.URL); err != nil {
		t.Fatal(err)
	}
	s.requests()
	s.set("/.well-known/resourcesync", page{status: 500})
	o, err := Discover(t.Context(), r, s.URL)
	if diff := cmp.Diff([]string{setA, setB}, shown(s, o)); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if got, want := s.requests(), "/.well-known/resourcesync 500, /a/cap.xml 304, /b/cap.xml 304"; got != want {
		t.Errorf("requests %q, want %q", got, want)
	}
	if o.Trail[0].OK {
		t.Error("the trail hides the failure")
	}
}

// A Capability List that is empty by mistake, under the validators that it has always had, is not kept by them.
func TestDiscoverEmptyCapabilityList(t *testing.T) {
	t.Parallel()
	s := newSite(t, library())
	full := s.pages["/a/cap.xml"]
	full.noETag, full.header = true, map[string]string{"ETag": `"same"`}
	empty := full
	empty.body = urlset(rootMD(`capability="capabilitylist"`))
	s.set("/a/cap.xml", full)
	r := testReader(t, nil)
	s.on(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("If-None-Match") != `"same"` {
			return false
		}
		w.WriteHeader(http.StatusNotModified)
		return true
	})
	for _, tt := range []struct {
		page   page
		usable bool
	}{{empty, false}, {full, true}, {empty, true}} { // the last one is not asked for: 304
		s.set("/a/cap.xml", tt.page)
		o, err := Discover(t.Context(), r, s.URL)
		if err != nil || len(o.Sets) != 2 || (o.Sets[0].Err == nil) != tt.usable {
			t.Errorf("usable should be %t: %+v, %v", tt.usable, o.Sets, err)
		}
	}
}

func TestDiscoverDoubtfulRouteIsNotKept(t *testing.T) {
	t.Parallel()
	s := newSite(t, library())
	s.set("/.well-known/resourcesync", page{status: 500})
	s.set("/robots.txt", page{body: "Sitemap: SITE/sitemap.xml"})
	r := testReader(t, nil)
	o, err := Discover(t.Context(), r, s.URL)
	if err != nil || len(o.Sets) != 1 {
		t.Fatal(o, err)
	}
	s.set("/.well-known/resourcesync", library()["/.well-known/resourcesync"])
	o, err = Discover(t.Context(), r, s.URL)
	if diff := cmp.Diff([]string{setA, setB}, shown(s, o)); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

// A dump in place of the Source Description may be a mistake: the next discovery must look anew, or one wrong answer would
// hide the Source for good.
func TestDiscoverDumpIsNotKept(t *testing.T) {
	t.Parallel()
	s := newSite(t, library())
	s.set("/.well-known/resourcesync", xml(urlset(rootMD(`capability="resourcedump" at="2025-05-01T00:00:00Z"`))))
	r := testReader(t, nil)
	if o, err := Discover(t.Context(), r, s.URL); err != nil || len(o.Sets) != 1 {
		t.Fatal(o, err)
	}
	s.set("/.well-known/resourcesync", library()["/.well-known/resourcesync"])
	o, err := Discover(t.Context(), r, s.URL)
	if diff := cmp.Diff([]string{setA, setB}, shown(s, o)); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestDiscoverBounded(t *testing.T) {
	t.Parallel()
	var list strings.Builder
	pages := map[string]page{}
	for i := range 50 {
		path := fmt.Sprintf("/cap%d.xml", i)
		list.WriteString(capability(path, "capabilitylist"))
		pages[path] = xml(urlset(rootMD(`capability="capabilitylist"`) + capability("/l.xml", "resourcelist")))
	}
	pages["/.well-known/resourcesync"] = xml(urlset(rootMD(`capability="description"`) + list.String()))
	s := newSite(t, pages)
	r := testReader(t, nil)
	r.limits.requests = 10
	o, err := Discover(t.Context(), r, s.URL)
	if n := len(strings.Split(s.requests(), ",")); n != 10 || err != nil || !o.Partial {
		t.Errorf("%d requests, partial %v, %v", n, o.Partial, err)
	}
}

func TestDiscoverGivenWrongly(t *testing.T) {
	t.Parallel()
	for _, asked := range []string{"", "lib.example", "ftp://lib.example/", "http://", "::", "/path"} {
		o, err := Discover(t.Context(), testReader(t, nil), asked)
		var e *Error
		if !errors.As(err, &e) || e.Hint == "" || o == nil {
			t.Errorf("%q: %v", asked, err)
		}
	}
}

func TestDiscoverGzippedPage(t *testing.T) {
	t.Parallel()
	s := newSite(t, library())
	s.on(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/page" {
			return false
		}
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write(gzipped(`<html><head><link rel="resourcesync" href="/b/cap.xml"></head></html>`))
		return true
	})
	o, err := Discover(t.Context(), testReader(t, nil), s.URL+"/page")
	if err != nil || len(o.Sets) != 2 {
		t.Error(shown(s, o), err)
	}
}

// The page asked for has moved to another host, the well-known URI of the old one has not.
func TestDiscoverMovedHost(t *testing.T) {
	t.Parallel()
	s := newSite(t, library())
	old := newSite(t, nil)
	old.on(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/" {
			return false
		}
		http.Redirect(w, r, s.URL+"/", http.StatusFound)
		return true
	})
	s.set("/", page{kind: "text/html", body: "<html><head></head></html>"})
	o, err := Discover(t.Context(), testReader(t, nil), old.URL)
	if diff := cmp.Diff([]string{setA, setB}, shown(s, o)); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

// A list that cannot be read is said to be so; the rest of its site is not what was asked for.
func TestDiscoverBrokenDocument(t *testing.T) {
	t.Parallel()
	s := newSite(t, library())
	whole := library()["/a/list.xml"].body
	for name, body := range map[string]string{
		"malformed": strings.Replace(whole, "<rs:md", "<rs:md <", 1), "truncated": whole[:100],
	} {
		s.set("/broken.xml", xml(body))
		o, err := Discover(t.Context(), testReader(t, nil), s.URL+"/broken.xml")
		if len(o.Sets) != 0 || err == nil || !strings.Contains(err.Error(), name) || strings.Contains(s.requests(), "well-known") {
			t.Errorf("%s: %v, %v", name, o.Sets, err)
		}
	}
}

func FuzzRobots(f *testing.F) {
	f.Add([]byte("User-agent: *\nDisallow: /\nSitemap: /x\n"))
	f.Add([]byte("Sitemap:\x00\nCrawl-delay: -1e999\nAllow: /*$*"))
	f.Fuzz(func(t *testing.T, body []byte) {
		fuzztest.Bound(t)
		base, _ := url.Parse("https://lib.example/robots.txt")
		lines, _ := sitemapLines(body, base)
		if len(lines) > robotsLines {
			t.Fatalf("%d lines", len(lines))
		}
		for _, l := range lines {
			if u, err := url.Parse(l); err != nil || !u.IsAbs() {
				t.Fatalf("%q", l)
			}
		}
	})
}
