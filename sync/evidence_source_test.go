package sync

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"hash/fnv"
	"html"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// oddities are what a Source, its server or its lists may do that the best ones do not. Each is drawn by itself; while one
// is hunted, RESYNCD_EVIDENCE_ODD names those that are on, and RESYNCD_EVIDENCE_NOT those that are never drawn.
type oddities struct {
	// The time of a Resource List.
	NoAt         bool // it carries none: Last-Modified or Date stand in
	StuckAt      bool // it stays what it was at first
	RepeatAt     bool // it stays for some lists
	BackAt       bool // some lists claim an earlier one
	StaticPart   bool // the first part of its index never changes, and neither index nor anything else carries a later time for it
	StuckIndex   bool // with StuckAt and RepeatAt: the index dates its parts so, and says that none changed
	PartsUndated bool // it stands on the index alone
	OldModified  bool // Last-Modified goes back (rsync -t, a deployment)
	NoModified   bool // no list has a Last-Modified
	// Order and content of a Resource List.
	NewestFirst bool
	Shuffled    bool
	BadListed   bool // some entries of it cannot be read
	LengthOnly  bool // entries carry no hash
	Bare        bool // nor a length
	TwoLists    bool // the Capability List names two of a kind
	Restored    bool // an older copy of it is served for a while
	StaleParts  bool // an older copy of one part of it is served for a while
	// The Change List.
	Pruned       bool // it keeps the last change of each resource only
	WholeSeconds bool // datetime in seconds, at with a fraction
	Unreadable   bool // some entries cannot be read
	UntilAhead   bool // windows whose until is written down before they end
	NoFrom       bool // it has no from and keeps the last few changes
	Forgetful    bool // it begins anew now and then, and nothing archives what it told
	Batched      bool // it is written from time to time only
	// The server and the clocks.
	SecondETag bool // made of the seconds of the time of modification and the length
	NoValid    bool // no validator at all
	NoDate     bool
	DateAhead  bool // the server's clock is ahead until it is put right
	AppSkew    bool // the clock of what writes the lists is not that of the server
	LocalSkew  bool // ours is wrong, and is set
	// What befalls the mirror and its runs.
	Pushed bool // a hub tells of changes, loses some, comes late, and signs what is not so
	Midway bool // the Source changes and publishes while it is read
	Killed bool // runs end at any durable step
	Faulty bool // some requests fail
	Lost   bool // files of the mirror vanish
	Older  bool // or an older copy of them takes their place
	Full   bool // some runs are asked for everything
}

func (o *oddities) set(list string, on bool) { setOdd(o, list, on) }
func (o *oddities) String() string           { return oddString(o) }

// evPage is a document or a body as the server has it on disk.
type evPage struct {
	text     string
	modified time.Time
}

// evEvent is one change as the Source knows it.
type evEvent struct {
	at     time.Time // by the clock of what writes the lists
	name   string
	change string
	body   string
	window int    // the Change List that it is told in
	bad    string // what of its entry cannot be read
}

// evResource is a resource that is there.
type evResource struct {
	body    string
	changed time.Time // by the clock of what writes the lists
	born    int
	page    *evPage
	served  bool // this body was sent to the mirror before
	badList bool // its entry of the Resource List cannot be read
}

// evSource is a Source that never says what is not so, but says it in any odd way. Its lists are files that it writes now
// and then; the clock is the test's.
type evSource struct {
	odd  oddities
	base string
	// Shape: what is no oddity.
	parts    int  // of the Resource List, 0: no index
	hasCL    bool // there is a Change List
	clIndex  bool // of several windows
	fraction bool // times have fractions
	lastmods bool // entries carry their lastmod
	validBy  int  // lists: 0 ETag, 1 Last-Modified, 2 both
	keepN    int  // entries that a list without from keeps

	mu      sync.Mutex
	clock   time.Time
	app     time.Duration // how far ahead the clock of what writes the lists is
	server  time.Duration // and that of the server
	files   map[string]*evResource
	serial  int
	events  []evEvent
	windows []time.Time // when each Change List begins
	first   int         // the first that is still there
	stuck   time.Time
	lastAt  time.Time
	lists   []map[string]*evPage // the Resource Lists as they were written, in their order
	serving int                  // which of them is served
	stale   map[string]*evPage   // pages that a cache has in older copies
	changes map[string]*evPage   // Change Lists
	backs   map[int64]bool       // the older Last-Modified that were given
	// asks counts requests for bodies that the mirror had been sent before; requests all.
	asks, requests int
	midway         func(request int)
	over           func(w http.ResponseWriter, req *http.Request) bool
}

