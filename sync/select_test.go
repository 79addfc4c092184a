package sync

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"resyncd/destination/rsdoc"
	"resyncd/store"
	"resyncd/sync/parsed"
)

// ln are links of an entry, relation and target in turn.
func ln(relsAndHrefs ...string) string {
	var b strings.Builder
	for i := 0; i+1 < len(relsAndHrefs); i += 2 {
		fmt.Fprintf(&b, `<rs:ln rel="%s" href="%s"/>`, relsAndHrefs[i], relsAndHrefs[i+1])
	}
	return b.String()
}

// of are the links of a member of a collection.
func of(collection string) string { return ln("collection", "urn:"+collection) }

// with is an entry with further links.
func with(entry, links string) string { return strings.Replace(entry, "</url>", links+"</url>", 1) }

// selects has the next runs mirror what a selection takes.
func (r *rig) selects(s parsed.Selection) {
	r.tune = func(t *Target) { t.Selection, t.DeleteGuard = s, 1 }
}

// uris are those that the state has rows of.
func (r *rig) uris() (out []string) {
	r.t.Helper()
	r.with(func(e *Engine, t Target) {
		src, err := e.Store.Source(context.Background(), t.Name)
		if err != nil {
			r.t.Fatal(err)
		}
		rs, err := e.Store.Scan(context.Background(), store.ScanQuery{SourceID: src.ID, Limit: 1000})
		if err != nil {
			r.t.Fatal(err)
		}
		for _, row := range rs {
			out = append(out, strings.TrimPrefix(row.URI, r.srv.URL))
		}
	})
	slices.Sort(out)
	return out
}

var books = parsed.Selection{Collections: []string{"urn:books", "urn:rare"}}

// TestSelectionOfLists: only what the links select is mirrored and known; what leaves the selection goes as if it were deleted,
// by the list or by a change, and what enters it comes.
func TestSelectionOfLists(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.selects(books)
	f.set("resourcelist", "/list.xml", "changelist", "/changes.xml")
	member := func(path, body, links string) string { return with(f.res(path, body), links) }
	f.page("/list.xml", list("resourcelist", `at="`+when(10)+`"`, member("/a", "a", of("books")), member("/b", "b", of("rare")+of("maps")),
		member("/c", "c", of("maps")), member("/d", "d", ""), member("/e", "e", of("books"))))
	change := func(path, body, change string, minute int, links string) string {
		return with(f.changed(path, body, change, minute), links)
	}
	news := []string{
		change("/c", "c", "updated", 11, of("maps")), change("/new", "n", "created", 12, of("maps")), change("/in", "i", "created", 12, of("books")),
	}
	changes := func() { f.page("/changes.xml", list("changelist", `from="`+when(10)+`"`, news...)) }
	changes()
	f.one(true)
	f.holds(map[string]string{"/a": "a", "/b": "b", "/e": "e", "/in": "i"})
	if got, want := f.uris(), []string{"/a", "/b", "/e", "/in"}; !slices.Equal(got, want) {
		t.Fatalf("rows of %v, want %v", got, want)
	}
	f.auditFinds()
	f.quiet()

	news = append(news, change("/a", "a2", "updated", 20, of("maps")), change("/c", "c2", "updated", 21, of("books")), f.deleted("/b", 22),
		change("/new", "n2", "updated", 23, ""))
	changes()
	f.one(true)
	f.holds(map[string]string{"/c": "c2", "/e": "e", "/in": "i"})
	f.auditFinds()
	f.quiet()

	f.page("/list.xml", list("resourcelist", `at="`+when(30)+`"`, member("/a", "a2", of("maps")), member("/c", "c2", of("books")), member("/e", "e", ""),
		member("/in", "i", of("books")), member("/new", "n3", of("rare"))))
	f.opts.Full = true
	f.one(true)
	f.opts.Full = false
	f.holds(map[string]string{"/c": "c2", "/in": "i", "/new": "n3"})
	f.auditFinds()
	f.quiet()
}

