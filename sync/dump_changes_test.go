package sync

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"resyncd/destination/rsdoc"
	"resyncd/store"
)

// changeDump publishes packages of changes, each [from, until] in minutes.
type changeDump struct {
	*fake
	entries  []string
	contents bool
}

func (d *changeDump) add(at string, from, until int, ms ...member) {
	attributes := fmt.Sprintf(`from="%s" until="%s"`, when(from), when(until))
	path, c := at+fmt.Sprintf("%d.zip", from), ""
	m := d.manifest("changedump-manifest", attributes, ms)
	body := d.pack(path, m, ms)
	if d.contents {
		c = at + fmt.Sprintf("%d.xml", from)
		d.page(c, m)
	}
	d.entries = append(d.entries, d.packageEntry(path, c, attributes, len(body)))
}

func (d *changeDump) publish(path string) {
	d.page(path, list("changedump", `from="`+when(0)+`"`, d.entries...))
}

func changes(ms []member, change string, minute int) []member {
	out := slices.Clone(ms)
	for i := range out {
		out[i].md = fmt.Sprintf(`change="%s" datetime="%s"`, change, when(minute))
	}
	return out
}

func (f *fake) changeList(from int, until string, parts ...[]member) {
	var entries []string
	for _, ms := range parts {
		for _, m := range ms {
			entries = append(entries, f.entry(m.path, m.md+" "+fixity(m.body)))
		}
	}
	f.page("/cl.xml", list("changelist", `from="`+when(from)+`"`+until, entries...))
}

// TestDumpClosesHole: what the Change List has lost a Change Dump still has, and it is told so.
func TestDumpClosesHole(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"changedump", "changedump-archive"} {
		d := &changeDump{fake: dumped(t, "auto")}
		d.set("resourcelist", "/rl.xml", "changelist", "/cl.xml", where, "/cd.xml")
		base := members(5, 0)
		d.resourceList(base...)
		d.changeList(0, "")
		d.one(true)
		lost := changes(members(6, 10), "created", 20)
		last := changes(members(1, 20), "created", 40)
		d.add("/p", 0, 30, lost...)
		d.publish("/cd.xml")
		if where != "changedump" {
			d.page("/old.xml", list("changedump", `from="`+when(0)+`" until="`+when(30)+`"`, d.entries...))
			d.page("/cd.xml", list(where, "", d.entry("/old.xml", fmt.Sprintf(`from="%s" until="%s"`, when(0), when(30)))))
		}
		d.res("/r020", last[0].body)
		d.changeList(30, "", last)
		res := d.one(true)
		if res.Kind != "incremental" || res.Fetched != 7 || res.GapsClosed != 1 {
			t.Errorf("%s: %+v", where, res)
		}
		d.bringsAll("/r020")
		d.holds(bodiesOf(slices.Concat(base, lost, last)...))
		if by := d.closedBy(); by != "change-dump" {
			t.Errorf("%s: closed by %q", where, by)
		}
		d.quietWith(5)
	}
}

// closedBy is what closed the last gap.
func (f *fake) closedBy() (by string) {
	f.with(func(e *Engine, target Target) {
		src, err := e.Store.Source(f.t.Context(), target.Name)
		if err != nil {
			f.t.Fatal(err)
		}
		sets, err := e.Store.Sets(f.t.Context(), src.ID)
		if err != nil {
			f.t.Fatal(err)
		}
		gaps, err := e.Store.Gaps(f.t.Context(), sets[0].ID)
		if err != nil {
			f.t.Fatal(err)
		}
		for _, g := range gaps {
			by = g.ClosedBy
		}
	})
	return by
}

// TestBacklogByDump: a Change Dump brings a backlog where that costs fewer requests, and is not looked at for little.
func TestBacklogByDump(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		mode     string
		contents bool
		news     int
		packages int
		gets     int
	}{
		{"many", "auto", false, 20, 1, 0},
		{"many, with contents", "auto", true, 20, 1, 0},
		{"two", "auto", false, 2, 0, 2},
		{"one, always", "always", false, 1, 1, 0},
		{"off", "off", true, 20, 0, 20},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d := &changeDump{fake: dumped(t, tc.mode), contents: tc.contents}
			d.set("resourcelist", "/rl.xml", "changelist", "/cl.xml", "changedump", "/cd.xml")
			base := members(5, 0)
			d.resourceList(base...)
			before := changes(members(30, 50), "created", 5)
			for _, m := range before {
				d.res(m.path, m.body)
			}
			d.changeList(0, ` until="`+when(10)+`"`, before)
			d.one(true)
			news := changes(members(tc.news, 10), "created", 20)
			d.add("/old", 0, 10, before...)
			d.add("/p", 10, 30, news...)
			d.publish("/cd.xml")
			d.changeList(0, ` until="`+when(30)+`"`, before, news)
			res := d.one(true)
			gets, _ := d.gets()
			if d.asksFor("/p10.zip") != tc.packages || d.asksFor("/old0.zip") != 0 || len(gets) != tc.gets ||
				res.Fetched != int64(tc.news) {
				t.Errorf("%d packages, %d one by one, %+v", d.asksFor("/p10.zip"), len(gets), res)
			}
			d.holds(bodiesOf(slices.Concat(base, before, news)...))
			d.quiet()
		})
	}
}

