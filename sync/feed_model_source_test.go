package sync

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// feedOddities are what a feed, its server, its hub and its mirror may do that the best ones do not. Each is drawn by itself;
// while one is hunted, RESYNCD_FEED_ODD names those that are on, and RESYNCD_FEED_NOT those that are never drawn.
type feedOddities struct {
	// Documents.
	Archives    bool // what leaves the window is in archives (RFC 5005)
	Missing     bool // some archives are not there for a while
	Lost        bool // or never again
	OldVersions bool // archives keep what later documents say anew
	Pages       bool // the newest entries are in pages, newest first
	Ascending   bool // in pages, oldest first
	Alphabetic  bool // in pages, by id
	Complete    bool // the document is the whole set, and says so
	InPage      bool // a page stands in the feed's place for a while, and links to another feed
	Broken      bool // or an error
	Stale       bool // a cache has an older copy
	SecondTag   bool // validators made of the second and the length
	NoTag       bool // or none
	// Entries.
	Burst    bool // several within one second
	Undated  bool
	Future   bool // dated ahead
	Late     bool // dated before what was known: moderated, aggregated
	Pinned   bool // old ones or the newest one stay on top
	SameDate bool // they change without a new date
	InPlace  bool // they change where they stand
	Restored bool // they go back to an older date
	Reborn   bool // they are published again as they were before their tombstone
	Untombed bool // they vanish without one
	Forgets  bool // tombstones are shown for a while only
	Flawed   bool // some cannot be read
	// The hub.
	Pushed bool // it tells of entries, and loses some
	Late2  bool // late, or once more
	Forged bool // it signs what is not so
	// What befalls the mirror and its runs.
	Killed bool
	Faulty bool
	Full   bool // some runs are asked for everything
	Guard  bool // deletions are guarded
	Follow bool // what entries link to is mirrored
	// Records: the entries are edits of records, which may be published long after they were observed.
	Records bool
}

func (o *feedOddities) set(list string, on bool) { setOdd(o, list, on) }
func (o *feedOddities) String() string           { return oddString(o) }

// feedItem is one thing that the Source said of an entry.
type feedItem struct {
	id, text string
	gone     bool      // it is deleted
	tomb     bool      // and the feed says so
	at       time.Time // updated or when, as it says; zero for none
	tick     int       // when it was said, by the steps of the history
	inPlace  bool
	flawed   bool // it cannot be read
	files    []string
	edit     *fieldEdit // of a record
}

// feedThing is an entry with all that was said of it, the last of which is so.
type feedThing struct {
	items  []*feedItem
	pinned bool
	wild   bool // its dates do not grow with what is said of it
	misled bool // a hub told of it what is not so any more, or never was
	// unread: what is so was not in any document that a run could read when it first ended well; tombs of it were dropped.
	unread, dropped bool
}

func (e *feedThing) last() *feedItem { return e.items[len(e.items)-1] }

// feedDoc is one document as it is served.
type feedDoc struct {
	body    string
	items   []*feedItem
	changed time.Time
	date    time.Time
}

// feedFile is what an entry links to.
type feedFile struct {
	text, was string // was is what it said before it changed in silence
}

// feedSource publishes a feed. It never says what is not so, but may say it in any odd way; the clock is the test's.
type feedSource struct {
	odd     feedOddities
	base    string
	window  int // entries of a document
	chunk   int // entries of an archive
	order   int // within a document: newest first, oldest first, by id
	validBy int // ETag, Last-Modified, both

	mu       sync.Mutex
	clock    time.Time
	tick     int
	serial   int
	ids      []string
	things   map[string]*feedThing
	events   []*feedItem
	current  []*feedItem // the oldest first
	archives [][]*feedItem
	missing  map[string]bool
	files    map[string]*feedFile
	docs     map[string]*feedDoc
	copies   []map[string]*feedDoc // what was served at the beginning of each run
	stale    map[string]*feedDoc
	inPage   bool
	broken   int // 1 to 4
	served   map[*feedItem]bool
	requests int
	over     func(w http.ResponseWriter, req *http.Request) bool
}

func newFeedSource(base string, o feedOddities) *feedSource {
	return &feedSource{base: base, odd: o, clock: evBegin, things: map[string]*feedThing{}, missing: map[string]bool{},
		files: map[string]*feedFile{}, served: map[*feedItem]bool{}}
}

func (s *feedSource) isPaged() bool { return s.odd.Pages || s.odd.Ascending || s.odd.Alphabetic }

// publish says something of an entry; nil for what vanishes without a word.
func (s *feedSource) publish(it *feedItem) {
	s.tick++
	it.tick = s.tick
	e := s.things[it.id]
	if e == nil {
		e = &feedThing{}
		s.things[it.id], s.ids = e, append(s.ids, it.id)
	} else if was := e.last(); it.at.IsZero() || was.at.IsZero() || !it.at.After(was.at) {
		e.wild = true
	}
	grows := len(e.items) > 0 && !e.wild && !(it.gone && !it.tomb)
	e.items, e.dropped = append(e.items, it), false
	same := func(old *feedItem) bool { return old.id == it.id }
	at := slices.IndexFunc(s.current, same)
	if !s.odd.OldVersions || !grows {
		for i, a := range s.archives {
			s.archives[i] = slices.DeleteFunc(slices.Clone(a), same)
		}
	}
	switch {
	case it.gone && !it.tomb:
		s.current = slices.DeleteFunc(slices.Clone(s.current), same)
	case it.inPlace && at >= 0:
		s.current = slices.Clone(s.current)
		s.current[at] = it
	default:
		s.current = append(slices.DeleteFunc(slices.Clone(s.current), same), it)
	}
	if it.gone {
		e.pinned = false
	}
	if !it.gone || it.tomb {
		s.events = append(s.events, it)
	}
	s.slide()
}