// TestSelectionIsGuarded: what a selection leaves out passes the sweep guard, an empty one above all.
func TestSelectionIsGuarded(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.set("resourcelist", "/list.xml")
	f.page("/list.xml", list("resourcelist", `at="`+when(10)+`"`, with(f.res("/a", "a"), of("books")), f.res("/b", "b")))
	f.one(true)
	f.selects(parsed.Selection{Collections: []string{"urn:boks"}})
	if res := f.one(false); res.Held != 2 || res.Deleted != 0 {
		t.Errorf("%+v", res)
	}
	f.holds(map[string]string{"/a": "a", "/b": "b"})
	f.selects(books)
	if res := f.one(true); res.Held != 0 || res.Deleted != 1 {
		t.Errorf("%+v", res)
	}
	f.holds(map[string]string{"/a": "a"})
	f.auditFinds()
}

// TestSelectionOfFaults: an entry that cannot be believed makes no unknown resource wanted, and takes no known one away.
func TestSelectionOfFaults(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.selects(books)
	f.set("resourcelist", "/list.xml", "changelist", "/changes.xml")
	f.page("/list.xml", list("resourcelist", `at="`+when(10)+`"`, with(f.res("/a", "a"), of("books"))))
	faulty := func(path string) string {
		return f.entry(path, `change="updated" datetime="`+when(20)+`" length="1"`, `<rs:md change="updated" length="2"/>`)
	}
	f.page("/b", "b")
	f.page("/changes.xml", list("changelist", `from="`+when(10)+`"`, faulty("/a"), faulty("/b")))
	f.one(true)
	f.holds(map[string]string{"/a": "a"})
	f.page("/list.xml", list("resourcelist", `at="`+when(30)+`"`, faulty("/a"), faulty("/b"), with(f.res("/c", "c"), of("rare"))))
	f.page("/changes.xml", list("changelist", `from="`+when(30)+`"`))
	f.opts.Full = true
	f.one(true)
	f.holds(map[string]string{"/a": "a", "/c": "c"})
	if got, want := f.uris(), []string{"/a", "/c"}; !slices.Equal(got, want) {
		t.Fatalf("rows of %v, want %v", got, want)
	}
}

// TestSelectionChanges: another selection brings what it takes in, also where only a Change List that was read before tells of it,
// and removes what it leaves out, over a list that could not be read and over all kinds of Sources.
func TestSelectionChanges(t *testing.T) {
	t.Parallel()
	for name, documents := range map[string][]string{
		"both":             {"resourcelist", "/list.xml", "changelist", "/changes.xml"},
		"an index":         {"resourcelist", "/list.xml", "changelist", "/index.xml"},
		"a list alone":     {"resourcelist", "/all.xml"},
		"changes alone":    {"changelist", "/changes.xml"},
		"no at, no hashes": {"resourcelist", "/plain.xml", "changelist", "/changes.xml"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.selects(books)
			f.set(documents...)
			old := []string{with(f.res("/old", "o"), of("maps")), with(f.res("/book", "b"), of("books"))}
			news := []string{
				with(f.changed("/new", "n", "created", 11), of("maps")), with(f.changed("/read", "r", "created", 12), of("books")),
			}
			f.page("/list.xml", list("resourcelist", `at="`+when(10)+`"`, old...))
			f.page("/plain.xml", list("resourcelist", "", old...))
			f.page("/all.xml", list("resourcelist", `at="`+when(10)+`"`, slices.Concat(old, []string{
				with(f.res("/new", "n"), of("maps")), with(f.res("/read", "r"), of("books"))})...))
			f.page("/index.xml", index("changelist", `from="`+when(10)+`"`, f.part("/part.xml", `from="`+when(10)+`" until="`+when(13)+`"`),
				f.part("/open.xml", `from="`+when(13)+`"`)))
			f.page("/part.xml", list("changelist", `from="`+when(10)+`" until="`+when(13)+`"`, news...))
			f.page("/open.xml", list("changelist", `from="`+when(13)+`"`))
			f.page("/changes.xml", list("changelist", `from="`+when(10)+`"`, news...))
			holds := func(also ...string) {
				t.Helper()
				want := map[string]string{}
				for _, path := range also {
					if name != "changes alone" || path == "/new" || path == "/read" {
						want[path] = path[1:2]
					}
				}
				f.holds(want)
				f.auditFinds()
				f.quiet()
			}
			f.one(true)
			holds("/book", "/read")
			f.selects(parsed.Selection{Collections: []string{"urn:maps"}})
			if name == "both" { // nothing is forgotten over a run that is in vain
				gone := f.pages["/list.xml"]
				f.handle("/list.xml", nil)
				f.one(false)
				f.handle("/list.xml", gone)
			}
			f.one(true)
			holds("/old", "/new")
			f.selects(parsed.Selection{})
			f.one(true)
			holds("/old", "/new", "/book", "/read")
			f.selects(books)
			f.one(true)
			holds("/book", "/read")
		})
	}
}

