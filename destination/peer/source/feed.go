package source

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"resyncd/destination/feed"
	"resyncd/destination/peer/source/faults"
	"resyncd/destination/rsdoc"
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
	// channel tells the hub of what is new; nil without one.
	channel *channel
	// extent tells how far the entries reach, and span returns those after the from-th up to the to-th. Both are called
	// with the Source locked.
	extent func() extent
	span   func(from, to int) chunk
}

// extent is how far the entries of a feed reach.
type extent struct {
	total int // that there have ever been
	past  int // of the oldest, that are forgotten
	// newest is the instant of the newest entry, and when the Source began where there is none; changed is when the
	// current document became what it is.
	newest, changed rsdoc.Micros
}

// leaf is what one document of a feed holds: the entries after the from-th up to the to-th.
type leaf struct {
	archive    int // its number, from 1; 0 for the current document
	from, to   int
	prev, next int // archives, 0 for none
}

// layout is how the entries of a feed are laid out over documents.
type layout struct {
	extent
	size int
}

// kept tells whether there is an archive of this number: full, and nothing of it forgotten.
func (l layout) kept(archive int) bool {
	return archive >= 1 && archive <= l.total/l.size && (archive-1)*l.size >= l.past
}

// linked is an archive to link to, or 0.
func (l layout) linked(archive int) int {
	if !l.kept(archive) {
		return 0
	}
	return archive
}

// current lays out the current document. The archive that it leads back to ends where the document begins, or later.
func (l layout) current() leaf {
	return leaf{from: max(l.past, l.total-l.size), to: l.total, prev: l.linked((l.total - 1) / l.size)}
}

// archived lays out an archive. Its entries never change; a link goes or comes with the archive beside it.
func (l layout) archived(n int) (leaf, bool) {
	return leaf{archive: n, from: (n - 1) * l.size, to: n * l.size, prev: l.linked(n - 1), next: l.linked(n + 1)}, l.kept(n)
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

// edition is one document of a feed at one instant.
type edition struct {
	leaf
	chunk
	newest  rsdoc.Micros // its newest entry; of a feed without any, when the Source began
	changed rsdoc.Micros // when it became what it is; not known of an archive, whose links come and go
}

// look takes one document as it is now; false if there is no such archive.
func (f *webFeed) look(archive int) (edition, bool) {
	f.s.mu.RLock()
	defer f.s.mu.RUnlock()
	all := layout{f.extent(), f.size}
	p, ok := all.current(), true
	if archive > 0 {
		p, ok = all.archived(archive)
	}
	if p, ok = f.spoiled(p, ok); !ok {
		return edition{}, false
	}
	d := edition{leaf: p, chunk: f.span(p.from, p.to), newest: all.newest, changed: all.changed}
	if archive > 0 {
		d.newest, d.changed = d.end(), rsdoc.NoTime
	}
	return d, true
}

// document writes one document of the feed.
func (f *webFeed) document(d edition) ([]byte, error) {
	out := f.blank(d.newest)
	out.Entries = f.s.feedEntries(&d.chunk)
	out.PrevArchive, out.NextArchive = f.archiveURL(d.prev), f.archiveURL(d.next)
	if d.archive > 0 { // no topic: it names no hub
		out.Archive, out.Self, out.Current, out.Hubs = true, f.archiveURL(d.archive), f.url(), nil
	}
	return f.write(out)
}

// news writes what is told of a batch: the feed with the new entries alone (S-66).
func (f *webFeed) news(b batch) ([]byte, error) {
	out := f.blank(b.end())
	out.Entries = f.s.feedEntries(&b.chunk)
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
	if err := f.faults.Write(&body, d, f.s.options.Base+"/"); err != nil {
		return nil, fmt.Errorf("write a document of %s: %w", f.name, err)
	}
	return body.Bytes(), nil
}
