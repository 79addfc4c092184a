package sync

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"resyncd/destination/peer/source"
	"resyncd/sync/keymap"
	"resyncd/sync/plan"
	"resyncd/sync/transfer"
)

// audit has the auditor look, and returns what it finds as "problem path", and its report. Its requests are not counted.
func (r *rig) audit() (found []string, rep Report) {
	r.t.Helper()
	r.mu.Lock()
	asks := r.asks
	r.mu.Unlock()
	r.with(func(e *Engine, target Target) {
		var err error
		opts := r.opts
		opts.Plan, opts.Ended, opts.Progress = nil, nil, nil
		rep, err = e.Audit(context.Background(), target, opts, false, func(f Finding) error {
			name := ""
			if f.URI != nil {
				name = strings.TrimPrefix(*f.URI, r.srv.URL)
			} else {
				name = *f.Key
			}
			found = append(found, f.Problem+" "+name)
			return nil
		})
		if err != nil {
			r.t.Fatalf("audit: %v", err)
		}
	})
	r.mu.Lock()
	r.asks = asks
	r.mu.Unlock()
	slices.Sort(found)
	return found, rep
}

// auditFinds insists that the auditor finds this and nothing else.
func (r *rig) auditFinds(want ...string) {
	r.t.Helper()
	found, rep := r.audit()
	slices.Sort(want)
	if diff := cmp.Diff(want, found); diff != "" {
		r.t.Errorf("the auditor (-want +found):\n%s", diff)
	}
	if rep.InStep != (len(want) == 0) {
		r.t.Errorf("%v: %+v", want, rep)
	}
}

// auditLoc is an entry of a plain Sitemap: a loc, and nothing to compare by.
func (f *fake) auditLoc(path, body string) string {
	f.page(path, body)
	return `<url><loc>` + f.uri(path) + `</loc></url>`
}

// servedAt serves a document with a Last-Modified.
func (f *fake) servedAt(path string, minute int, text string) {
	at, err := time.Parse(time.RFC3339, when(minute))
	if err != nil {
		f.t.Fatal(err)
	}
	f.handle(path, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Last-Modified", at.UTC().Format(http.TimeFormat))
		_, _ = w.Write([]byte(text))
	})
}

func asOf(minute int) string   { return `at="` + when(minute) + `"` }
func asFrom(minute int) string { return `from="` + when(minute) + `"` }

func auditSitemap(root string, entries ...string) string {
	return `<?xml version="1.0" encoding="UTF-8"?><` + root + ` xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">` +
		strings.Join(entries, "") + `</` + root + `>`
}

