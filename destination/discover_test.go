package destination

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	wholeA = " resourcelist=/a/list.xml changelist=/a/changes.xml changelist-archive=/a/archive.xml" +
		" topic=/a/topic@https://hub.example/,https://slow.example/hub also=/a/list2.xml also=/a/strange.xml"
	setA = "/a/cap.xml description" + wholeA + " about=/a/about"
	setB = "/b/cap.xml description resourcelist=/b/list.xml"
)

func TestDiscover(t *testing.T) {
	t.Parallel()
	html := func(head string) page {
		return page{kind: "text/html", body: "<!DOCTYPE html><html><head>" + head + "</head><body>hello</body></html>"}
	}
	without := func(paths ...string) func(map[string]page) {
		return func(p map[string]page) {
			for _, path := range paths {
				delete(p, path)
			}
		}
	}
	tests := []struct {
		name   string
		ask    string
		change func(p map[string]page)
		want   []string
		first  string // requests of the first run
		again  string // and of the next
	}{
		{
			name: "site", ask: "/", want: []string{setA, setB},
			first: "/.well-known/resourcesync 200, /a/cap.xml 200, /b/cap.xml 200",
			again: "/.well-known/resourcesync 304, /a/cap.xml 304, /b/cap.xml 304",
		},
		{
			name: "site without path", ask: "", want: []string{setA, setB},
			first: "/.well-known/resourcesync 200, /a/cap.xml 200, /b/cap.xml 200",
			again: "/.well-known/resourcesync 304, /a/cap.xml 304, /b/cap.xml 304",
		},
		{
			name: "description given", ask: "/.well-known/resourcesync", want: []string{setA, setB},
			first: "/.well-known/resourcesync 200, /a/cap.xml 200, /b/cap.xml 200",
			again: "/.well-known/resourcesync 304, /a/cap.xml 304, /b/cap.xml 304",
		},
		{
			name: "capability list given", ask: "/a/cap.xml", want: []string{"/a/cap.xml given" + wholeA},
			first: "/a/cap.xml 200", again: "/a/cap.xml 304",
		},
		{
			name: "resource list given", ask: "/a/list.xml", want: []string{"/a/cap.xml up" + wholeA},
			first: "/a/list.xml 200, /a/cap.xml 200", again: "/a/cap.xml 304",
		},
		{
			name: "part of an index given", ask: "/a/changes-1.xml", want: []string{"/a/cap.xml up" + wholeA},
			first: "/a/changes-1.xml 200, /a/cap.xml 200", again: "/a/cap.xml 304",
		},
		{
			name: "index given", ask: "/a/changes.xml", want: []string{"/a/cap.xml up" + wholeA},
			first: "/a/changes.xml 200, /a/cap.xml 200", again: "/a/cap.xml 304",
		},
		{
			name: "list that its capability list does not name", ask: "/lone.xml",
			want:  []string{"/lone.xml given bare changelist=/lone.xml changelist-archive=/old.xml"},
			first: "/lone.xml 200, /a/cap.xml 200", again: "",
		},
		{
			name: "plain sitemap", ask: "/sitemap.xml", want: []string{"/sitemap.xml given bare resourcelist=/sitemap.xml"},
			first: "/sitemap.xml 200", again: "",
		},
		{
			name: "link header", ask: "/",
			change: func(p map[string]page) {
				delete(p, "/.well-known/resourcesync")
				p["/"] = page{kind: "application/pdf", body: "%PDF", header: map[string]string{"Link": `<a/cap.xml>; rel="describedby resourcesync"`}}
			},
			want:  []string{"/a/cap.xml link-header" + wholeA},
			first: "/.well-known/resourcesync 404, / 200, /a/cap.xml 200", // up is the well-known, which is known to fail
			again: "/a/cap.xml 304",
		},
		{
			name: "html link leads to the whole source", ask: "/page",
			change: func(p map[string]page) { p["/page"] = html(`<link rel="resourcesync" href="/a/cap.xml">`) },
			want:   []string{setA, setB},
			first:  "/page 200, /a/cap.xml 200, /.well-known/resourcesync 200, /b/cap.xml 200",
			again:  "/.well-known/resourcesync 304, /a/cap.xml 304, /b/cap.xml 304",
		},
		{
			name: "page without link", ask: "/page",
			change: func(p map[string]page) { p["/page"] = html("") },
			want:   []string{setA, setB},
			first:  "/page 200, /.well-known/resourcesync 200, /a/cap.xml 200, /b/cap.xml 200",
			again:  "/.well-known/resourcesync 304, /a/cap.xml 304, /b/cap.xml 304",
		},
		{
			name: "link in the body of a page counts for nothing", ask: "/",
			change: func(p map[string]page) {
				delete(p, "/.well-known/resourcesync")
				p["/"] = page{kind: "text/html", body: `<html><body><link rel="resourcesync" href="/a/cap.xml"></body></html>`}
				p["/robots.txt"] = page{body: "User-agent: *\nDisallow: /\nSitemap: SITE/sitemap.xml\nSitemap: SITE/lone.xml\n"}
			},
			want:  []string{"/lone.xml robots bare changelist=/lone.xml changelist-archive=/old.xml"},
			first: "/.well-known/resourcesync 404, / 200, /robots.txt 200, /sitemap.xml 200, /lone.xml 200, /a/cap.xml 200",
			again: "",
		},
		{
			name: "robots with nothing but a sitemap", ask: "/",
			change: func(p map[string]page) {
				delete(p, "/.well-known/resourcesync")
				p["/robots.txt"] = page{body: "Sitemap: /sitemap.xml\nSitemap: SITE/missing.xml\n"}
			},
			want:  []string{"/sitemap.xml robots bare resourcelist=/sitemap.xml"},
			first: "/.well-known/resourcesync 404, / 404, /robots.txt 200, /sitemap.xml 200, /missing.xml 404",
			again: "",
		},
		{
			name: "well-known is a capability list", ask: "/",
			change: func(p map[string]page) {
				p["/.well-known/resourcesync"] = xml(urlset(rootMD(`capability="capabilitylist"`) + capability("/l.xml", "resourcelist")))
			},
			want:  []string{"/.well-known/resourcesync well-known resourcelist=/l.xml"},
			first: "/.well-known/resourcesync 200", again: "/.well-known/resourcesync 304",
		},
		{
			name: "well-known is a resource list", ask: "/",
			change: func(p map[string]page) {
				p["/.well-known/resourcesync"] = xml(urlset(rootMD(`capability="resourcelist" at="2026-01-01T00:00:00Z"`)))
			},
			want:  []string{"/.well-known/resourcesync well-known bare resourcelist=/.well-known/resourcesync"},
			first: "/.well-known/resourcesync 200", again: "",
		},
		{
			name: "well-known is an error page", ask: "/",
			change: func(p map[string]page) {
				p["/.well-known/resourcesync"] = html("<title>not found</title>")
				p["/"] = html(`<link rel=resourcesync href=b/cap.xml>`)
			},
			want:  []string{"/b/cap.xml html-link resourcelist=/b/list.xml"},
			first: "/.well-known/resourcesync 200, / 200, /b/cap.xml 200", again: "/b/cap.xml 304",
		},
		{
			name: "source description index", ask: "/",
			change: func(p map[string]page) {
				p["/d1"] = p["/.well-known/resourcesync"]
				p["/.well-known/resourcesync"] = xml(indexOf(rootMD(`capability="description"`) +
					"<sitemap><loc>SITE/d1</loc></sitemap><sitemap><loc>SITE/d2</loc></sitemap><sitemap><loc>SITE/.well-known/resourcesync</loc></sitemap>"))
			},
			want:  []string{setA, setB},
			first: "/.well-known/resourcesync 200, /d1 200, /a/cap.xml 200, /b/cap.xml 200, /d2 404",
			again: "/.well-known/resourcesync 304, /d1 304, /a/cap.xml 304, /b/cap.xml 304, /d2 404",
		},
		{
			name: "one bad capability list stops nothing", ask: "/",
			change: func(p map[string]page) { p["/a/cap.xml"] = html("oops") },
			want:   []string{"/a/cap.xml description about=/a/about ERR", setB},
			first:  "/.well-known/resourcesync 200, /a/cap.xml 200, /b/cap.xml 200",
			again:  "/.well-known/resourcesync 304, /a/cap.xml 200, /b/cap.xml 304",
		},
		{
			name: "documents of 0.9", ask: "/09/part.xml",
			change: func(p map[string]page) {
				p["/09/part.xml"] = xml(urlset(rootMD(`capability="resourcelist" from="2013-01-03T09:00:00Z"`) +
					link("resourcesync", "/09/cap.xml") + link("up", "/09/index.xml")))
				p["/09/index.xml"] = xml(indexOf(rootMD(`capability="resourcelist" from="2013-01-03T09:00:00Z"`) + link("resourcesync", "/09/cap.xml") +
					part("/09/part.xml", `from="2013-01-03T09:00:00Z"`)))
				p["/09/cap.xml"] = xml(urlset(rootMD(`capability="capabilitylist"`) + link("resourcesync", "/09/desc.xml") +
					capability("/09/index.xml", "resourcelist")))
			},
			want:  []string{"/09/cap.xml up resourcelist=/09/index.xml"},
			first: "/09/part.xml 200, /09/index.xml 200, /09/cap.xml 200", again: "/09/cap.xml 304",
		},
		{
			name: "description of 0.9", ask: "/09",
			change: func(p map[string]page) {
				p["/09"] = xml(urlset(rootMD(`capability="resourcesync"`) + capability("/b/cap.xml", "capabilitylist")))
			},
			want: []string{setB}, first: "/09 200, /b/cap.xml 200", again: "/09 304, /b/cap.xml 304",
		},
		{
			name: "capability list without rs:md on its root", ask: "/bare-cap.xml",
			change: func(p map[string]page) { p["/bare-cap.xml"] = xml(urlset(capability("/b/list.xml", "resourcelist"))) },
			want:   []string{"/bare-cap.xml given resourcelist=/b/list.xml"},
			first:  "/bare-cap.xml 200", again: "/bare-cap.xml 304",
		},
		{
			name: "up in a circle", ask: "/x.xml",
			change: func(p map[string]page) {
				p["/x.xml"] = xml(indexOf(rootMD(`capability="resourcelist"`) + link("up", "/y.xml")))
				p["/y.xml"] = xml(indexOf(rootMD(`capability="resourcelist"`) + link("up", "/x.xml") + link("index", "/y.xml")))
			},
			want:  []string{"/x.xml given bare resourcelist=/x.xml"},
			first: "/x.xml 200, /y.xml 200", again: "",
		},
		{
			name: "descriptions in a circle", ask: "/d1",
			change: func(p map[string]page) {
				p["/d1"] = xml(urlset(rootMD(`capability="description"`) + strings.Repeat(capability("/d2", "capabilitylist"), 300) + capability("/b/cap.xml", "capabilitylist")))
				p["/d2"] = xml(urlset(rootMD(`capability="description"`) + strings.Repeat(capability("/d1", "description")+entry("/d1", ""), 300)))
			},
			want: []string{setB}, first: "/d1 200, /d2 200, /b/cap.xml 200", again: "/d1 304, /d2 304, /b/cap.xml 304",
		},
		{
			name: "description that names lists itself", ask: "/",
			change: func(p map[string]page) {
				p["/.well-known/resourcesync"] = xml(urlset(rootMD(`capability="description"`) +
					capability("/a/list.xml", "resourcelist") + capability("/b/cap.xml", "capabilitylist")))
			},
			want:  []string{setB, "/.well-known/resourcesync description resourcelist=/a/list.xml"},
			first: "/.well-known/resourcesync 200, /b/cap.xml 200", again: "/.well-known/resourcesync 304, /b/cap.xml 304",
		},
		{name: "nothing", ask: "/", change: without("/.well-known/resourcesync"),
			first: "/.well-known/resourcesync 404, / 404, /robots.txt 404",
			again: "/.well-known/resourcesync 404, / 404, /robots.txt 404"},
		{name: "document that is not there", ask: "/missing.xml", first: "/missing.xml 404", again: "/missing.xml 404"},
		{name: "document that nobody can follow", ask: "/m.xml",
			change: func(p map[string]page) {
				p["/m.xml"] = xml(urlset(rootMD(`capability="resourcedump-manifest" at="2026-01-01T00:00:00Z"`)))
			}, first: "/m.xml 200", again: "/m.xml 200"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			pages := library()
			if tc.change != nil {
				tc.change(pages)
			}
			s := newSite(t, pages)
			r := testReader(t, nil)
			for run, requests := range []string{tc.first, tc.again} {
				o, err := Discover(t.Context(), r, s.URL+tc.ask)
				if diff := cmp.Diff(tc.want, shown(s, o)); diff != "" {
					t.Errorf("run %d: sets (-want +got):\n%s", run, diff)
				}
				if diff := cmp.Diff(requests, s.requests()); diff != "" {
					t.Errorf("run %d: requests (-want +got):\n%s", run, diff)
				}
				var nothing *Error
				if (len(tc.want) == 0) != errors.As(err, &nothing) {
					t.Errorf("run %d: err = %v", run, err)
				}
				if nothing != nil && (len(nothing.Trail) == 0 || nothing.Hint == "" || !strings.Contains(err.Error(), "/")) {
					t.Errorf("run %d: %v does not say what was tried", run, err)
				}
			}
		})
	}
}
