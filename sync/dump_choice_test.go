package sync

import (
	"context"
	"crypto/md5"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"resyncd/store/blob"
)

// dumpSource is a fake with a Resource List and a Resource Dump of two packages of twenty.
type dumpSource struct {
	*fake
	one, two []member
	contents bool
	at       int
}

func newDumpSource(t *testing.T, mode string, contents bool) *dumpSource {
	d := &dumpSource{fake: dumped(t, mode), one: members(20, 0), two: members(20, 20), contents: contents}
	d.set("resourcelist", "/rl.xml", "resourcedump", "/rd.xml")
	d.publish(0)
	return d
}

// publish makes list and dump anew.
func (d *dumpSource) publish(at int) {
	d.at = at
	d.list()
	d.dump()
}

func (d *dumpSource) all() []member { return slices.Concat(d.one, d.two) }

func (d *dumpSource) list() {
	var entries []string
	for _, m := range d.all() {
		entries = append(entries, d.res(m.path, m.body))
	}
	d.page("/rl.xml", list("resourcelist", `at="`+when(d.at)+`"`, entries...))
}

func (d *dumpSource) dump() {
	var entries []string
	for i, ms := range [][]member{d.one, d.two} {
		path, c := fmt.Sprintf("/p%d.zip", i), ""
		m := d.manifest("resourcedump-manifest", `at="`+when(d.at)+`"`, ms)
		body := d.pack(path, m, ms)
		if d.contents {
			c = fmt.Sprintf("/c%d.xml", i)
			d.page(c, m)
		}
		entries = append(entries, d.packageEntry(path, c, fmt.Sprintf(`at="%s"`, when(d.at)), len(body)))
	}
	d.page("/rd.xml", list("resourcedump", `at="`+when(d.at)+`"`, entries...))
}

func (d *dumpSource) packages() [2]int { return [2]int{d.asksFor("/p0.zip"), d.asksFor("/p1.zip")} }

// rewrite gives the first n resources of a package another body.
func rewrite(ms []member, n int, body string) {
	for i := range ms[:n] {
		ms[i].body = fmt.Sprint(body, i)
	}
}

// TestDumpChoice: a package is read if at least half of what it lists is owed, and never for nothing.
func TestDumpChoice(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name      string
		mode      string
		contents  bool
		one, two  int // rewritten
		packages  [2]int
		gets      int
		stayClear bool // the dump itself is not asked for
	}{
		{name: "half of one", mode: "auto", contents: true, one: 10, packages: [2]int{1, 0}},
		{name: "less than half", mode: "auto", contents: true, one: 9, two: 9, gets: 18},
		{name: "one of each kind", mode: "auto", contents: true, one: 20, two: 3, packages: [2]int{1, 0}, gets: 3},
		{name: "few", mode: "auto", contents: true, one: 2, gets: 2, stayClear: true},
		{name: "without contents", mode: "auto", one: 20, gets: 20},
		{name: "all, without contents", mode: "auto", one: 20, two: 20, packages: [2]int{1, 1}},
		{name: "off", mode: "off", contents: true, one: 20, two: 20, gets: 40, stayClear: true},
		{name: "always", mode: "always", contents: true, one: 1, packages: [2]int{1, 0}},
		{name: "always, without contents", mode: "always", one: 1, packages: [2]int{1, 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d := newDumpSource(t, "off", tc.contents)
			d.sync(true)
			d.tune = func(t *Target) { t.Dumps = tc.mode }
			rewrite(d.one, tc.one, "new")
			rewrite(d.two, tc.two, "new")
			d.publish(1)
			res := d.sync(true)
			gets, _ := d.gets()
			if d.packages() != tc.packages || len(gets) != tc.gets || res.Fetched != int64(tc.one+tc.two) {
				t.Errorf("packages %v, %d one by one, %+v", d.packages(), len(gets), res)
			}
			if tc.stayClear && d.asksFor("/rd.xml") > 0 {
				t.Error("the dump is asked for")
			}
			d.holds(bodiesOf(d.all()...))
			d.quiet()
			if d.packages() != [2]int{} {
				t.Error("packages are asked for again")
			}
		})
	}
}

func (d *dumpSource) sync(inStep bool) Result { return d.fake.one(inStep) }

