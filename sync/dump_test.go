package sync

import (
	"archive/zip"
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"resyncd/destination/peer/source"
	"resyncd/sync/transfer"
)

// member is a resource in a package, and what the manifest says of it.
type member struct{ path, body, md, links string }

func members(n int, from int) (out []member) {
	for i := from; i < from+n; i++ {
		out = append(out, member{path: fmt.Sprintf("/r%03d", i), body: fmt.Sprintf("body of %d", i)})
	}
	return out
}

// manifest says what lies in a package.
func (f *fake) manifest(kind, attributes string, ms []member) string {
	var entries []string
	for i, m := range ms {
		md := m.md
		if !strings.Contains(md, `change="deleted"`) {
			md = fmt.Sprintf(`%s path="/data/%d" %s`, m.md, i, fixity(m.body))
		}
		entries = append(entries, f.entry(m.path, md, m.links))
	}
	return list(kind, attributes, entries...)
}

// pack puts a package at a path, and its members where they are asked for one by one.
func (f *fake) pack(path, manifest string, ms []member) []byte {
	f.t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	put := func(name, body string) {
		w, err := z.CreateHeader(&zip.FileHeader{Name: name}) // stored
		if err == nil {
			_, err = w.Write([]byte(body))
		}
		if err != nil {
			f.t.Fatal(err)
		}
	}
	put("manifest.xml", manifest)
	for i, m := range ms {
		if strings.Contains(m.md, `change="deleted"`) {
			f.handle(m.path, nil)
			continue
		}
		put(fmt.Sprintf("data/%d", i), m.body)
		f.page(m.path, m.body)
	}
	if err := z.Close(); err != nil {
		f.t.Fatal(err)
	}
	f.file(path, b.Bytes())
	return b.Bytes()
}

// file serves bytes with ranges.
func (f *fake) file(path string, body []byte) {
	tag := fmt.Sprintf(`"%x"`, len(body)) + "" // by length, which is enough here
	f.handle(path, func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("ETag", tag)
		http.ServeContent(w, req, "", time.Time{}, bytes.NewReader(body))
	})
}

func (f *fake) packageEntry(path, contents, md string, length int) string {
	if contents != "" {
		contents = fmt.Sprintf(`<rs:ln rel="contents" href="%s"/>`, f.uri(contents))
	}
	return fmt.Sprintf(`<url><loc>%s</loc><rs:md type="application/zip" length="%d" %s/>%s</url>`, f.uri(path), length, md, contents)
}

func bodiesOf(ms ...member) map[string]string {
	out := map[string]string{}
	for _, m := range ms {
		out[m.path] = m.body
	}
	return out
}

func dumped(t *testing.T, mode string) *fake {
	f := newFake(t)
	f.tune = func(t *Target) { t.Dumps = mode }
	return f
}

// gets are the resources asked for one by one in the last run, and how often anything else was.
func (f *fake) gets() (resources []string, rest int) {
	f.rig.mu.Lock()
	defer f.rig.mu.Unlock()
	for _, p := range f.asks {
		if strings.HasPrefix(p, "/r") && len(p) == 5 {
			resources = append(resources, p)
		} else {
			rest++
		}
	}
	slices.Sort(resources)
	return resources, rest
}

// asksFor counts the requests for a path in the last run.
func (f *fake) asksFor(path string) (n int) {
	f.rig.mu.Lock()
	defer f.rig.mu.Unlock()
	for _, p := range f.asks {
		if p == path {
			n++
		}
	}
	return n
}

func (f *fake) bringsAll(gets ...string) {
	f.t.Helper()
	if got, _ := f.gets(); !slices.Equal(got, gets) {
		f.t.Errorf("asked for one by one: %v, want %v", got, gets)
	}
}

func (f *fake) resourceList(ms ...member) {
	var entries []string
	for _, m := range ms {
		entries = append(entries, f.res(m.path, m.body))
	}
	f.page("/rl.xml", list("resourcelist", `at="`+when(0)+`"`, entries...))
}

// TestDumpBesideList: the Resource List says what is wanted, and packages bring it.
func TestDumpBesideList(t *testing.T) {
	t.Parallel()
	for _, contents := range []bool{false, true} {
		f := dumped(t, "auto")
		f.set("resourcelist", "/rl.xml", "resourcedump", "/rd.xml")
		one, two := members(20, 0), members(20, 20)
		f.resourceList(append(slices.Clone(one), two...)...)
		var entries []string
		for i, ms := range [][]member{one, two} {
			m := f.manifest("resourcedump-manifest", `at="`+when(0)+`"`, ms)
			body, c := f.pack(fmt.Sprintf("/p%d.zip", i), m, ms), ""
			if contents {
				c = fmt.Sprintf("/c%d.xml", i)
				f.page(c, m)
			}
			entries = append(entries, f.packageEntry(fmt.Sprintf("/p%d.zip", i), c, "", len(body)))
		}
		f.page("/rd.xml", list("resourcedump", `at="`+when(0)+`"`, entries...))
		res := f.one(true)
		f.bringsAll()
		if res.Kind != "baseline" || res.Fetched != 40 {
			t.Errorf("%+v", res)
		}
		f.holds(bodiesOf(append(one, two...)...))
		f.quiet()
		if f.asksFor("/rd.xml") != 0 {
			t.Error("the dump is looked at although nothing is owed")
		}
	}
}

