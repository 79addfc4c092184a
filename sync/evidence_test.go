package sync

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// evidenceDay is a day of the Source's history.
func evidenceDay(n int) time.Time {
	return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, n)
}

// item is an entry of a plain Sitemap: loc and lastmod, nothing else.
func (f *fake) item(path, body string, day int) string {
	f.page(path, body)
	return `<url><loc>` + f.uri(path) + `</loc><lastmod>` + evidenceDay(day).Format(time.RFC3339) + `</lastmod></url>`
}

func plain(root string, entries ...string) string {
	s := `<?xml version="1.0" encoding="UTF-8"?><` + root + ` xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">`
	for _, e := range entries {
		s += e
	}
	return s + `</` + root + `>`
}

func (f *fake) smart(path string, day int) string {
	return `<sitemap><loc>` + f.uri(path) + `</loc><lastmod>` + evidenceDay(day).Format(time.RFC3339) + `</lastmod></sitemap>`
}

// A plain Sitemap index: the first part never changes, the second is sorted newest first.
func TestEvidenceStuckA(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.set("resourcelist", "/sitemap.xml")
	f.dated("/sitemap.xml", evidenceDay(10), plain("sitemapindex", f.smart("/old.xml", 0), f.smart("/new.xml", 10)))
	f.dated("/old.xml", evidenceDay(0), plain("urlset", f.item("/o", "o", 0)))
	f.dated("/new.xml", evidenceDay(10), plain("urlset", f.item("/y", "y1", 9), f.item("/x", "x1", 8)))
	f.one(true)
	f.holds(map[string]string{"/o": "o", "/x": "x1", "/y": "y1"})
	// x is updated, so it goes to the top.
	f.dated("/sitemap.xml", evidenceDay(20), plain("sitemapindex", f.smart("/old.xml", 0), f.smart("/new.xml", 20)))
	f.dated("/new.xml", evidenceDay(20), plain("urlset", f.item("/x", "x2", 20), f.item("/y", "y1", 9)))
	f.all()
	f.holds(map[string]string{"/o": "o", "/x": "x2", "/y": "y1"})
}

// One plain Sitemap whose Last-Modified goes back (deployed with an older time), with other content.
func TestEvidenceBackA(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.set("resourcelist", "/sitemap.xml")
	f.dated("/sitemap.xml", evidenceDay(10), plain("urlset", f.item("/y", "y1", 9), f.item("/x", "x1", 8)))
	f.one(true)
	f.dated("/sitemap.xml", evidenceDay(9), plain("urlset", f.item("/y", "y2", 11), f.item("/z", "z", 11)))
	f.handle("/x", nil)
	f.all()
	f.holds(map[string]string{"/y": "y2", "/z": "z"})
}

// Resource List index, parts with at, first part static; Change List rotated beyond the position.
func TestEvidenceOldPartHole(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.set("resourcelist", "/rl.xml", "changelist", "/cl.xml")
	at := func(m int) string { return `at="` + when(m) + `"` }
	f.page("/rl.xml", index("resourcelist", "", f.part("/p1.xml", at(0)), f.part("/p2.xml", at(0))))
	f.page("/p1.xml", list("resourcelist", at(0), f.res("/a", "a")))
	f.page("/p2.xml", list("resourcelist", at(0), f.res("/b", "b1"), f.res("/c", "c1")))
	f.page("/cl.xml", list("changelist", `from="`+when(0)+`"`, f.changed("/c", "c2", "updated", 5), f.changed("/c", "c3", "updated", 10)))
	f.one(true)
	// away: b changed at 50, which no list tells any more
	f.page("/rl.xml", index("resourcelist", "", f.part("/p1.xml", at(0)), f.part("/p2.xml", at(100))))
	f.page("/p2.xml", list("resourcelist", at(100), f.res("/b", "b2"), f.res("/c", "c4")))
	f.page("/cl.xml", list("changelist", `from="`+when(100)+`"`, f.changed("/c", "c5", "updated", 110)))
	for range 3 {
		f.all()
	}
	f.holds(map[string]string{"/a": "a", "/b": "b2", "/c": "c5"})
}

