package source

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
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

// newFeedChannel makes the channel of a feed. Its topic only keeps whether the feed was fetched.
func newFeedChannel(f *webFeed, h *hub) *channel {
	c := newChannel(f.s, h, f.kind, f.name, f.history)
	c.mediaType, c.related = f.faults.MediaType(), nil
	c.render = f.newEntries
	if f.kind == changeFeedKind {
		c.every = max(c.every, feedLag)
	}
	if h.traditional {
		c.render = func(b batch) ([]byte, error) {
			return c.topic.show(func(bool) ([]byte, rsdoc.Micros, error) { return nil, b.until, nil })
		}
	}
	return c
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

// ErrRecords is in the error of New where the file of records cannot be read.
var ErrRecords = errors.New("records not readable")

// records are the edits of the record feed. Published edits stay: to take one away would undo nothing where it was read
// (T-04).
type records struct {
	s *Source

	// scanning lets one scan work at a time, and guards what follows.
	scanning sync.Mutex
	known    map[[32]byte]int // how often each edit was published
	sig      signature        // of the file when it was last read
	bad      error
}

// publish puts edits into the feed, then has the hub notified (P-05).
func (r *records) publish(edits []*feed.Edit) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	for _, e := range edits {
		r.s.recordFeed.history.add(event{at: r.s.clock.tick(), edit: e})
	}
}

// maxRecords bounds a file of edits, which are held in memory (P8).
const maxRecords = 1_000_000

// settled is scan without the failures of a young file, which may be half written.
func (r *records) settled() error {
	err := r.scan()
	r.scanning.Lock()
	defer r.scanning.Unlock()
	if r.sig.young {
		return nil
	}
	return err
}

// scan reads the file if it looks different, and publishes the edits that are new in it.
func (r *records) scan() error {
	r.scanning.Lock()
	defer r.scanning.Unlock()
	path := r.s.options.Records
	info, err := os.Stat(path)
	if err != nil {
		r.sig, r.bad = signature{}, err
		return err
	}
	// In a young file, one more write might not show.
	sig := signatureOf(info)
	if sig.same(r.sig) && !r.sig.young {
		return r.bad
	}
	edits, err := readRecords(path)
	r.sig, r.bad = sig, err
	if err != nil {
		return err
	}
	fresh := r.fresh(edits)
	r.publish(fresh)
	if i := slices.IndexFunc(fresh, func(e *feed.Edit) bool { return len(e.Odd) > 0 }); i >= 0 {
		r.s.options.Logger.Warn("odd edits of records are published as they are",
			"first", fresh[i].Subject+": "+fresh[i].Odd[0])
	}
	return nil
}

// fresh returns the edits that the file has more often than they were published.
func (r *records) fresh(edits []*feed.Edit) []*feed.Edit {
	var fresh []*feed.Edit
	found := make(map[[32]byte]int, len(edits))
	for _, e := range edits {
		digest := e.Digest()
		found[digest]++
		if found[digest] > r.known[digest] {
			r.known[digest]++
			fresh = append(fresh, e)
		}
	}
	return fresh
}

// readRecords reads a file of edits. One with an error is refused as a whole: it may still be being written.
func readRecords(path string) ([]*feed.Edit, error) {
	// Never wait for the writer of a pipe.
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("%s: not a regular file", path), err)
	}
	edits, err := parseRecords(file)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return edits, nil
}

// wellFormed is strict where the reader of feeds forgives: this file is our own.
func wellFormed(r io.Reader) error {
	d := xml.NewDecoder(bufio.NewReader(r))
	d.CharsetReader = func(name string, _ io.Reader) (io.Reader, error) {
		return nil, fmt.Errorf("encoding %q: want UTF-8", name)
	}
	var root struct{}
	if err := d.Decode(&root); err != nil {
		return err
	}
	for {
		token, err := d.Token()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		text, isText := token.(xml.CharData)
		_, isElement := token.(xml.StartElement)
		if isElement || isText && len(bytes.TrimSpace(text)) > 0 {
			line, _ := d.InputPos()
			return fmt.Errorf("line %d: more after the end of the feed", line)
		}
	}
}

func parseRecords(r io.ReadSeeker) ([]*feed.Edit, error) {
	if err := wellFormed(r); err != nil {
		return nil, err
	}
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	var edits []*feed.Edit
	other := 0 // the first entry that is none, from 1
	head, err := feed.Read(r, feed.Options{Limits: feed.Limits{Entries: maxRecords}}, func(e *feed.Entry) error {
		switch {
		case e.Edit != nil:
			edits = append(edits, e.Edit)
		case other == 0:
			other = e.Ordinal + 1
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case head.Kind != feed.Atom:
		return nil, errors.New("not an Atom feed")
	case other > 0:
		return nil, fmt.Errorf("entry %d is no edit of a record: it has no report:subject", other)
	case head.Skipped > 0:
		first := "" // Problems may be cut short, even to none
		if len(head.Problems) > 0 {
			first = ": " + head.Problems[0]
		}
		return nil, fmt.Errorf("%d entries are not readable%s", head.Skipped, first)
	}
	return edits, nil
}