// TestAuditIndependent: state and mirror agree with each other, and the documents changed in ways of which a merge with what
// is remembered may think that they say nothing new. The auditor names what differs, and nothing while nothing does.
func TestAuditIndependent(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		before, after func(f *fake)
		want          []string
	}{
		"a snapshot time that does not grow": {
			func(f *fake) {
				f.set("resourcelist", "/rl.xml")
				f.page("/rl.xml", list("resourcelist", asOf(0), f.res("/y", "y1"), f.res("/x", "x1")))
			},
			func(f *fake) {
				f.page("/rl.xml", list("resourcelist", asOf(0), f.res("/x", "x2"), f.res("/y", "y1")))
			},
			[]string{"stale /x"},
		},
		"a plain index whose first part is static": {
			func(f *fake) {
				f.set("resourcelist", "/sitemap.xml")
				f.servedAt("/sitemap.xml", 10, auditSitemap("sitemapindex", f.auditPart("/old.xml"), f.auditPart("/new.xml")))
				f.servedAt("/old.xml", 0, auditSitemap("urlset", f.auditLoc("/o", "o")))
				f.servedAt("/new.xml", 10, auditSitemap("urlset", f.auditLoc("/y", "y1"), f.auditLoc("/x", "x1")))
			},
			func(f *fake) {
				f.servedAt("/new.xml", 20, auditSitemap("urlset", f.auditLoc("/x", "x2"), f.auditLoc("/y", "y1")))
			},
			[]string{"stale /x"},
		},
		"a snapshot time that goes back": {
			func(f *fake) {
				f.set("resourcelist", "/sitemap.xml")
				f.servedAt("/sitemap.xml", 10, auditSitemap("urlset", f.auditLoc("/y", "y1"), f.auditLoc("/x", "x1")))
			},
			func(f *fake) {
				f.servedAt("/sitemap.xml", 5, auditSitemap("urlset", f.auditLoc("/y", "y2"), f.auditLoc("/z", "z")))
				f.handle("/x", nil)
			},
			[]string{"missing /z", "stale /y", "unlisted /x"},
		},
		"an index whose first part is old, and a hole behind it": {
			func(f *fake) {
				f.set("resourcelist", "/rl.xml", "changelist", "/cl.xml")
				f.page("/rl.xml", index("resourcelist", "", f.part("/p1.xml", asOf(0)), f.part("/p2.xml", asOf(0))))
				f.page("/p1.xml", list("resourcelist", asOf(0), f.res("/a", "a")))
				f.page("/p2.xml", list("resourcelist", asOf(0), f.res("/b", "b1"), f.res("/c", "c1")))
				f.page("/cl.xml", list("changelist", asFrom(0), f.changed("/c", "c3", "updated", 10)))
			},
			func(f *fake) {
				f.page("/p2.xml", list("resourcelist", asOf(100), f.res("/b", "b2"), f.res("/c", "c4")))
				f.page("/cl.xml", list("changelist", asFrom(100), f.changed("/c", "c5", "updated", 110)))
			},
			[]string{"stale /b", "stale /c"},
		},
		"changes that no list tells any more": {
			func(f *fake) {
				f.set("resourcelist", "/rl.xml", "changelist", "/cl.xml")
				f.page("/rl.xml", list("resourcelist", asOf(0), f.res("/a", "a1"), f.res("/b", "b1"), f.res("/c", "c")))
				f.page("/cl.xml", list("changelist", asFrom(0)))
			},
			func(f *fake) {
				f.page("/a", "a2")
				f.handle("/b", nil)
				f.page("/cl.xml", list("changelist", "", f.changed("/c", "c", "updated", 50)))
			},
			[]string{"stale /a", "unlisted /b"},
		},
		"a change list entry that is older than the list": {
			func(f *fake) {
				f.set("resourcelist", "/rl.xml", "changelist", "/cl.xml")
				f.page("/cl.xml", list("changelist", asFrom(0), f.changed("/a", "a0", "updated", 5), f.changed("/b", "b", "deleted", 6)))
				f.page("/rl.xml", list("resourcelist", asOf(10), f.res("/a", "a1"), f.res("/b", "b")))
			},
			func(*fake) {}, nil,
		},
		"a change of the second in which the list was made": {
			func(f *fake) {
				f.set("resourcelist", "/rl.xml", "changelist", "/cl.xml")
				f.page("/rl.xml", list("resourcelist", `at="2026-01-01T00:00:00.500Z"`, f.res("/a", "a1")))
				f.page("/cl.xml", list("changelist", asFrom(0)))
			},
			func(f *fake) {
				f.page("/cl.xml", list("changelist", asFrom(0), f.changed("/a", "a2", "updated", 0)))
			},
			[]string{"stale /a"},
		},
		"a second Resource List in the Capability List": {
			func(f *fake) {
				f.set("resourcelist", "/rl.xml")
				f.page("/rl.xml", list("resourcelist", asOf(0), f.res("/a", "a")))
			},
			func(f *fake) {
				f.page("/rl2.xml", list("resourcelist", asOf(0), f.res("/b", "b")))
				f.capabilities("/capabilities.xml", "resourcelist", "/rl.xml", "resourcelist", "/rl2.xml")
			},
			[]string{"missing /b"},
		},
		"a lone Change List": {
			func(f *fake) {
				f.set("changelist", "/cl.xml")
				f.page("/cl.xml", list("changelist", asFrom(0), f.changed("/a", "a1", "created", 5), f.changed("/b", "b", "created", 6)))
			},
			func(f *fake) {
				f.page("/cl.xml", list("changelist", asFrom(0), f.changed("/a", "a2", "updated", 7), f.deleted("/b", 8)))
			},
			[]string{"stale /a", "unlisted /b"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			tc.before(f)
			if res, err := f.run(); err != nil || res.Failed > 0 {
				t.Fatalf("%+v, %v", res, err)
			}
			f.auditFinds()
			tc.after(f)
			f.auditFinds(tc.want...)
		})
	}
}

func (f *fake) auditPart(path string) string {
	return `<sitemap><loc>` + f.uri(path) + `</loc></sitemap>`
}

