// Package destination knows how a Destination talks with the outside: it discovers what a Source offers, walks lists
// and indexes within bounds and remembers documents so that an unchanged one costs one 304. It refuses to know what is
// done with entries (sync) and how anything is stored (store).
package destination

import (
	"context"

	"resyncd/destination/rsdoc"
)

// Document is a small document read whole: a Source Description, a Capability List, an index, an archive. It can be
// remembered (JSON) and is then as good as re-read when the server answers 304.
type Document struct {
	URL   string // as asked for; the identity
	Final string // after redirects
	Head  rsdoc.Head
	// Entries of the document; bounded by Limits.SmallEntries.
	Entries []Ref
	// Skipped counts the entries that could not be used.
	Skipped int64 `json:",omitempty"`
	// Route is set only in what discovery remembers about a URL that it was asked about (see routeKey).
	Route []Hop `json:",omitempty"`
	Meta
}

// Hop is a document that a discovery ended at, and how it was found.
type Hop struct {
	Ref
	Shape rsdoc.Shape
	How   string
}

// Meta is what the answer said of the document itself.
type Meta struct {
	ETag, LastModified string
	Date               rsdoc.Micros // Date header of the answer, NoTime without
	NotModified        bool         // the answer was 304: all else is what was remembered
}

// Ref is one entry of a small document: where a list, part, package or channel is and what is said of it there.
type Ref struct {
	URL             string
	Kind            rsdoc.Kind
	LastMod         rsdoc.Micros
	At, From, Until rsdoc.Micros
	Length          int64 // -1 where absent
	Type            string
	HasMD           bool
	Links           []rsdoc.Link
}

// Memory remembers documents between runs, by Document.URL, which is opaque to it: discovery also remembers the way it
// took under a key that is no URL. Recall returns nil for an unknown one. It is called from one goroutine. What it got
// to remember it must not change, and what it recalls is not changed by the Reader.
type Memory interface {
	Recall(ctx context.Context, url string) (*Document, error)
	Remember(ctx context.Context, d *Document) error
}

// Offer is what a Source offers, and how each thing was found.
type Offer struct {
	Asked string // the URL that discovery began with
	// Description is the Source Description: the one that was read, or, where a Capability List was asked for, the one
	// that it names as up without our having read it. "" if there is none.
	Description string
	Sets        []SetOffer
	// Others are the Capability Lists of the Source that were not looked at because only some sets were wanted.
	Others []string
	// Partial: a part of the Source Description could not be read, so there may be more sets (F72).
	Partial bool
	Trail   []Step // everything asked, in order
}

// SetOffer is one set of resources: a Capability List, or a bare list that is a set by itself.
type SetOffer struct {
	// ID is the URL of the Capability List, bare list or topic.
	ID   string
	Bare bool // no Capability List: the set is just the list, or the topic, that was given
	// How it was found: given, well-known, link-header, html-link, robots, description, up. A topic: given, or html-link
	// where a page led to its feed.
	Found string
	// Err is why the set cannot be used: its Capability List could not be read or offers nothing. nil for a usable set.
	Err error
	// First of each kind; later ones of a kind are in Also (a Capability List has one per capability [9]).
	ResourceList, ChangeList        *Ref
	ResourceDump, ChangeDump        *Ref
	ResourceListArchive             *Ref
	ChangeListArchive               *Ref
	ResourceDumpArchive             *Ref
	ChangeDumpArchive               *Ref
	ChangeChannel, FrameworkChannel *Channel
	// Topic is there for a set that follows a feed or another topic instead of ResourceSync documents (websub.md 3.1).
	Topic       *Topic
	Also        []Ref // unknown or repeated capabilities
	DescribedBy string
}

// Channel is a WebSub topic with the hubs it names, preferred first [14.3].
type Channel struct {
	Kind  rsdoc.Kind
	Topic string
	Hubs  []string
}

// Step is one request of a discovery, for people.
type Step struct {
	URL    string
	How    string // given, well-known, link-header, html-link, robots, description, up, index; self and topic of topics
	Result string // kind found, or what was wrong
	OK     bool
}