var evBegin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newEvSource(base string) *evSource {
	return &evSource{base: base, clock: evBegin, files: map[string]*evResource{}, changes: map[string]*evPage{}, backs: map[int64]bool{}, keepN: 3}
}

func (s *evSource) appNow() time.Time    { return s.clock.Add(s.app) }
func (s *evSource) serverNow() time.Time { return s.clock.Add(s.server) }

// stamp is a time as the lists write it.
func (s *evSource) stamp(t time.Time) string {
	if s.fraction {
		return t.UTC().Format("2006-01-02T15:04:05.000000Z")
	}
	return t.UTC().Format(time.RFC3339)
}

func (s *evSource) datetime(t time.Time) string {
	if s.odd.WholeSeconds {
		return t.UTC().Format(time.RFC3339)
	}
	return s.stamp(t)
}

// set changes a resource; an empty body deletes it.
func (s *evSource) set(name, body, bad string) (told string) {
	was := s.files[name]
	e := evEvent{at: s.appNow(), name: name, body: body, change: "updated", window: len(s.windows) - 1, bad: bad}
	switch {
	case was == nil && body == "":
		return ""
	case was == nil:
		e.change = "created"
	case body == "":
		e.change = "deleted"
	}
	if body == "" {
		delete(s.files, name)
	} else {
		r := &evResource{body: body, changed: e.at, page: &evPage{text: body, modified: s.serverNow()}}
		s.serial++
		if r.born = s.serial; was != nil {
			r.born, r.badList = was.born, was.badList
			r.served = was.served && was.body == body
		}
		s.files[name] = r
	}
	s.events = append(s.events, e)
	if !s.odd.Batched {
		s.writeChanges()
	}
	return e.change
}

func (s *evSource) page(text string) *evPage { return &evPage{text: text, modified: s.serverNow()} }

// put keeps the file as it is where it says the same.
func (s *evSource) put(pages map[string]*evPage, before map[string]*evPage, path, text string) {
	if old := before[path]; old != nil && old.text == text {
		pages[path] = old
		return
	}
	pages[path] = s.page(text)
}

func evHash(s string) uint32 {
	h := fnv.New32a()
	_, _ = io.WriteString(h, s)
	return h.Sum32()
}

func (s *evSource) fixity(body string) string {
	switch {
	case s.odd.Bare:
		return ""
	case s.odd.LengthOnly:
		return fmt.Sprintf(` length="%d"`, len(body))
	}
	return fmt.Sprintf(` hash="sha-256:%x" length="%d"`, sha256.Sum256([]byte(body)), len(body))
}

func (s *evSource) loc(name string) string {
	return "<loc>" + html.EscapeString(s.base+"/"+name) + "</loc>"
}

func (s *evSource) lastmod(t time.Time) string {
	if !s.lastmods {
		return ""
	}
	return "<lastmod>" + s.stamp(t) + "</lastmod>"
}

func (s *evSource) listed(name string) string {
	r := s.files[name]
	if r.badList {
		return "<url><loc>http://</loc></url>"
	}
	return "<url>" + s.loc(name) + s.lastmod(r.changed) + "<rs:md" + s.fixity(r.body) + "/></url>"
}

// names are the resources in the order of the Resource List.
func (s *evSource) names() []string {
	names := slices.Sorted(maps.Keys(s.files))
	switch {
	case s.odd.Shuffled:
		slices.SortFunc(names, func(a, b string) int {
			return cmp.Compare(evHash(fmt.Sprint(a, len(s.lists))), evHash(fmt.Sprint(b, len(s.lists))))
		})
	case s.odd.NewestFirst:
		slices.SortStableFunc(names, func(a, b string) int { return s.files[b].changed.Compare(s.files[a].changed) })
	}
	return names
}

// static tells a resource that stands in the part that never changes.
func static(name string) bool { return strings.HasPrefix(name, "s/") }

func attr(name, value string) string {
	if value == "" {
		return ""
	}
	return " " + name + `="` + value + `"`
}