// TestAuditSilent: state and mirror were both brought to a version that the Source does not have, by the same hand.
func TestAuditSilent(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.set("resourcelist", "/rl.xml")
	f.page("/rl.xml", list("resourcelist", asOf(0), f.res("/a", "wrong"), f.res("/b", "b"), f.res("/ghost", "g")))
	f.one(true)
	f.page("/rl.xml", list("resourcelist", asOf(0), f.res("/a", "right"), f.res("/b", "b")))
	f.with(func(e *Engine, target Target) {
		rep, err := e.Verify(context.Background(), target, f.opts, false, func(Finding) error { return nil })
		if err != nil || !rep.InStep {
			t.Fatalf("state and mirror are to agree: %+v, %v", rep, err)
		}
	})
	f.auditFinds("stale /a", "unlisted /ghost")
}

// TestAuditUndecided: what cannot be read, or asked, keeps the audit from vouching for the mirror, and is no difference.
func TestAuditUndecided(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.set("resourcelist", "/rl.xml", "changelist", "/cl.xml")
	f.page("/rl.xml", list("resourcelist", asOf(0), f.res("/a", "a"), f.res("/b", "b")))
	f.page("/cl.xml", list("changelist", asFrom(0)))
	f.one(true)
	for name, change := range map[string]func(){
		"an entry that cannot be read": func() {
			f.page("/cl.xml", list("changelist", asFrom(0), f.entry("/a", `change="modified" datetime="`+when(5)+`"`)))
		},
		"one of which nothing but the URI can be believed": func() {
			f.page("/cl.xml", list("changelist", asFrom(0), f.entry("/a", `change="modified" hash="md5:00000000000000000000000000000000" datetime="`+when(5)+`"`)))
		},
		"one that may say what another one denies": func() {
			f.page("/cl.xml", list("changelist", asFrom(0), f.deleted("/a", 5), `<url><rs:md change="created"/></url>`))
			f.page("/a", "a")
		},
		"a list that cannot be read": func() { f.page("/cl.xml", "<urlset") },
	} {
		change()
		if found, rep := f.audit(); len(found) > 0 || rep.InStep {
			t.Errorf("%s: %v, %+v", name, found, rep)
		}
	}
}

// TestAuditLooksTwice: what changed while the audit read is no difference, if the mirror has it by then.
func TestAuditLooksTwice(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.set("resourcelist", "/rl.xml")
	old := list("resourcelist", asOf(0), f.res("/a", "a1"), f.res("/b", "b"))
	now := list("resourcelist", asOf(10), f.res("/a", "a2"), f.res("/c", "c"), f.res("/b", "b"))
	f.page("/rl.xml", now)
	f.one(true)
	reads := 0
	f.handle("/rl.xml", func(w http.ResponseWriter, _ *http.Request) { // the first reading is of before the mirror was
		if reads++; reads == 1 {
			now = old
		} else {
			now = list("resourcelist", asOf(10), f.entry("/a", fixity("a2")), f.entry("/c", fixity("c")), f.entry("/b", fixity("b")))
		}
		_, _ = w.Write([]byte(now))
	})
	f.auditFinds()
	if reads != 2 {
		t.Errorf("the list was read %d times", reads)
	}
}

// TestAuditRepair: differences are run as wants, judged by a second look, and extra files go to the trash.
func TestAuditRepair(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.set("resourcelist", "/rl.xml")
	f.page("/rl.xml", list("resourcelist", asOf(0), f.res("/a", "a1"), f.res("/b", "b"), f.res("/c", "c"), f.res("/d", "d")))
	f.one(true)
	f.page("/rl.xml", list("resourcelist", asOf(10), f.res("/a", "a2"), f.res("/b", "b"), f.res("/d", "d"), f.res("/n", "n")))
	write(t, filepath.Join(f.root, "extra"), "x")
	if err := os.Remove(f.fileOf("/d")); err != nil {
		t.Fatal(err)
	}
	write(t, f.fileOf("/b"), "B")
	f.auditFinds("changed /b", "extra extra", "missing /d", "missing /n", "stale /a", "unlisted /c")
	f.with(func(e *Engine, target Target) {
		rep, err := e.Audit(t.Context(), target, f.opts, true, func(Finding) error { return nil })
		if err != nil || rep.Problems != 6 || rep.Repaired != 6 || !rep.InStep {
			t.Errorf("%+v, %v", rep, err)
		}
	})
	f.holds(map[string]string{"/a": "a2", "/b": "b", "/d": "d", "/n": "n"})
	f.auditFinds()
}

func (f *fake) fileOf(path string) string {
	key, err := keymap.NaturalKey(f.uri(path))
	if err != nil {
		f.t.Fatal(err)
	}
	return filepath.Join(f.root, filepath.FromSlash(key))
}