// TestSelectionOfDumps: manifests are selected from as lists are, also anew, and what they leave out costs neither a row nor a
// request.
func TestSelectionOfDumps(t *testing.T) {
	t.Parallel()
	for _, contents := range []bool{false, true} {
		f := newFake(t)
		selects := func(s parsed.Selection) {
			f.tune = func(t *Target) { t.Selection, t.DeleteGuard, t.Dumps = s, 1, "auto" }
		}
		selects(books)
		f.set("resourcedump", "/rd.xml", "changedump", "/cd.xml")
		ms := members(20, 0)
		for i := range ms {
			ms[i].links = of([]string{"books", "maps"}[i%2])
		}
		m, c := f.manifest("resourcedump-manifest", `at="`+when(0)+`"`, ms), ""
		if contents {
			c = "/contents.xml"
			f.page(c, m)
		}
		body := f.pack("/p.zip", m, ms)
		f.page("/rd.xml", list("resourcedump", `at="`+when(0)+`"`, f.packageEntry("/p.zip", c, "", len(body))))
		d := &changeDump{fake: f, contents: contents}
		gone, new := ms[0], member{path: "/r100", body: "n", links: of("maps")}
		gone.links = of("maps")
		d.add("/c", 0, 10, changes([]member{gone}, "updated", 5)...)
		d.add("/c", 10, 20, changes([]member{new}, "created", 15)...)
		d.publish("/cd.xml")
		var isBooks, isMaps []member
		for _, m := range append(slices.Clone(ms[1:]), gone, new) {
			if m.links == of("books") {
				isBooks = append(isBooks, m)
			} else {
				isMaps = append(isMaps, m)
			}
		}
		f.one(true)
		f.holds(bodiesOf(isBooks...))
		if rows := f.uris(); len(rows) > len(isBooks)+1 || slices.Contains(rows, "/r100") || slices.Contains(rows, "/r001") {
			t.Errorf("rows of %v", rows)
		}
		f.one(true)
		selects(parsed.Selection{Collections: []string{"urn:maps"}})
		if res := f.one(true); res.Deleted != int64(len(isBooks)) {
			t.Errorf("%+v", res)
		}
		f.holds(bodiesOf(isMaps...))
		selects(books)
		f.one(true)
		f.holds(bodiesOf(isBooks...))
	}
}

