package source

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"resyncd/destination/feed"
	"resyncd/destination/rsdoc"
)

// openChangeFeed makes the feed of changes, which reaches back as far as the Change Lists.
func (s *Source) openChangeFeed() {
	s.changeFeed = &webFeed{
		s: s, kind: changeFeedKind, name: changeFeed, archive: changeFeedArchive, title: "Changes at " + s.host,
		size: cmp.Or(s.options.FeedEntries, DefaultFeedEntries), faults: s.options.Faults.OfChanges(),
		extent: func() extent {
			j := s.journal
			return extent{total: int(s.serial), past: j.past, newest: j.newest, changed: max(j.newest, j.open().from)}
		},
		span: func(from, to int) batch { return batch{changes: s.journal.span(from, to)} },
	}
}

// feedEntries writes a batch, newest first.
func (s *Source) feedEntries(b *batch) []feed.NewEntry {
	out := make([]feed.NewEntry, 0, b.len())
	for _, e := range slices.Backward(b.edits) {
		out = append(out, feed.NewEntry{Edit: e.Edit})
	}
	for i := range slices.Backward(b.changes) {
		out = append(out, s.changeEntry(&b.changes[i]))
	}
	return out
}

// changeEntry writes a change. The entry's id is the URI of the resource, so that a reader who merges by id and time
// has the state of the set (T-04); a deletion is a tombstone (RFC 6721).
func (s *Source) changeEntry(c *change) feed.NewEntry {
	name := s.catalog.name(c.slot, &c.record)
	uri := s.URI(name)
	e := feed.NewEntry{ID: uri, Updated: c.at.Time()}
	if c.kind == rsdoc.ChangeDeleted {
		e.Deleted = true
		return e
	}
	e.Updated = s.changeFeed.faults.Date(e.Updated)
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