// The same Resource List (with at) index for a Source without a Change List.
func TestEvidenceOldPartListOnly(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.set("resourcelist", "/rl.xml")
	at := func(m int) string { return `at="` + when(m) + `"` }
	f.page("/rl.xml", index("resourcelist", "", f.part("/p1.xml", at(0)), f.part("/p2.xml", at(0))))
	f.page("/p1.xml", list("resourcelist", at(0), f.res("/a", "a")))
	f.page("/p2.xml", list("resourcelist", at(0), f.res("/b", "b1"), f.res("/c", "c1"), f.res("/d", "d1")))
	f.one(true)
	f.handle("/b", nil)
	f.page("/rl.xml", index("resourcelist", "", f.part("/p1.xml", at(0)), f.part("/p2.xml", at(100))))
	f.page("/p2.xml", list("resourcelist", at(100), f.res("/c", "c2"), f.res("/d", "d2")))
	for range 2 {
		f.all()
	}
	f.holds(map[string]string{"/a": "a", "/c": "c2", "/d": "d2"})
}

// An entry of a Change List that cannot be read.
func TestEvidenceSkipped(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.set("resourcelist", "/rl.xml", "changelist", "/cl.xml")
	f.page("/rl.xml", list("resourcelist", `at="`+when(0)+`"`, f.res("/a", "a"), f.res("/b", "b")))
	f.page("/cl.xml", list("changelist", `from="`+when(0)+`"`))
	f.one(true)
	f.page("/cl.xml", list("changelist", `from="`+when(0)+`"`, f.changed("/a", "a2", "modified", 5), f.changed("/b", "b2", "updated", 6), f.changed("/b", "b3", "updated", 7)))
	f.all()
	f.holds(map[string]string{"/a": "a2", "/b": "b3"})
}

// A Change List that keeps only the last change of each resource, with seconds.
func TestEvidencePruned(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.set("resourcelist", "/rl.xml", "changelist", "/cl.xml")
	f.page("/rl.xml", list("resourcelist", `at="`+when(0)+`"`, f.res("/a", "a"), f.res("/b", "b")))
	f.page("/cl.xml", list("changelist", `from="`+when(0)+`"`, f.changed("/b", "b2", "updated", 5), f.changed("/a", "a2", "updated", 5)))
	f.one(true)
	f.page("/cl.xml", list("changelist", `from="`+when(0)+`"`, f.changed("/a", "a3", "updated", 5), f.changed("/b", "b4", "updated", 6)))
	f.all()
	f.holds(map[string]string{"/a": "a3", "/b": "b4"})
}

// Seconds in the Change List, fractions in the Resource List's at: a change of that very second is lost.
func TestEvidenceFraction(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.set("resourcelist", "/rl.xml", "changelist", "/cl.xml")
	f.page("/rl.xml", list("resourcelist", `at="2026-01-01T00:10:00.500Z"`, f.res("/a", "a"), f.res("/b", "b")))
	f.page("/cl.xml", list("changelist", `from="`+when(10)+`"`))
	f.one(true)
	f.page("/cl.xml", list("changelist", `from="`+when(10)+`"`, f.changed("/a", "a2", "updated", 10), f.changed("/b", "b2", "updated", 11)))
	f.all()
	f.holds(map[string]string{"/a": "a2", "/b": "b2"})
}

