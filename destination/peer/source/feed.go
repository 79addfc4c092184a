package source

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"resyncd/destination/feed"
	"resyncd/destination/peer/source/faults"
	"resyncd/destination/rsdoc"
	"resyncd/destination/websub"
)

// webFeed has a current document with the newest entries, and archives of those before (RFC 5005). Entries are numbered
// from 1, oldest first.
type webFeed struct {
	s       *Source
	kind    rsdoc.Kind
	name    string // below the root
	archive string // prefix of their names
	title   string
	size    int // entries in a document
	faults  faults.Feed
	channel *channel
	history *history // the Source's lock guards it
}

// feedPage is one document of a feed: the entries after the from-th up to the to-th.
type feedPage struct {
	events     []event
	from, to   int
	prev, next int // archives, 0 for none
	newest     rsdoc.Micros
	changed    rsdoc.Micros // not known of an archive
}

// page lays out one document; false if there is no such archive. Entries of archives never change.
func (f *webFeed) page(archive int) (feedPage, bool) {
	f.s.mu.RLock()
	defer f.s.mu.RUnlock()
	h := f.history
	total := h.total()
	kept := func(n int) int { // n, or 0 where it is not full or partly forgotten
		if n < 1 || n > total/f.size || (n-1)*f.size < h.past || f.faults.NoArchive {
			return 0
		}
		return n
	}
	if archive > 0 {
		if kept(archive) == 0 {
			return feedPage{}, false
		}
		p := feedPage{from: (archive - 1) * f.size, to: archive * f.size, changed: rsdoc.NoTime}
		p.prev, p.next = kept(archive-1), kept(archive+1)
		p.events = h.span(p.from, p.to)
		p.newest = p.events[len(p.events)-1].at
		return p, true
	}
	p := feedPage{from: max(h.past, total-f.size), to: total, newest: h.newest, changed: h.changed}
	p.prev = kept((total - 1) / f.size)
	if n := f.faults.Limit; n > 0 {
		p.from = max(p.from, p.to-n)
	}
	p.events = h.span(p.from, p.to)
	return p, true
}

func (s *Source) feeds() []*webFeed {
	if s.recordFeed == nil {
		return []*webFeed{s.changeFeed}
	}
	return []*webFeed{s.changeFeed, s.recordFeed}
}

// FeedURL is the URI of the feed of changes.
func (s *Source) FeedURL() string { return s.changeFeed.url() }

func (f *webFeed) url() string { return f.s.at(f.name) }

// archiveURL is the URI of an archive, "" for 0. No other run of the program has it.
func (f *webFeed) archiveURL(n int) string {
	if n == 0 {
		return ""
	}
	return f.s.at(fmt.Sprintf("%s%s-%05d.atom", f.archive, stamp(f.s.begin), n))
}

// feedAt finds the feed and the archive of a name.
func (s *Source) feedAt(name string) (*webFeed, int) {
	for _, f := range s.feeds() {
		if name == f.name {
			return f, 0
		}
		rest, ok := strings.CutPrefix(name, f.archive)
		if n := numberIn(rest); ok && n > 0 && f.archiveURL(n) == s.at(name) {
			return f, n
		}
	}
	return nil, 0
}

// text is the current document or an archive. fetched: somebody reads it.
func (f *webFeed) text(archive int, fetched bool) (text, error) {
	if f.channel != nil && archive == 0 {
		f.channel.topic.current(fetched) // first: the page then has what the hub was notified of
	}
	p, ok := f.page(archive)
	if !ok {
		return text{}, errAbsent
	}
	out := f.blank(p.newest)
	out.Entries = f.s.feedEntries(p.events)
	out.PrevArchive, out.NextArchive = f.archiveURL(p.prev), f.archiveURL(p.next)
	links := ""
	switch {
	case archive > 0: // no topic
		out.Archive, out.Self, out.Current, out.Hubs = true, f.archiveURL(archive), f.url(), nil
	case f.faults.LinksInHeader():
		links = f.links()
	}
	body, err := f.write(out)
	return text{
		tag: fmt.Sprintf("f%d.%d.%d.%d", p.from, p.to, p.prev, p.next), modified: p.changed,
		mediaType: f.faults.MediaType(), body: body, links: links,
	}, err
}