// slide lets the oldest entries leave the window.
func (s *feedSource) slide() {
	var loose []*feedItem
	for _, it := range s.current {
		if !s.onTop(it) {
			loose = append(loose, it)
		}
	}
	n := 0
	switch {
	case s.odd.Complete, s.odd.Ascending && !s.odd.Archives, s.odd.Alphabetic && !s.odd.Archives:
	case s.odd.Archives:
		for len(loose)-n >= s.window+s.chunk {
			s.archives = append(s.archives, slices.Clone(loose[n:n+s.chunk]))
			n += s.chunk
		}
	case s.odd.Pages:
		n = max(0, len(loose)-3*s.window)
	default:
		n = max(0, len(loose)-s.window)
	}
	out := loose[:n]
	s.current = slices.DeleteFunc(slices.Clone(s.current), func(it *feedItem) bool { return slices.Contains(out, it) })
	s.write()
}

// forget drops all tombstones.
func (s *feedSource) forget() {
	drop := func(it *feedItem) bool {
		if it.gone {
			s.things[it.id].dropped = true
		}
		return it.gone
	}
	s.current = slices.DeleteFunc(slices.Clone(s.current), drop)
	for i, a := range s.archives {
		s.archives[i] = slices.DeleteFunc(slices.Clone(a), drop)
	}
	s.write()
}

func archivePath(n int) string { return fmt.Sprintf("/archive/%d", n) }

// sorted is how a document shows its entries.
func (s *feedSource) sorted(items []*feedItem) []*feedItem {
	out := slices.Clone(items)
	ascending, byID := s.order == 1, s.order == 2
	if s.isPaged() {
		ascending, byID = s.odd.Ascending, s.odd.Alphabetic
	}
	if byID {
		slices.SortStableFunc(out, func(a, b *feedItem) int { return strings.Compare(a.id, b.id) })
	} else if !ascending {
		slices.Reverse(out)
	}
	slices.SortStableFunc(out, func(a, b *feedItem) int {
		return boolInt(s.onTop(b)) - boolInt(s.onTop(a))
	})
	return out
}

// onTop: it is pinned, or dated ahead, which stands on top until its day.
func (s *feedSource) onTop(it *feedItem) bool { return s.things[it.id].pinned || it.at.After(s.clock) }

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// write makes the documents.
func (s *feedSource) write() {
	docs := map[string]*feedDoc{}
	put := func(path, head string, items []*feedItem) {
		d := &feedDoc{body: feedText(head, items), items: items, changed: s.clock, date: s.clock}
		if was := s.docs[path]; was != nil && was.body == d.body {
			d.changed = was.changed
		}
		docs[path] = d
	}
	older := ""
	for i, a := range s.archives {
		put(archivePath(i), "<fh:archive/>"+older, s.sorted(a))
		older = prevArchive(archivePath(i))
	}
	if s.odd.Complete {
		older += "<fh:complete/>"
	}
	items := s.sorted(s.current)
	for path, n := feedPath, 2; ; n++ {
		page := items
		head := older
		if s.isPaged() {
			if page = items[:min(len(items), max(2, s.window/2))]; len(page) < len(items) {
				head += nextPage(fmt.Sprintf("/page/%d", n))
			}
		}
		put(path, head, page)
		if items = items[len(page):]; len(items) == 0 {
			break
		}
		path = fmt.Sprintf("/page/%d", n)
	}
	s.docs = docs
}

// feedText is a document.
func feedText(head string, items []*feedItem) string {
	var b strings.Builder
	for _, it := range items {
		p := post{id: it.id, text: it.text, gone: it.gone}
		for _, f := range it.files {
			p.extra += enclosure(f)
		}
		if !it.at.IsZero() && !it.gone {
			p.extra += "<updated>" + it.at.UTC().Format(time.RFC3339) + "</updated>"
		}
		one := atom("", p)
		one = one[strings.Index(one, "</id>")+len("</id>\n") : strings.Index(one, "</feed>")]
		switch {
		case it.edit != nil && !it.flawed:
			one = it.edit.entry()
		case it.flawed:
			one = "<at:deleted-entry/>\n"
		case p.gone:
			one = strings.Replace(one, `when=""`, fmt.Sprintf("when=%q", it.at.UTC().Format(time.RFC3339)), 1)
		}
		b.WriteString(one)
	}
	all := strings.Replace(atom(head), "</feed>", b.String()+"</feed>", 1)
	return strings.Replace(all, "<feed ", `<feed xmlns:report="http://schemas.google.com/report/2010" xmlns:gs="http://schemas.google.com/spreadsheets/2006" `, 1)
}

// reach are the things that documents which answer show, and whether a run must look at that document each time: those
// of newest-first pages and of archives behind the first one may rest.
func (s *feedSource) reach() map[*feedItem]bool {
	out := map[*feedItem]bool{}
	for path, d := range s.docs {
		if s.missing[path] {
			continue
		}
		if n := 0; s.odd.Archives && strings.HasPrefix(path, "/archive/") { // behind one that is missing
			_, _ = fmt.Sscanf(path, "/archive/%d", &n)
			behind := false
			for i := n; i < len(s.archives); i++ {
				behind = behind || s.missing[archivePath(i)]
			}
			if behind {
				continue
			}
		}
		always := path == feedPath || strings.HasPrefix(path, "/page/") && (s.odd.Ascending || s.odd.Alphabetic || s.odd.Complete)
		for _, it := range d.items {
			out[it] = out[it] || always
		}
	}
	return out
}