// nginx: a strong ETag made of mtime in seconds and length. The same length, twice within a second, no hash listed.
func TestEvidenceSecondETag(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	serve := func(path, text string, at time.Time) {
		f.handle(path, func(w http.ResponseWriter, req *http.Request) {
			tag := fmt.Sprintf(`"%x-%x"`, at.Unix(), len(text))
			w.Header().Set("ETag", tag)
			w.Header().Set("Last-Modified", at.UTC().Format(http.TimeFormat))
			if req.Header.Get("If-None-Match") == tag {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			_, _ = io.WriteString(w, text)
		})
	}
	f.set("resourcelist", "/rl.xml", "changelist", "/cl.xml")
	now := time.Now().Truncate(time.Second)
	serve("/a", "v1", now)
	f.page("/rl.xml", list("resourcelist", `at="`+when(0)+`"`, f.entry("/a", `length="2"`)))
	from := `from="` + when(0) + `"`
	f.page("/cl.xml", list("changelist", from))
	f.one(true)
	serve("/a", "v2", now)
	f.page("/cl.xml", list("changelist", from, f.entry("/a", `change="updated" datetime="`+when(5)+`" length="2"`)))
	f.all()
	f.holds(map[string]string{"/a": "v2"})
}

// A Capability List with two Resource Lists: one is followed, and that the other is not is a problem of the set.
func TestEvidenceTwoLists(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.set("resourcelist", "/rl.xml", "resourcelist", "/rl2.xml")
	f.page("/rl.xml", list("resourcelist", `at="`+when(0)+`"`, f.res("/a", "a")))
	f.page("/rl2.xml", list("resourcelist", `at="`+when(0)+`"`, f.res("/b", "b")))
	for range 2 {
		if res := f.one(false); !strings.Contains(res.Problem, "/rl2.xml") {
			t.Errorf("%+v", res)
		}
	}
	f.holds(map[string]string{"/a": "a"})
}

// A list whose at stays although it is rewritten, sorted newest first.
func TestEvidenceSameAt(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.set("resourcelist", "/rl.xml")
	f.page("/rl.xml", list("resourcelist", `at="`+when(0)+`"`, f.res("/a", "a"), f.res("/b", "b")))
	f.one(true)
	f.page("/rl.xml", list("resourcelist", `at="`+when(0)+`"`, f.res("/b", "b2"), f.res("/a", "a")))
	f.all()
	f.holds(map[string]string{"/a": "a", "/b": "b2"})
}

// A plain Sitemap without Last-Modified: the local clock is set back by an hour (no Date), or the Source's.
func TestEvidenceDateBack(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.set("resourcelist", "/sitemap.xml")
	serve := func(date time.Time, text string) {
		f.handle("/sitemap.xml", func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Date", date.UTC().Format(http.TimeFormat))
			_, _ = io.WriteString(w, text)
		})
	}
	serve(time.Now().Add(24*time.Hour), plain("urlset", f.item("/x", "x1", 8)))
	f.one(true)
	serve(time.Now(), plain("urlset", f.item("/x", "x2", 9), f.item("/z", "z", 9)))
	f.all()
	f.holds(map[string]string{"/x": "x2", "/z": "z"})
}

// A Change List index whose parts cover fixed windows: until is written down before the window is over (two minutes ahead).
func TestEvidenceWindow(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	now := time.Now().UTC().Truncate(time.Second)
	date := now
	put := func(path, text string) {
		f.handle(path, func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Date", date.Format(http.TimeFormat))
			_, _ = io.WriteString(w, text)
		})
	}
	ts := func(d time.Duration) string { return now.Add(d).Format(time.RFC3339) }
	at := func(path, body string, d time.Duration) string {
		f.page(path, body)
		return f.entry(path, fmt.Sprintf(`change="updated" datetime="%s" %s`, ts(d), fixity(body)))
	}
	f.set("resourcelist", "/rl.xml", "changelist", "/cl.xml")
	m := time.Minute
	f.page("/rl.xml", list("resourcelist", `at="`+ts(-60*m)+`"`, f.res("/a", "a"), f.res("/b", "b")))
	win := func(a, b time.Duration) string { return `from="` + ts(a) + `" until="` + ts(b) + `"` }
	b1 := at("/b", "b1", -5*m)
	put("/cl.xml", index("changelist", `from="`+ts(-60*m)+`"`, f.part("/cl1.xml", win(-60*m, 2*m))))
	put("/cl1.xml", list("changelist", win(-60*m, 2*m), b1))
	f.one(true)
	// a changes a minute later; after two the next window begins
	date = now.Add(10 * m)
	put("/cl.xml", index("changelist", `from="`+ts(-60*m)+`"`, f.part("/cl1.xml", win(-60*m, 2*m)), f.part("/cl2.xml", win(2*m, 12*m))))
	put("/cl1.xml", list("changelist", win(-60*m, 2*m), b1, at("/a", "a2", 1*m)))
	put("/cl2.xml", list("changelist", win(2*m, 12*m), at("/b", "b3", 5*m)))
	f.all()
	f.holds(map[string]string{"/a": "a2", "/b": "b3"})
}