// links is the Link header of the feed (P-01).
func (f *webFeed) links() string {
	if f.channel == nil {
		return websub.LinkHeader("", f.url())
	}
	return f.channel.links()
}

// newEntries is what the hub gets: the feed with the new entries alone (S-66).
func (f *webFeed) newEntries(b batch) ([]byte, error) {
	out := f.blank(b.events[len(b.events)-1].at)
	out.Entries = f.s.feedEntries(b.events)
	return f.write(out)
}

func (f *webFeed) blank(updated rsdoc.Micros) *feed.Document {
	d := &feed.Document{ID: f.url(), Title: f.title, Self: f.url(), Updated: updated.Time()}
	if f.channel != nil {
		d.Hubs = []string{f.channel.hub.url}
	}
	f.faults.Head(d)
	return d
}

func (f *webFeed) write(d *feed.Document) ([]byte, error) {
	var body bytes.Buffer
	if err := f.faults.Write(&body, d, f.s.at("")); err != nil {
		return nil, fmt.Errorf("write a document of %s: %w", f.name, err)
	}
	return body.Bytes(), nil
}

// openFeeds makes the feed of changes, which reaches back as far as the Change Lists, and the record feed if there is
// one, whose first edits are not pushed.
func (s *Source) openFeeds() error {
	s.changeFeed = &webFeed{
		s: s, kind: changeFeedKind, name: changeFeed, archive: changeFeedArchive, title: "Changes at " + s.host,
		size: cmp.Or(s.options.FeedEntries, DefaultFeedEntries), faults: s.options.Faults.OfChanges(),
		history: s.journal.history,
	}
	if s.options.Records == "" {
		return nil
	}
	s.recordFeed = &webFeed{
		s: s, kind: recordFeedKind, name: recordFeed, archive: recordFeedArchive,
		title: "Edits of records at " + s.host, faults: s.options.Faults.OfRecords(),
		size:    cmp.Or(s.options.FeedEntries, DefaultRecordEntries),
		history: newHistory(s.begin),
	}
	s.records = &records{s: s, known: map[[32]byte]int{}}
	if err := s.records.scan(); err != nil {
		return fmt.Errorf("%w: %w", ErrRecords, err)
	}
	return nil
}

// feedEntries writes events, newest first.
func (s *Source) feedEntries(events []event) []feed.NewEntry {
	out := make([]feed.NewEntry, 0, len(events))
	for _, e := range slices.Backward(events) {
		if e.edit != nil {
			out = append(out, feed.NewEntry{Edit: e.edit})
		} else {
			out = append(out, s.changeEntry(&e))
		}
	}
	return out
}

// changeEntry writes a change. The entry's id is the URI of the resource, so that a reader who merges by id and time
// has the state of the set (T-04); a deletion is a tombstone (RFC 6721).
func (s *Source) changeEntry(c *event) feed.NewEntry {
	name := c.name
	uri := s.URI(name)
	e := feed.NewEntry{ID: uri, Updated: c.at.Time()}
	if c.kind == rsdoc.ChangeDeleted {
		e.Deleted = true
		return e
	}
	if s.changeFeed.faults.Undated {
		e.Updated = time.Time{}
	}
	mediaType := s.mediaType(name)
	e.Title, e.Author = readable(name), s.host
	e.Summary = fmt.Sprintf("%s, %d bytes, sha-256:%x", c.kind, c.length, c.sum)
	e.Links = []feed.Link{
		{Rel: "alternate", Href: uri, Type: mediaType, Length: c.length},
		{Rel: "enclosure", Href: uri, Type: mediaType, Length: c.length},
	}
	return e
}

// readable is a name for people.
func readable(name string) string {
	if utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return name
	}
	return escapeName(name)
}