// TestDumpFaults: whatever is wrong with a package costs a GET for each resource, a warning and no second download while
// that is no failure that passes.
func TestDumpFaults(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		spoil func(d *dumpSource, whole []byte)
		gets  int
	}{
		{"a page", func(d *dumpSource, _ []byte) { d.page("/p0.zip", "<html>") }, 20},
		{"gone", func(d *dumpSource, _ []byte) { d.handle("/p0.zip", nil) }, 20},
		{"cut", func(d *dumpSource, whole []byte) { d.file("/p0.zip", whole[:len(whole)/2]) }, 20},
		{"another package", func(d *dumpSource, _ []byte) {
			ms := members(20, 50)
			d.pack("/p0.zip", d.manifest("resourcedump-manifest", "", ms), ms)
		}, 20},
		{"a manifest of another kind", func(d *dumpSource, _ []byte) {
			d.pack("/p0.zip", d.manifest("changelist", "", d.one), d.one)
		}, 20},
		{"a broken manifest", func(d *dumpSource, _ []byte) {
			d.pack("/p0.zip", strings.TrimSuffix(d.manifest("resourcedump-manifest", "", d.one), "</urlset>"), d.one)
		}, 0},
		{"other bytes", func(d *dumpSource, _ []byte) {
			ms := slices.Clone(d.one)
			rewrite(ms, 7, "wrong")
			d.pack("/p0.zip", d.manifest("resourcedump-manifest", "", d.one), ms)
			d.list()
		}, 7},
		{"older bytes that their manifest owns to", func(d *dumpSource, _ []byte) {
			ms := slices.Clone(d.one)
			rewrite(ms, 7, "older")
			d.pack("/p0.zip", d.manifest("resourcedump-manifest", "", ms), ms)
			d.list()
		}, 7},
		{"missing members", func(d *dumpSource, _ []byte) {
			d.pack("/p0.zip", d.manifest("resourcedump-manifest", "", d.one), d.one[:15])
			d.list()
		}, 5},
		{"the server fails", func(d *dumpSource, _ []byte) {
			d.handle("/p0.zip", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
		}, 20},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d := newDumpSource(t, "auto", false)
			whole := d.pack("/p0.zip", d.manifest("resourcedump-manifest", "", d.one), d.one)
			tc.spoil(d, whole)
			d.sync(true)
			if gets, _ := d.gets(); len(gets) != tc.gets {
				t.Errorf("one by one: %d, want %d", len(gets), tc.gets)
			}
			d.holds(bodiesOf(d.all()...))
			rewrite(d.one, 20, "new")
			rewrite(d.two, 20, "new")
			d.at = 1
			d.list() // the dump lags behind
			d.sync(true)
			again := [2]int{}
			if tc.name == "the server fails" { // which may be over
				again[0] = 1
			}
			if d.packages() != again {
				t.Errorf("asked for again: %v", d.packages())
			}
			d.holds(bodiesOf(d.all()...))
		})
	}
}

// TestDumpTooLarge: a package beyond max_dump, or half of what the disk has free, is not asked for.
func TestDumpTooLarge(t *testing.T) {
	t.Parallel()
	for name, tune := range map[string]func(*Target){
		"max_dump": func(t *Target) { t.MaxDump = 100 },
		"disk":     func(t *Target) { t.Mirror = roomFor{t.Mirror, 1000} },
	} {
		d := newDumpSource(t, "auto", true)
		d.tune = func(t *Target) { t.Dumps = "auto"; tune(t) }
		d.sync(true)
		if gets, _ := d.gets(); len(gets) != 40 || d.packages() != [2]int{} {
			t.Errorf("%s: %d one by one, packages %v", name, len(gets), d.packages())
		}
		d.holds(bodiesOf(d.all()...))
		if d.spools() != nil {
			t.Errorf("%s: something is left", name)
		}
	}
}

type roomFor struct {
	blob.Mirror
	free uint64
}

func (m roomFor) Free(context.Context) (bytes, inodes uint64, err error) { return m.free, 1 << 20, nil }