// writeList writes the Resource List anew. back is what its at or Last-Modified goes back by, if they do.
func (s *evSource) writeList(repeat bool, back time.Duration) {
	var before map[string]*evPage
	if len(s.lists) > 0 {
		before = s.lists[len(s.lists)-1]
	}
	at := s.appNow()
	if s.stuck.IsZero() {
		s.stuck, s.lastAt = at, at
	}
	switch {
	case s.odd.StuckAt:
		at = s.stuck
	case s.odd.RepeatAt && repeat:
		at = s.lastAt
	case s.odd.BackAt:
		at = at.Add(-back)
	}
	s.lastAt = at
	stamp := s.stamp(at)
	if s.odd.NoAt {
		stamp = ""
	}
	pages := map[string]*evPage{}
	names := s.names()
	if s.odd.TwoLists {
		var other []string
		names, other = split(names, func(n string) bool { return evHash(n)%2 == 0 })
		s.writeParts(pages, before, "/rl2.xml", "/q", other, stamp)
	}
	s.writeParts(pages, before, "/rl.xml", "/p", names, stamp)
	if s.odd.OldModified && back > 0 {
		for path, p := range pages {
			if before[path] != p { // each time another one, or nothing could tell
				for p.modified = p.modified.Add(-back); s.backs[p.modified.Unix()]; {
					p.modified = p.modified.Add(-time.Second)
				}
				s.backs[p.modified.Unix()] = true
			}
		}
	}
	s.lists = append(s.lists, pages)
	s.serving = len(s.lists) - 1
}

func split(all []string, first func(string) bool) (a, b []string) {
	for _, n := range all {
		if first(n) {
			a = append(a, n)
		} else {
			b = append(b, n)
		}
	}
	return a, b
}

func (s *evSource) writeParts(pages, before map[string]*evPage, root, prefix string, names []string, at string) {
	const kind = "resourcelist"
	if s.parts == 0 {
		s.put(pages, before, root, list(kind, attr("at", at), s.each(names)...))
		return
	}
	own, indexAt := at, at
	if s.odd.PartsUndated {
		own = ""
	}
	if s.odd.StaticPart {
		indexAt = ""
	}
	var entries []string
	for i := range s.parts {
		path := fmt.Sprintf("%s%d.xml", prefix, i)
		in, _ := split(names, func(n string) bool { return s.partOf(n, names) == i })
		text := list(kind, attr("at", own), s.each(in)...)
		if old := before[path]; s.odd.StaticPart && i == 0 && old != nil {
			pages[path] = old
		} else {
			s.put(pages, before, path, text)
		}
		md, mod := "", ""
		if vague := (s.odd.StuckAt || s.odd.RepeatAt) && !s.odd.StuckIndex; own != "" && !vague && !(s.odd.StaticPart && i == 0) {
			md = "<rs:md" + attr("at", own) + "/>"
		} else if s.odd.NoAt {
			mod = "<lastmod>" + pages[path].modified.UTC().Format(time.RFC3339) + "</lastmod>"
		}
		entries = append(entries, "<sitemap><loc>"+s.base+path+"</loc>"+mod+md+"</sitemap>")
	}
	s.put(pages, before, root, index(kind, attr("at", indexAt), entries...))
}

// partOf is where a resource is listed: what is static first, the rest by its name, so that nothing moves.
func (s *evSource) partOf(name string, _ []string) int {
	if s.odd.StaticPart {
		if static(name) {
			return 0
		}
		return 1 + int(evHash(name))%max(s.parts-1, 1)
	}
	return int(evHash(name)) % s.parts
}

func (s *evSource) each(names []string) (out []string) {
	for _, n := range names {
		out = append(out, s.listed(n))
	}
	return out
}

// told is an event as an entry.
func (s *evSource) told(e evEvent) string {
	loc, change, at := s.loc(e.name), e.change, s.datetime(e.at)
	switch e.bad {
	case "loc":
		loc = "<loc>http://</loc>"
	case "change":
		change = "modified"
	case "datetime":
		at = "yesterday"
	}
	md := attr("change", change) + attr("datetime", at)
	mod := ""
	if e.change != "deleted" {
		md += s.fixity(e.body)
		mod = s.lastmod(e.at)
	}
	return "<url>" + loc + mod + "<rs:md" + md + "/></url>"
}
