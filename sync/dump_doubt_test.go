package sync

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// resourceDump publishes packages as a Resource Dump, contents of each where given.
func (f *fake) resourceDump(at int, contents []string, parts ...[]member) {
	var entries []string
	for i, ms := range parts {
		path, c := fmt.Sprintf("/p%d-%d.zip", at, i), ""
		if contents != nil {
			c = contents[i]
		}
		body := f.pack(path, f.manifest("resourcedump-manifest", `at="`+when(at)+`"`, ms), ms)
		entries = append(entries, f.packageEntry(path, c, `at="`+when(at)+`"`, len(body)))
	}
	f.page("/rd.xml", list("resourcedump", `at="`+when(at)+`"`, entries...))
}

// TestSharedContents: of two packages with one `contents` both count.
func TestSharedContents(t *testing.T) {
	t.Parallel()
	f := dumped(t, "auto")
	f.set("resourcedump", "/rd.xml")
	one, two := members(20, 0), members(3, 20)
	f.resourceDump(0, nil, one, two)
	f.one(true)
	all := bodiesOf(slices.Concat(one, two)...)
	f.holds(all)
	one[0].body = "new"
	f.resourceDump(1, []string{"/c.xml", "/c.xml"}, one, two)
	f.page("/c.xml", f.manifest("resourcedump-manifest", `at="`+when(1)+`"`, one))
	if res := f.one(true); res.Deleted != 0 {
		t.Errorf("%+v", res)
	}
	all["/r000"] = "new"
	f.holds(all)
}

// TestCutContents: what `contents` told before it broke off is no part of the list that the package has inside.
func TestCutContents(t *testing.T) {
	t.Parallel()
	f := dumped(t, "auto")
	f.set("resourcedump", "/rd.xml")
	one, two := members(20, 0), members(3, 20)
	f.resourceDump(0, nil, one, two)
	f.one(true)
	old := f.manifest("resourcedump-manifest", `at="`+when(1)+`"`, two)
	f.resourceDump(1, []string{"", "/c.xml"}, one, two[1:])
	f.page("/c.xml", old[:len(old)-len("</urlset>")])
	f.handle("/r020", nil)
	f.one(true)
	f.holds(bodiesOf(slices.Concat(one, two[1:])...))
	f.quiet()
}

// TestBrokenDumpBesideLists: a Change Dump that cannot be used holds no baseline up.
func TestBrokenDumpBesideLists(t *testing.T) {
	t.Parallel()
	d := &changeDump{fake: dumped(t, "auto")}
	d.set("resourcelist", "/rl.xml", "changelist", "/cl.xml", "changedump", "/cd.xml")
	base := members(5, 0)
	d.resourceList(base...)
	d.changeList(0, "")
	d.one(true)
	lost := changes(members(6, 10), "created", 20)
	last := changes(members(1, 20), "created", 40)
	d.add("/p", 0, 30, lost...)
	d.publish("/cd.xml")
	d.page("/p0.zip", "no package")
	d.res("/r020", last[0].body)
	d.changeList(30, "", last)
	var entries []string
	for _, m := range slices.Concat(base, lost) {
		entries = append(entries, d.res(m.path, m.body))
	}
	d.page("/rl.xml", list("resourcelist", `at="`+when(35)+`"`, entries...))
	res := d.one(true)
	if res.Kind != "baseline" {
		t.Errorf("%+v", res)
	}
	d.holds(bodiesOf(slices.Concat(base, lost, last)...))
}

// TestDumpHistoryWentBack: a new history is read from packages too that are as they were.
func TestDumpHistoryWentBack(t *testing.T) {
	t.Parallel()
	d := &changeDump{fake: dumped(t, "auto")}
	d.set("resourcelist", "/rl.xml", "changedump", "/cd.xml")
	base := members(5, 0)
	d.resourceList(base...)
	first, second := changes(members(4, 10), "created", 10), changes(members(4, 20), "created", 20)
	changed := changes(base[:1], "updated", 12)
	changed[0].body = "changed"
	d.add("/p", 0, 15, append(slices.Clone(first), changed...)...)
	kept := slices.Clone(d.entries)
	d.add("/p", 15, 30, second...)
	d.publish("/cd.xml")
	d.one(true)
	d.holds(bodiesOf(slices.Concat(base[1:], first, changed, second)...))
	d.entries = kept
	d.publish("/cd.xml")
	d.run()
	d.later(25 * time.Hour)
	d.run()
	d.later(26 * time.Hour)
	d.run()
	d.one(true)
	for _, m := range second {
		d.handle(m.path, nil)
	}
	d.holds(bodiesOf(slices.Concat(base[1:], first, changed)...))
}