// TestDumpDryRun: a dry run tells what would be fetched and reads no package, also where the manifests are the list.
func TestDumpDryRun(t *testing.T) {
	t.Parallel()
	for _, alone := range []bool{false, true} {
		d := newDumpSource(t, "always", true)
		if alone {
			d.set("resourcedump", "/rd.xml")
		}
		d.opts.Plan = func(Planned) error { return nil }
		res, err := d.run()
		if err != nil || res.Would.Fetch != 40 || d.packages() != [2]int{} {
			t.Errorf("alone %t: %+v, %v, packages %v", alone, res, err, d.packages())
		}
	}
}

// TestPackageWithoutValidators: a package that was read is known by what its dump says of it.
func TestPackageWithoutValidators(t *testing.T) {
	t.Parallel()
	f := dumped(t, "auto")
	f.set("resourcedump", "/rd.xml")
	ms := members(20, 0)
	body := f.pack("/p.zip", f.manifest("resourcedump-manifest", `at="`+when(0)+`"`, ms), ms)
	f.handle("/p.zip", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) })
	f.page("/rd.xml", list("resourcedump", `at="`+when(0)+`"`, f.packageEntry("/p.zip", "", "", len(body))))
	f.one(true)
	f.bringsAll()
	f.quiet()
	if f.asksFor("/p.zip") > 0 {
		t.Error("asked for again")
	}
}

// TestDumpProvesByItself: a list need not have the digests of a manifest. What is of the same instant, or has a digest
// that the bytes can be held against, is taken; all else could be another version.
func TestDumpProvesByItself(t *testing.T) {
	t.Parallel()
	length := func(body string) string { return fmt.Sprintf(`length="%d"`, len(body)) }
	for _, tc := range []struct {
		name   string
		at     int // of the list; that of the dump is 0
		listed func(body string) string
		gets   int
	}{
		{"nothing, of the same instant", 0, func(string) string { return "" }, 0},
		{"a length, of the same instant", 0, length, 0},
		{"a length, later", 1, length, 40},
		{"another digest, later", 1, func(body string) string { return fmt.Sprintf(`hash="md5:%x"`, md5.Sum([]byte(body))) }, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d := newDumpSource(t, "auto", false)
			var entries []string
			for _, m := range d.all() {
				entries = append(entries, d.entry(m.path, tc.listed(m.body)))
			}
			d.page("/rl.xml", list("resourcelist", `at="`+when(tc.at)+`"`, entries...))
			d.sync(true)
			if gets, _ := d.gets(); len(gets) != tc.gets {
				t.Errorf("one by one: %d, want %d", len(gets), tc.gets)
			}
			d.holds(bodiesOf(d.all()...))
		})
	}
}

// TestDumpOfWhatIsHere: after the state was lost, the mirror's own files are looked at before a package is asked for.
func TestDumpOfWhatIsHere(t *testing.T) {
	t.Parallel()
	for _, contents := range []bool{false, true} {
		d := newDumpSource(t, "auto", contents)
		d.sync(true)
		d.loseState()
		rewrite(d.two, 20, "new of another length")
		d.publish(0)
		res := d.sync(true)
		if want := map[bool][2]int{true: {0, 1}}[contents]; d.packages() != want || res.Unchanged != 20 || res.Fetched != 20 {
			t.Errorf("contents %t: packages %v, %+v", contents, d.packages(), res)
		}
	}
}

// TestDumpBeforeTheChanges: a Resource Dump that is older than all that is owed is not looked into, whoever says its time.
func TestDumpBeforeTheChanges(t *testing.T) {
	t.Parallel()
	d := newDumpSource(t, "auto", true)
	d.set("resourcelist", "/rl.xml", "changelist", "/cl.xml", "resourcedump", "/rd.xml")
	whole := d.pack("/p0.zip", d.manifest("resourcedump-manifest", `at="`+when(0)+`"`, d.one), d.one)
	d.page("/rd.xml", list("resourcedump", `at="`+when(0)+`"`, d.packageEntry("/p0.zip", "/c0.xml", "", len(whole))))
	d.changeList(0, "")
	d.sync(true)
	rewrite(d.one, 20, "new")
	for _, m := range d.one {
		d.page(m.path, m.body)
	}
	d.changeList(0, "", changes(d.one, "updated", 5))
	if res := d.sync(true); res.Fetched != 20 || d.asksFor("/c0.xml") > 0 {
		t.Errorf("%+v", res)
	}
}