// TestSelectionOfPushes: a push selects as lists do. One of a resource that leaves the selection is no removal by itself: the
// list confirms it (P5).
func TestSelectionOfPushes(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.selects(books)
	f.set("resourcelist", "/list.xml", "changelist", "/changes.xml")
	f.page("/list.xml", list("resourcelist", `at="`+when(10)+`"`, with(f.res("/a", "a"), of("books")), with(f.res("/m", "m"), of("maps"))))
	var news []string
	changes := func() { f.page("/changes.xml", list("changelist", `from="`+when(10)+`"`, news...)) }
	changes()
	p := f.follow()
	p.pull(false)
	f.holds(map[string]string{"/a": "a"})
	push := func(from, until int, entries ...string) {
		news = append(news, entries...)
		p.deliver(rsdoc.Interval{From: minute(t, from), Until: minute(t, until)},
			[]byte(list("changelist-notification", `from="`+when(from)+`" until="`+when(until)+`"`, entries...)), true)
	}
	push(10, 20, with(f.changed("/m", "m2", "updated", 20), of("maps")), with(f.changed("/n", "n", "created", 20), of("maps")),
		with(f.changed("/in", "i", "created", 20), of("rare")), // newest first
		with(f.changed("/twice", "2", "updated", 19), of("maps")), with(f.changed("/twice", "1", "created", 18), of("books")))
	p.eventually("what is selected is here", func() bool { return len(f.files()) == 2 })
	f.holds(map[string]string{"/a": "a", "/in": "i"})
	// The list lags: the file stays.
	push(20, 30, with(f.changed("/a", "a2", "updated", 30), of("maps")))
	p.emptied()
	if len(f.files()) != 2 {
		t.Fatalf("a push removed a file: %v", f.files())
	}
	changes()
	p.pull(false)
	p.eventually("what left the selection is gone", func() bool { return len(f.files()) == 1 })
	f.holds(map[string]string{"/in": "i"})
	if p.missed != 0 {
		t.Errorf("%d push misses: what is not selected is none", p.missed)
	}
	rs, err := p.store.Scan(t.Context(), store.ScanQuery{SourceID: p.theSet().SourceID, Limit: 10})
	if err != nil || len(rs) != 2 {
		t.Errorf("%d rows, %v", len(rs), err)
	}
}

// TestSelectionOfManyLinks: a row that does not keep all of its links does not tell that its resource is left out.
func TestSelectionOfManyLinks(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.selects(books)
	f.set("resourcelist", "/list.xml")
	a := with(f.res("/a", "a"), of("books"))
	f.servedAt("/list.xml", 10, list("resourcelist", "", a))
	p := f.follow()
	p.pull(false)
	many := strings.Repeat(ln("alternate", "urn:x"), parsed.MaxLinks) + of("books")
	p.deliver(rsdoc.Interval{From: minute(t, 10), Until: minute(t, 20)}, []byte(list("changelist-notification",
		`from="`+when(10)+`" until="`+when(20)+`"`, with(f.changed("/many", "m", "created", 20), many))), true)
	p.eventually("what was pushed is here", func() bool { return len(f.files()) == 2 })
	f.servedAt("/list.xml", 15, list("resourcelist", "", a, with(f.res("/b", "b"), of("rare"))))
	p.pull(false)
	p.eventually("the lagging list took nothing away", func() bool { return len(f.files()) == 3 })
	f.holds(map[string]string{"/a": "a", "/b": "b", "/many": "m"})
}

// TestLinksOutliveQuestions: what has the Source asked about a resource does not take its links away.
func TestLinksOutliveQuestions(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.set("resourcelist", "/list.xml")
	f.page("/list.xml", list("resourcelist", `at="`+when(10)+`"`, with(f.res("/a", "a"), of("books"))))
	p := f.follow()
	p.pull(false)
	f.page("/a", "a2")
	p.deliver(rsdoc.Interval{From: minute(t, 10), Until: minute(t, 20)}, []byte(list("changelist-notification",
		`from="`+when(10)+`" until="`+when(20)+`"`, f.changed("/a", "a2", "updated", 20))), false)
	var row *store.Resource
	p.eventually("the Source was asked", func() (asked bool) {
		r, err := p.store.Resource(t.Context(), p.theSet().SourceID, f.uri("/a"))
		row = r
		return err == nil && r.Wants[0].Settled && r.Have.Length == 2
	})
	if links := parsed.ParseLinks(row.Wants[0].Links); len(links) != 1 {
		t.Errorf("links %v", links)
	}
}

