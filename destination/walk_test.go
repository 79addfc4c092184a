package destination

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"resyncd/destination/rsdoc"
)

const (
	listMD = `<rs:md capability="resourcelist" at="2026-01-01T00:00:00Z"/>`
	html5  = "<!DOCTYPE html><html><body>Sorry</body></html>"
)

func list(locs ...string) page {
	var b strings.Builder
	for _, l := range locs {
		b.WriteString(entry(l, `length="1"`))
	}
	return xml(urlset(listMD + b.String()))
}

func changes(md string, locs ...string) page {
	var b strings.Builder
	for _, l := range locs {
		b.WriteString(entry(l, `change="updated"`))
	}
	return xml(urlset(`<rs:md capability="changelist" ` + md + `/>` + b.String()))
}

func TestWalk(t *testing.T) {
	t.Parallel()
	index := func(parts ...string) page {
		var b strings.Builder
		for _, p := range parts {
			b.WriteString(part(p, `at="2026-01-01T00:00:00Z"`))
		}
		return xml(indexOf(listMD + b.String()))
	}
	tests := []struct {
		name     string
		kind     rsdoc.Kind // default resourcelist
		pages    map[string]page
		want     []string
		requests string
		tour     Tour
	}{
		{
			name: "list", pages: map[string]page{"/": list("/1", "/2")},
			want: []string{"begin / resourcelist", "entry /1", "entry /2", "end /"}, requests: "/ 200",
			tour: Tour{Lists: 1, Complete: true},
		},
		{
			name: "empty list", pages: map[string]page{"/": list()},
			want: []string{"begin / resourcelist", "end /"}, requests: "/ 200", tour: Tour{Lists: 1, Complete: true},
		},
		{
			name:  "plain sitemap",
			pages: map[string]page{"/": xml(`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>SITE/1</loc></url></urlset>`)},
			want:  []string{"begin / resourcelist", "entry /1", "end /"}, requests: "/ 200", tour: Tour{Lists: 1, Complete: true},
		},
		{
			name:     "index, asked for again after its parts",
			pages:    map[string]page{"/": index("/a", "/b"), "/a": list("/1"), "/b": list("/2")},
			want:     []string{"begin /a resourcelist", "entry /1", "end /a", "begin /b resourcelist", "entry /2", "end /b"},
			requests: "/ 200, /a 200, /b 200, / 304", tour: Tour{Lists: 2, Complete: true},
		},
		{
			name:  "empty index",
			pages: map[string]page{"/": index()}, requests: "/ 200", tour: Tour{Complete: true},
		},
		{
			name:     "one part missing, one a page, one of another kind, one cut",
			pages:    map[string]page{"/": index("/a", "/b", "/c", "/d", "/e"), "/b": {body: html5}, "/c": changes(`from="2026-01-01T00:00:00Z"`), "/d": {body: list("/1").body[:200]}, "/e": list("/2")},
			want:     []string{"failed /a", "failed /b", "failed /c", "failed /d", "begin /e resourcelist", "entry /2", "end /e"},
			requests: "/ 200, /a 404, /b 200, /c 200, /d 200, /d 200, /d 200, /e 200", tour: Tour{Lists: 1, Failed: 4},
		},
		{
			name: "html in place of the list", pages: map[string]page{"/": {body: html5}},
			want: []string{"failed /"}, requests: "/ 200", tour: Tour{Failed: 1},
		},
		{
			name: "xhtml in place of the list", pages: map[string]page{"/": xml(`<html xmlns="http://www.w3.org/1999/xhtml"><head><title>x</title></head><body/></html>`)},
			want: []string{"failed /"}, requests: "/ 200", tour: Tour{Failed: 1},
		},
		{
			name: "bad entry", pages: map[string]page{"/": xml(urlset(listMD + "<url><lastmod>2026-01-01</lastmod></url>" + entry("/1", "")))},
			want: []string{"begin / resourcelist", "entry /1", "end / skipped 1"}, requests: "/ 200", tour: Tour{Lists: 1, Complete: true},
		},
		{
			name:     "bad entry in an index may have been a list",
			pages:    map[string]page{"/": xml(indexOf(listMD + "<sitemap></sitemap>" + part("/a", ""))), "/a": list()},
			want:     []string{"begin /a resourcelist", "end /a"},
			requests: "/ 200, /a 200", tour: Tour{Lists: 1},
		},
		{
			name:     "part named twice is read once",
			pages:    map[string]page{"/": index("/a", "/a"), "/a": list("/1")},
			want:     []string{"begin /a resourcelist", "entry /1", "end /a"},
			requests: "/ 200, /a 200, / 304", tour: Tour{Lists: 1, Complete: true},
		},
		{
			name:     "index of indexes",
			pages:    map[string]page{"/": index("/i", "/j"), "/i": index("/a"), "/j": index("/a", "/b"), "/a": list("/1"), "/b": list("/2")},
			want:     []string{"begin /a resourcelist", "entry /1", "end /a", "begin /b resourcelist", "entry /2", "end /b"},
			requests: "/ 200, /i 200, /a 200, /i 304, /j 200, /b 200, /j 304, / 304", tour: Tour{Lists: 2, Complete: true},
		},
		{
			name:     "index that leads back to itself",
			pages:    map[string]page{"/": index("/i", "/a"), "/i": index("/"), "/a": list("/1")},
			want:     []string{"failed /", "begin /a resourcelist", "entry /1", "end /a"},
			requests: "/ 200, /i 200, /a 200", tour: Tour{Lists: 1, Failed: 1},
		},
		{
			name:     "indexes too deep",
			pages:    map[string]page{"/": index("/i"), "/i": index("/j"), "/j": index("/k"), "/k": index("/a"), "/a": list("/1")},
			want:     []string{"failed /k"},
			requests: "/ 200, /i 200, /j 200, /k 200", tour: Tour{Failed: 1},
		},
		{
			name: "urlset that is an index by capability",
			pages: map[string]page{
				"/":  xml(urlset(listMD + capability("/a", "resourcelist") + capability("/b", "resourcelist"))),
				"/a": list("/1"), "/b": list("/2"),
			},
			want:     []string{"begin /a resourcelist", "entry /1", "end /a", "begin /b resourcelist", "entry /2", "end /b"},
			requests: "/ 200, /a 200, /b 200, / 304", tour: Tour{Lists: 2, Complete: true},
		},
		{
			name: "urlset that is an index by at",
			pages: map[string]page{
				"/": xml(urlset(listMD + entry("/a", `at="2026-01-01T00:00:00Z"`))), "/a": list("/1"),
			},
			want:     []string{"begin /a resourcelist", "entry /1", "end /a"},
			requests: "/ 200, /a 200, / 200, /a 200, / 304", tour: Tour{Lists: 1, Complete: true},
		},
		{
			name: "urlset with at that is a list after all",
			pages: map[string]page{
				"/": xml(urlset(listMD + entry("/a", `at="2026-01-01T00:00:00Z"`))), "/a": {body: "I am a resource"},
			},
			want:     []string{"begin / resourcelist", "entry /a", "end /"},
			requests: "/ 200, /a 200, / 200", tour: Tour{Lists: 1, Complete: true},
		},
		{
			name: "resource with a foreign capability is a resource", pages: map[string]page{
				"/": xml(urlset(listMD + capability("/a", "changelist"))),
			},
			want: []string{"begin / resourcelist", "entry /a", "end /"}, requests: "/ 200", tour: Tour{Lists: 1, Complete: true},
		},
		{
			name: "change list index, newest first, as in 0.9", kind: rsdoc.KindChangeList,
			pages: map[string]page{
				"/": xml(indexOf(rootMD(`capability="changelist" from="2026-01-01T00:00:00Z"`) +
					part("/open", `from="2026-01-03T00:00:00Z"`) +
					part("/2", `from="2026-01-02T00:00:00Z" until="2026-01-03T00:00:00Z"`) +
					part("/1", `from="2026-01-01T00:00:00Z" until="2026-01-02T00:00:00Z"`))),
				"/1": changes(`from="2026-01-01T00:00:00Z" until="2026-01-02T00:00:00Z"`, "/a"), "/2": changes(`from="2026-01-02T00:00:00Z" until="2026-01-03T00:00:00Z"`, "/b"),
				"/open": changes(`from="2026-01-03T00:00:00Z"`, "/c"),
			},
			want: []string{"begin /1 changelist", "entry /a", "end /1", "begin /2 changelist", "entry /b", "end /2",
				"begin /open changelist", "entry /c", "end /open"},
			requests: "/ 200, /1 200, /2 200, /open 200", tour: Tour{Lists: 3, Complete: true},
		},
		{
			name: "archive", kind: rsdoc.KindChangeListArchive,
			pages: map[string]page{
				"/": xml(urlset(rootMD(`capability="changelist-archive"`) +
					entry("/1", `from="2026-01-01T00:00:00Z" until="2026-01-02T00:00:00Z"`) + entry("/i", ""))),
				"/1": changes(`from="2026-01-01T00:00:00Z" until="2026-01-02T00:00:00Z"`, "/a"),
				"/i": xml(indexOf(rootMD(`capability="changelist" from="2026-01-02T00:00:00Z"`) + part("/2", ""))),
				"/2": changes(`from="2026-01-02T00:00:00Z"`, "/b"),
			},
			want:     []string{"begin /1 changelist", "entry /a", "end /1", "begin /2 changelist", "entry /b", "end /2"},
			requests: "/ 200, /1 200, /i 200, /2 200", tour: Tour{Lists: 2, Complete: true},
		},
		{
			name: "archive index", kind: rsdoc.KindChangeListArchive,
			pages: map[string]page{
				"/":  xml(indexOf(rootMD(`capability="changelist-archive"`) + "<sitemap><loc>SITE/x</loc></sitemap>")),
				"/x": xml(urlset(rootMD(`capability="changelist-archive"`) + entry("/1", ""))),
				"/1": changes(`from="2026-01-01T00:00:00Z"`, "/a"),
			},
			want: []string{"begin /1 changelist", "entry /a", "end /1"}, requests: "/ 200, /x 200, /1 200", tour: Tour{Lists: 1, Complete: true},
		},
		{
			name: "a list where an archive should be", kind: rsdoc.KindChangeListArchive,
			pages: map[string]page{"/": changes(`from="2026-01-01T00:00:00Z"`, "/a")},
			want:  []string{"failed /"}, requests: "/ 200", tour: Tour{Failed: 1},
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, tc.pages)
			if tc.kind == "" {
				tc.kind = rsdoc.KindResourceList
			}
			v := &log{}
			tour, err := testReader(t, nil).Walk(t.Context(), Ref{URL: s.URL + "/"}, tc.kind, v)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, v.lines); diff != "" {
				t.Errorf("visited (-want +got):\n%s%v", diff, v.failed)
			}
			if diff := cmp.Diff(tc.requests, s.requests()); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			tour.Root = nil
			if diff := cmp.Diff(tc.tour, tour); diff != "" {
				t.Errorf("tour (-want +got):\n%s", diff)
			}
		})
	}
}
