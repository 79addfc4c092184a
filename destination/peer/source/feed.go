package source

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"resyncd/destination/feed"
	"resyncd/destination/peer/source/faults"
	"resyncd/destination/rsdoc"
	"resyncd/destination/websub"
)

// webFeed is a feed of what has happened: a current document with the newest entries, and archives of those before
// (RFC 5005). Entries are numbered from 1, oldest first, and never renumbered.
type webFeed struct {
	s       *Source
	kind    rsdoc.Kind
	name    string // of the current document and of the topic, below the root
	archive string // before the names of the archives
	title   string
	size    int // entries in a document
	faults  faults.Feed
	// channel notifies the hub of what is new; nil without one.
	channel *channel
	// extent tells how far the entries reach, and span returns those after the from-th up to the to-th. Both are called
	// with the Source locked.
	extent func() extent
	span   func(from, to int) batch
}

// extent is how far the entries of a feed reach.
type extent struct {
	total int // that there have ever been
	past  int // of the oldest, that are forgotten
	// newest is the instant of the newest entry, and when the Source began where there is none; changed is when the
	// current document became what it is.
	newest, changed rsdoc.Micros
}

// feedPage is one document of a feed at one instant. It holds the entries after the from-th up to the to-th.
type feedPage struct {
	batch
	archive    int // its number, from 1; 0 for the current document
	from, to   int
	prev, next int          // archives, 0 for none
	newest     rsdoc.Micros // its newest entry; of a feed without any, when the Source began
	changed    rsdoc.Micros // not known of an archive, whose links come and go
}

// page lays out one document as it is now; false if there is no such archive. The entries of an archive never change; a
// link goes or comes with the archive beside it.
func (f *webFeed) page(archive int) (feedPage, bool) {
	f.s.mu.RLock()
	defer f.s.mu.RUnlock()
	e := f.extent()
	kept := func(n int) int { // n, or 0 where there is no such archive: full, and nothing of it forgotten
		if n < 1 || n > e.total/f.size || (n-1)*f.size < e.past || f.faults.NoArchive {
			return 0
		}
		return n
	}
	if archive > 0 {
		if kept(archive) == 0 {
			return feedPage{}, false
		}
		p := feedPage{archive: archive, from: (archive - 1) * f.size, to: archive * f.size, changed: rsdoc.NoTime}
		p.prev, p.next = kept(archive-1), kept(archive+1)
		p.batch = f.span(p.from, p.to)
		p.newest = p.end()
		return p, true
	}
	p := feedPage{from: max(e.past, e.total-f.size), to: e.total, newest: e.newest, changed: e.changed}
	p.prev = kept((e.total - 1) / f.size) // ends where this document begins, or later
	if n := f.faults.Limit; n > 0 {
		p.from = max(p.from, p.to-n)
	}
	p.batch = f.span(p.from, p.to)
	return p, true
}

// feeds lists the feeds that there are.
func (s *Source) feeds() []*webFeed {
	if s.recordFeed == nil {
		return []*webFeed{s.changeFeed}
	}
	return []*webFeed{s.changeFeed, s.recordFeed}
}

// FeedURL is the URI of the feed of changes.
func (s *Source) FeedURL() string { return s.changeFeed.url() }

// RecordsURL is the URI of the record feed; "" where there is none.
func (s *Source) RecordsURL() string {
	if s.recordFeed == nil {
		return ""
	}
	return s.recordFeed.url()
}

func (f *webFeed) url() string { return f.s.at(f.name) }

// archiveURL is the URI of an archive, "" for 0. It names the run of the program, whose history no other one has.
func (f *webFeed) archiveURL(n int) string {
	if n == 0 {
		return ""
	}
	return f.s.at(fmt.Sprintf("%s%s-%05d.atom", f.archive, stamp(f.s.begin), n))
}

// feedAt finds the feed of which a name is a document, and the number of its archive; nil if it is none.
func (s *Source) feedAt(name string) (*webFeed, int) {
	for _, f := range s.feeds() {
		if name == f.name {
			return f, 0
		}
		rest, ok := strings.CutPrefix(name, f.archive)
		if !ok {
			continue
		}
		_, digits, _ := strings.Cut(strings.TrimSuffix(rest, ".atom"), "-")
		if n, err := strconv.Atoi(digits); err == nil && n > 0 && f.archiveURL(n) == s.at(name) {
			return f, n
		}
	}
	return nil, 0
}

// text is the current document, which is a topic where there is a hub, or an archive. fetched: somebody reads it.
func (f *webFeed) text(archive int, fetched bool) (text, error) {
	if f.channel != nil && archive == 0 {
		f.channel.topic.current(fetched) // before the page is laid out, which then has what the hub was told of
	}
	p, ok := f.page(archive)
	if !ok {
		return text{}, errAbsent
	}
	out := f.blank(p.newest)
	out.Entries = f.s.feedEntries(&p.batch)
	out.PrevArchive, out.NextArchive = f.archiveURL(p.prev), f.archiveURL(p.next)
	links := ""
	switch {
	case archive > 0: // no topic: it names no hub
		out.Archive, out.Self, out.Current, out.Hubs = true, f.archiveURL(archive), f.url(), nil
	case f.faults.LinksInHeader():
		links = f.links()
	}
	body, err := f.write(out)
	return text{
		tag: fmt.Sprintf("f%d.%d.%d.%d", p.from, p.to, p.prev, p.next), modified: p.changed,
		mediaType: f.faults.MediaType(), topic: true, body: body, links: links,
	}, err
}

// links is the Link header of the feed, the same as what is in it (P-01).
func (f *webFeed) links() string {
	if f.channel == nil {
		return websub.LinkHeader("", f.url())
	}
	return f.channel.links()
}

// newEntries writes what the hub is told of a batch: the feed with the new entries alone (S-66).
func (f *webFeed) newEntries(b batch) ([]byte, error) {
	out := f.blank(b.end())
	out.Entries = f.s.feedEntries(&b)
	return f.write(out)
}

// blank is a document of the feed with neither entries nor archives.
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