// TestSelectionModel draws histories of resources that enter and leave collections, of lists and of selections: after each run
// the mirror is what the selection takes of the Source, the auditor agrees, and no resource that was never selected has a row.
func TestSelectionModel(t *testing.T) {
	t.Parallel()
	budget := usual(6 * time.Second)
	if d, err := time.ParseDuration(os.Getenv("RESYNCD_MODEL_TIME")); err == nil {
		budget = d
	}
	end, folder, histories := time.Now().Add(budget), ramDir(t), 0
	var failed atomic.Bool
	rapid.Check(t, func(rt *rapid.T) {
		if time.Now().After(end) && !failed.Load() {
			return
		}
		defer func() {
			if p := recover(); p != nil {
				failed.Store(true)
				panic(p)
			}
		}()
		histories++
		h := newSelecting(rt, folder)
		defer h.srv.Close()
		for range rapid.IntRange(1, 8).Draw(rt, "runs") {
			h.step(rt)
		}
	})
	t.Logf("%d histories", histories)
}

// selecting is a Source of which each resource has a body, the links by which it may be selected, and a history.
type selecting struct {
	*fake
	now, at int // minutes: of the last change, of the Resource List
	bodies  map[string]string
	links   map[string]string
	log     []string // entries of the Change List, oldest first
	listed  []string
	times   []int // of the entries
	// The Source: newest first, in parts, without hashes, without a Change List, without an at.
	newest, parts, bare, alone, undated bool
	selection                           parsed.Selection
	known                               map[string]bool     // was selected or deleted once, so it may have a row
	ever                                map[string][]string // all links that a resource had
}

func newSelecting(rt *rapid.T, folder string) *selecting {
	folder, err := os.MkdirTemp(folder, "select-")
	if err != nil {
		rt.Fatal(err)
	}
	h := &selecting{fake: newFakeIn(rt, folder), now: 10, bodies: map[string]string{}, links: map[string]string{}, known: map[string]bool{}, ever: map[string][]string{}}
	h.mirror.Unsynced = true
	flag := func(name string) bool { return rapid.IntRange(0, 2).Draw(rt, name) == 0 }
	h.newest, h.parts, h.bare, h.alone = flag("newest first"), flag("parts"), flag("no hashes"), flag("a list alone")
	h.undated = flag("no at")
	for i, links := range selectable { // no selection is empty: that would be held
		h.become(fmt.Sprintf("/anchor%d", i), links, "created")
	}
	h.relist()
	return h
}

var selectable = []string{
	"", of("a"), of("b"), of("a") + of("b"), ln("describes", "http://lib.example/x"), of("a") + ln("describes", "http://lib.example/x"),
	of("b") + ln("describes", "http://lib.example/x"),
	strings.Repeat(ln("alternate", "http://lib.example/x"), parsed.MaxLinks) + of("a"), // a row does not keep all of them
}

// become has a resource change, with new links and a new body, or be deleted.
func (h *selecting) become(path, links, change string) {
	h.now++
	md := fmt.Sprintf(`change="%s" datetime="%s"`, change, when(h.now))
	if change == "deleted" {
		delete(h.bodies, path)
		h.handle(path, nil)
		h.log, h.times, h.known[path] = append(h.log, h.entry(path, md)), append(h.times, h.now), true
		return
	}
	h.bodies[path], h.links[path] = fmt.Sprintf("%s at %d", path, h.now), links
	h.ever[path] = append(h.ever[path], links)
	h.page(path, h.bodies[path])
	h.log, h.times = append(h.log, with(h.entry(path, md+h.fixity(path)), links)), append(h.times, h.now)
}

func (h *selecting) fixity(path string) string {
	if h.bare {
		return ""
	}
	return " " + fixity(h.bodies[path])
}