// TestBrokenDumpSweepsNothing: a dump that stands for the list proves absence only if all of its packages were read.
func TestBrokenDumpSweepsNothing(t *testing.T) {
	t.Parallel()
	f := dumped(t, "auto")
	f.set("resourcedump", "/rd.xml")
	one, two := members(20, 0), members(5, 20)
	publish := func(at int, parts ...[]member) {
		var entries []string
		for i, ms := range parts {
			path := fmt.Sprintf("/p%d-%d.zip", at, i)
			body := f.pack(path, f.manifest("resourcedump-manifest", `at="`+when(at)+`"`, ms), ms)
			entries = append(entries, f.packageEntry(path, "", "", len(body)))
		}
		f.page("/rd.xml", list("resourcedump", `at="`+when(at)+`"`, entries...))
	}
	publish(0, one, two)
	f.one(true)
	all := bodiesOf(slices.Concat(one, two)...)
	publish(1, one, two[:4])
	f.page("/p1-1.zip", "no package")
	if res := f.one(false); res.Deleted != 0 || res.Problem == "" {
		t.Errorf("%+v", res)
	}
	f.holds(all)
	if res := f.one(false); f.asksFor("/p1-1.zip") != 0 || res.Deleted != 0 {
		t.Errorf("asked for again: %+v", res)
	}
	publish(2, one, two[:4])
	if res := f.one(true); res.Deleted != 1 {
		t.Errorf("%+v", res)
	}
	delete(all, "/r024")
	f.holds(all)
	f.quiet()
	publish(3, one, two[:3])
	mended := f.pages["/p3-1.zip"]
	f.page("/p3-1.zip", "no package")
	f.one(false)
	f.handle("/p3-1.zip", mended)
	f.opts.Full = true
	f.one(true)
	delete(all, "/r023")
	f.holds(all)
}

// TestPatchInDump: of the patches in a package the one is taken that can be applied, if the resource itself is not there.
func TestPatchInDump(t *testing.T) {
	t.Parallel()
	d := &changeDump{fake: dumped(t, "always")}
	d.tune = func(target *Target) { target.Dumps, target.Patches = "always", true }
	d.set("resourcelist", "/rl.xml", "changelist", "/cl.xml", "changedump", "/cd.xml")
	d.resourceList(member{path: "/r000", body: `{"a":1}`})
	d.changeList(0, ` until="`+when(10)+`"`)
	d.one(true)
	links := ""
	for i, media := range []string{"application/xml-patch+xml", "application/json-patch+json"} {
		links += fmt.Sprintf(`<rs:ln rel="%s" href="%s" type="%s" path="/data/%d"/>`, rsdoc.RelPatch, d.uri("/none"), media, i+1)
	}
	news := changes([]member{{path: "/r000", body: `{"a":1,"b":[]}`, links: links}}, "updated", 20)
	d.changeList(0, ` until="`+when(30)+`"`, news)
	attributes := fmt.Sprintf(`from="%s" until="%s"`, when(10), when(30))
	manifest := strings.Replace(d.manifest("changedump-manifest", attributes, news), "/data/0", "/none", 1)
	body := d.pack("/p.zip", manifest, append(news, member{path: "/x", body: "<diff/>"},
		member{path: "/j", body: `[{"op":"add","path":"/b","value":[]}]`}))
	d.entries = []string{d.packageEntry("/p.zip", "", attributes, len(body))}
	d.publish("/cd.xml")
	if res := d.one(true); res.Patched != 1 || d.asksFor("/p.zip") != 1 {
		t.Errorf("%+v", res)
	}
	d.bringsAll()
	d.holds(bodiesOf(news...))
}

// TestChangeWithoutDigest: a change of the same instant is the same one, so a package brings its bytes.
func TestChangeWithoutDigest(t *testing.T) {
	t.Parallel()
	d := &changeDump{fake: dumped(t, "auto")}
	d.set("resourcelist", "/rl.xml", "changelist", "/cl.xml", "changedump", "/cd.xml")
	d.resourceList()
	d.changeList(0, "")
	d.one(true)
	news := changes(members(20, 10), "created", 20)
	d.add("/p", 0, 30, news...)
	d.publish("/cd.xml")
	var entries []string
	for i, m := range news {
		if i == 0 {
			m.md = strings.Replace(m.md, when(20), when(21), 1) // which the package does not have
		}
		entries = append(entries, d.entry(m.path, m.md))
	}
	d.page("/cl.xml", list("changelist", `from="`+when(0)+`"`, entries...))
	d.one(true)
	d.bringsAll(news[0].path)
	d.holds(bodiesOf(news...))
}

// TestDumpEndsAhead: a package that was said to end in the future closes the hole before the next one once that is over.
func TestDumpEndsAhead(t *testing.T) {
	t.Parallel()
	d := &changeDump{fake: dumped(t, "auto")}
	now := time.Now().UTC()
	d.interpose(func(w http.ResponseWriter, req *http.Request) bool {
		w.Header().Set("Date", now.Format(http.TimeFormat))
		if h := d.pages[req.URL.Path]; h != nil {
			h(w, req)
		} else {
			w.WriteHeader(http.StatusNotFound)
		}
		return true
	})
	d.set("changedump", "/cd.xml")
	first, err := time.Parse(time.RFC3339, when(0))
	if err != nil {
		t.Fatal(err)
	}
	until := int(now.Sub(first)/time.Minute) + 60
	one, two := changes(members(4, 10), "created", 20), changes(members(4, 20), "created", until+10)
	d.add("/p", 0, until, one...)
	d.publish("/cd.xml")
	d.one(true)
	now = now.Add(2 * time.Hour)
	d.later(2 * time.Hour)
	d.add("/p", until, until+20, two...)
	d.publish("/cd.xml")
	d.one(true)
	d.holds(bodiesOf(slices.Concat(one, two)...))
	for _, g := range d.gaps() {
		if g.State == store.GapUnprovable {
			t.Errorf("%+v", g)
		}
	}
}