// TestAuditMany: what the lists say is kept on disk; a list of many entries costs memory for one part of it at a time.
func TestAuditMany(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.set("resourcelist", "/rl.xml")
	var entries []string
	for i := range 1500 {
		entries = append(entries, f.res(fmt.Sprintf("/r%04d", i), fmt.Sprint(i)))
	}
	f.page("/rl.xml", list("resourcelist", asOf(0), entries...))
	f.one(true)
	if found, rep := f.audit(); len(found) > 0 || rep.Checked != 1500 || !rep.InStep {
		t.Errorf("%v, %+v", found, rep)
	}
	f.mu.Lock()
	f.asks = nil
	f.mu.Unlock()
	e, target, done := f.open()
	defer done()
	if _, err := e.Audit(t.Context(), target, f.opts, false, func(Finding) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if _, resources := f.asked(); slices.ContainsFunc(resources, func(p string) bool { return strings.HasPrefix(p, "/r0") }) {
		t.Errorf("lists decide by hash, and all the same it asked for %v", resources)
	}
}

// TestAuditFeed: entries are held against what the feed and its archives show now, tombstones and links too.
func TestAuditFeed(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.set("/old", page{body: atom("<fh:archive/>", posts(1, 2)...)})
	s.set(feedPath, page{body: atom(`<link rel="prev-archive" href="/old"/>`, posts(3, 4)...)})
	s.sync()
	s.auditFinds()
	older := posts(3, 4)
	older[0].text = "restored" // under its date, or an older one
	older[0].day = 3
	s.set(feedPath, page{body: atom(`<link rel="prev-archive" href="/old"/>`, append(older, posts(5, 5)...)...)})
	found, _ := s.audit()
	if len(found) != 2 || !strings.HasPrefix(found[0], "missing ") || !strings.HasPrefix(found[1], "stale ") {
		t.Errorf("%v", found)
	}
	s.set(feedPath, page{typ: "text/html", body: "<html>under maintenance</html>"})
	s.with(func(e *Engine, target Target) {
		_, err := e.Audit(t.Context(), target, s.opts, false, func(f Finding) error { t.Errorf("%+v", f); return nil })
		if err == nil {
			t.Error("a page in the place of the feed was audited")
		}
	})
}

// TestAuditKept: what is kept against the Source's list is no difference, and what is held waits for the operator.
func TestAuditKept(t *testing.T) {
	t.Parallel()
	r := newRig(t, source.Options{}, many(30))
	r.tune = func(target *Target) { target.Delete = transfer.DeleteKeep }
	r.must()
	r.src.Delete("d0/r000.txt")
	if _, err := r.run(); err != nil {
		t.Fatal(err)
	}
	if found, rep := r.audit(); len(found) > 0 || !rep.InStep {
		t.Errorf("%v, %+v", found, rep)
	}
	write(t, r.path("d0/r000.txt"), "scribbled")
	r.auditFinds("changed " + strings.TrimPrefix(r.src.URI("d0/r000.txt"), r.srv.URL))
}

// TestAuditRecords: a record's file must have, in each field, what the newest edit that the feed shows says, or newer.
func TestAuditRecords(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(target *Target) { target.Records = plan.RecordsResourceFinder })
	feedOf := func(beds string, day int) page {
		return page{body: recordFeed(fieldEdit{subject: "clinic/1", author: "tel:+1", day: day, fields: map[string]string{"available_beds": beds}})}
	}
	s.set(feedPath, feedOf("5", 1))
	s.sync()
	s.auditFinds()
	s.set(feedPath, feedOf("7", 2))
	s.auditFinds("stale clinic/1")
	s.sync()
	s.set(feedPath, feedOf("5", 1)) // the mirror knows more than the feed shows
	s.auditFinds()
}

// TestAuditLinks: what entries link to is asked for, and what a complete feed does not show is not the Source's any more.
func TestAuditLinks(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(target *Target) { target.Follow = []string{"enclosure"} })
	entries := posts(1, 2)
	entries[0].extra = `<link rel="enclosure" href="/sound"/>`
	s.set("/sound", page{typ: "audio/ogg", body: "one"})
	s.set(feedPath, page{body: atom("<fh:complete/>", entries...)})
	s.sync()
	s.auditFinds()
	s.set("/sound", page{typ: "audio/ogg", body: "two"})
	s.auditFinds("stale /sound")
	s.set("/sound", page{typ: "audio/ogg", body: "one"})
	s.set(feedPath, page{body: atom("<fh:complete/>", entries[:1]...)})
	s.auditFinds("unlisted tag:test,2024:p1")
}