func (h *selecting) relist() {
	h.now++
	h.at, h.listed = h.now, nil
	for path := range h.bodies {
		lastmod := ""
		if h.bare { // else nothing in the list would tell of an update
			lastmod = "<lastmod>" + when(h.now) + "</lastmod>"
		}
		h.listed = append(h.listed, strings.Replace(with(h.entry(path, strings.TrimPrefix(h.fixity(path), " ")), h.links[path]), "<rs:md", lastmod+"<rs:md", 1))
	}
	slices.Sort(h.listed)
}

// publish serves the documents as they are now.
func (h *selecting) publish() {
	at := `at="` + when(h.at) + `"`
	if h.undated {
		at = ""
	}
	h.servedAt("/list.xml", h.at, list("resourcelist", at, h.listed...))
	if h.alone {
		h.set("resourcelist", "/list.xml")
		return
	}
	h.set("resourcelist", "/list.xml", "changelist", "/changes.xml")
	ordered := func(entries []string) []string {
		if entries = slices.Clone(entries); h.newest {
			slices.Reverse(entries)
		}
		return entries
	}
	const size = 4
	if !h.parts || len(h.log) <= size {
		h.page("/changes.xml", list("changelist", `from="`+when(10)+`"`, ordered(h.log)...))
		return
	}
	var parts []string
	from := 10
	for i := 0; i < len(h.log); i += size {
		path, span := fmt.Sprintf("/part%d.xml", i), fmt.Sprintf(`from="%s"`, when(from))
		if i+size < len(h.log) {
			from = h.times[i+size-1]
			span += fmt.Sprintf(` until="%s"`, when(from))
		}
		h.page(path, list("changelist", span, ordered(h.log[i:min(i+size, len(h.log))])...))
		parts = append(parts, h.part(path, span))
	}
	h.page("/changes.xml", index("changelist", `from="`+when(10)+`"`, parts...))
}

func (h *selecting) step(rt *rapid.T) {
	for range rapid.IntRange(0, 5).Draw(rt, "changes") {
		path := fmt.Sprintf("/r%d", rapid.IntRange(0, 4).Draw(rt, "which"))
		switch _, there := h.bodies[path]; {
		case !there:
			h.become(path, rapid.SampledFrom(selectable).Draw(rt, "links"), "created")
		case rapid.IntRange(0, 4).Draw(rt, "delete") == 0:
			h.become(path, "", "deleted")
		default:
			h.become(path, rapid.SampledFrom(selectable).Draw(rt, "links"), "updated")
		}
	}
	if h.alone || rapid.IntRange(0, 3).Draw(rt, "relist") == 0 {
		h.relist()
	}
	h.publish()
	if rapid.IntRange(0, 2).Draw(rt, "another selection") == 0 {
		h.selection = parsed.Selection{
			Collections: rapid.SampledFrom([][]string{nil, {"urn:a"}, {"urn:b"}, {"urn:a", "urn:b"}}).Draw(rt, "collections"),
			Metadata:    rapid.SampledFrom([]string{"", "with", "only", "without"}).Draw(rt, "metadata"),
		}
	}
	h.selects(h.selection)
	h.one(true)
	taken := func(links string) bool {
		describes := strings.Contains(links, "describes")
		collected := len(h.selection.Collections) == 0
		for _, c := range h.selection.Collections {
			collected = collected || strings.Contains(links, c)
		}
		return collected && (h.selection.Metadata != "only" || describes) && (h.selection.Metadata != "without" || !describes)
	}
	want := map[string]string{}
	for path, body := range h.bodies {
		if h.known[path] = h.known[path] || slices.ContainsFunc(h.ever[path], taken); taken(h.links[path]) {
			want[path] = body
		}
	}
	h.holds(want)
	for _, path := range h.uris() {
		if !h.known[path] {
			rt.Fatalf("%s has a row and was never selected", path)
		}
	}
	h.auditFinds()
}