// TestDumpAlone: without a Resource List the manifests are the list; what they do not list any more goes.
func TestDumpAlone(t *testing.T) {
	t.Parallel()
	for _, contents := range []bool{false, true} {
		f := dumped(t, "auto")
		f.set("resourcedump", "/rd.xml")
		publish := func(at int, parts ...[]member) {
			var entries []string
			for i, ms := range parts {
				m := f.manifest("resourcedump-manifest", `at="`+when(at)+`"`, ms)
				body, c := f.pack(fmt.Sprintf("/p%d-%d.zip", at, i), m, ms), ""
				if contents {
					c = fmt.Sprintf("/c%d-%d.xml", at, i)
					f.page(c, m)
				}
				entries = append(entries, f.packageEntry(fmt.Sprintf("/p%d-%d.zip", at, i), c, "", len(body)))
			}
			f.page("/rd.xml", list("resourcedump", `at="`+when(at)+`"`, entries...))
		}
		one, two := members(20, 0), members(20, 20)
		publish(0, one, two)
		if res := f.one(true); res.Kind != "baseline" || res.Fetched != 40 {
			t.Errorf("%+v", res)
		}
		f.bringsAll()
		f.quiet()
		two[3].body = "another body"
		publish(1, one[1:], two)
		if res := f.one(true); res.Kind != "baseline" || res.Fetched != 1 || res.Deleted != 1 {
			t.Errorf("%+v", res)
		}
		if contents && f.asksFor("/p1-0.zip")+f.asksFor("/p1-1.zip") != 0 {
			t.Error("packages are read for one resource")
		}
		f.holds(bodiesOf(append(one[1:], two...)...))
		f.quietWith(5) // each contents is asked about
	}
}

// TestChangeDumpAlone: packages of changes are followed as Change Lists are.
func TestChangeDumpAlone(t *testing.T) {
	t.Parallel()
	for _, contents := range []bool{false, true} {
		f := dumped(t, "auto")
		f.set("resourcelist", "/rl.xml", "changedump", "/cd.xml")
		base := members(10, 0)
		f.resourceList(base...)
		var entries []string
		step := func(from, until int, ms ...member) {
			m := f.manifest("changedump-manifest", fmt.Sprintf(`from="%s" until="%s"`, when(from), when(until)), ms)
			at, c := fmt.Sprintf("/p%d.zip", from), ""
			body := f.pack(at, m, ms)
			if contents {
				c = fmt.Sprintf("/c%d.xml", from)
				f.page(c, m)
			}
			entries = append(entries,
				f.packageEntry(at, c, fmt.Sprintf(`from="%s" until="%s"`, when(from), when(until)), len(body)))
			f.page("/cd.xml", list("changedump", `from="`+when(0)+`"`, entries...))
		}
		step(0, 5)
		f.one(true)
		f.bringsAll("/r000", "/r001", "/r002", "/r003", "/r004", "/r005", "/r006", "/r007", "/r008", "/r009")
		news := members(4, 10)
		for i := range news {
			news[i].md = fmt.Sprintf(`change="created" datetime="%s"`, when(6))
		}
		step(5, 10, append(news, member{path: "/r000", md: fmt.Sprintf(`change="deleted" datetime="%s"`, when(7))})...)
		res := f.one(true)
		f.bringsAll()
		if res.Kind != "incremental" || res.Fetched != 4 || res.Deleted != 1 || *res.Position != when(10) {
			t.Errorf("%+v %s", res, *res.Position)
		}
		f.holds(bodiesOf(append(base[1:], news...)...))
		f.quiet()
		if f.asksFor("/p5.zip") != 0 {
			t.Error("a package that was read is asked for again")
		}
	}
}

// TestPackagesAreObserved: whoever watches hears of each package from its first byte to its end.
func TestPackagesAreObserved(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var told []transfer.PackageProgress
	o := source.Options{Dumps: true, DumpSize: 10}
	p := newPusherIn(t, ramDir(t), o, many(20), func(t *Target) { t.Dumps = "auto" })
	p.stop()
	p.also = func(o *Observer) {
		o.Package = func(pp transfer.PackageProgress) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, pp)
		}
	}
	p.follow()
	p.pull(false)
	mu.Lock()
	defer mu.Unlock()
	for _, pp := range told {
		if pp.Of != 2 || pp.State != transfer.PackageComing && (pp.Members != 10 || pp.Bytes <= 0 || pp.Bytes != pp.Total) {
			t.Errorf("%+v", pp)
		}
		if pp.State == transfer.PackageOver && pp.Used != 10 {
			t.Errorf("used %+v", pp)
		}
	}
	for _, number := range []int{1, 2} {
		var mine []transfer.PackageState
		for _, pp := range told {
			if pp.Number == number && (len(mine) == 0 || mine[len(mine)-1] != pp.State) {
				mine = append(mine, pp.State)
			}
		}
		want := []transfer.PackageState{transfer.PackageComing, transfer.PackageInUse, transfer.PackageOver}
		if !slices.Equal(mine, want) {
			t.Errorf("package %d: told %v, want %v", number, mine, want)
		}
	}
}