// A Change List without from that keeps the last changes only, as the simulator of the specification's authors writes it.
func TestEvidenceLastChangesOnly(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.set("resourcelist", "/rl.xml", "changelist", "/cl.xml")
	rl := func(at int, bodies ...string) {
		entries := make([]string, 0, len(bodies))
		for i, body := range bodies {
			entries = append(entries, f.res(fmt.Sprintf("/%d", i), body))
		}
		f.page("/rl.xml", list("resourcelist", `at="`+when(at)+`"`, entries...))
	}
	cl := func(entries ...string) { f.page("/cl.xml", list("changelist", "", entries...)) }
	rl(10, "a", "b", "c")
	cl(f.changed("/0", "a", "updated", 8), f.changed("/1", "b", "updated", 9))
	f.one(true)
	cl(f.changed("/1", "b", "updated", 9), f.changed("/0", "a2", "updated", 12)) // reaches back
	if res := f.one(true); res.Kind != "incremental" || res.GapsFound != 0 {
		t.Errorf("a list that reaches back: %+v", res)
	}
	// /2 changed at 20, and the list keeps two.
	changes := []string{f.changed("/0", "a3", "updated", 30), f.changed("/1", "b2", "updated", 31)}
	rl(0, "a3", "b2", "c2")
	f.page("/rl.xml", list("resourcelist", `at="`+when(10)+`"`, f.entry("/0", fixity("a")), f.entry("/1", fixity("b")), f.entry("/2", fixity("c"))))
	cl(changes...)
	for range 2 {
		if res := f.one(false); !strings.Contains(res.Problem, "from") {
			t.Errorf("%+v", res)
		}
	}
	rl(40, "a3", "b2", "c2") // at last a newer list
	f.one(true)
	f.holds(map[string]string{"/0": "a3", "/1": "b2", "/2": "c2"})
	f.quiet()
}

// Entries of a list of which only the URI can be read, and one of which not even that can, until they are gone.
func TestEvidenceUnreadableInResourceList(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.set("resourcelist", "/rl.xml", "changelist", "/cl.xml")
	a, b := f.res("/a", "a"), f.res("/b", "b")
	nameless := `<url><rs:md length="1"/></url>`
	f.page("/c", "c")
	twice := `<url><loc>` + f.uri("/c") + `</loc><rs:md length="1"/><rs:md length="2"/></url>`
	f.page("/cl.xml", list("changelist", `from="`+when(0)+`"`))
	f.page("/rl.xml", list("resourcelist", `at="`+when(0)+`"`, a, b, nameless, twice))
	for range 2 {
		f.one(false)
		f.holds(map[string]string{"/a": "a", "/b": "b", "/c": "c"})
	}
	f.page("/rl.xml", list("resourcelist", `at="`+when(0)+`"`, a, b))
	f.handle("/c", nil)
	f.one(true)
	f.holds(map[string]string{"/a": "a", "/b": "b"})
	f.quiet()
}

// A resource that changes twice in the second with which a reading of the Change List ended, in a list that tells nothing of
// content: the second change is not the event that is known.
func TestEvidenceTwiceInASecond(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.set("resourcelist", "/rl.xml", "changelist", "/cl.xml")
	from, change := `from="`+when(0)+`"`, `change="updated" datetime="`+when(5)+`"`
	entry := f.entry("/r", change, "<lastmod>"+when(5)+"</lastmod>")
	f.page("/r", "one")
	f.page("/rl.xml", list("resourcelist", `at="`+when(0)+`"`, f.entry("/r", "")))
	f.page("/cl.xml", list("changelist", from))
	f.one(true)
	f.page("/r", "two")
	f.page("/cl.xml", list("changelist", from, entry))
	f.one(true)
	f.page("/r", "three")
	f.page("/cl.xml", list("changelist", from, entry, entry))
	if res := f.one(true); res.Asked != 1 {
		t.Errorf("%+v", res)
	}
	f.holds(map[string]string{"/r": "three"})
	f.quiet()
}
