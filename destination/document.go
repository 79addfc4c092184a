package destination

import (
	"context"

	"resyncd/destination/rsdoc"
)

// Document is a small document read whole. It can be remembered (JSON) and then serves again when the server answers
// 304.
type Document struct {
	URL  string // as requested; the identity
	Head rsdoc.Head
	// Entries of the document, bounded.
	Entries []Ref
	Skipped int64 `json:",omitempty"`
	// Route is set only in what discovery remembers (see routeKey).
	Route []Hop `json:",omitempty"`
	Meta
}

// Hop is a document at which a discovery ended, and how it was found.
type Hop struct {
	Ref
	Shape rsdoc.Shape
	How   string
}

// Meta is the metadata of an answer.
type Meta struct {
	ETag, LastModified string
	Date               rsdoc.Micros // Date header, NoTime without
	NotModified        bool         // the answer was 304: all else was remembered
}

// Ref is one entry of a small document.
type Ref struct {
	URL             string
	Kind            rsdoc.Kind
	LastMod         rsdoc.Micros
	At, From, Until rsdoc.Micros
	Length          int64 // -1 where absent
	Type            string
	Links           []rsdoc.Link
}

// Memory remembers documents between runs, by Document.URL, an opaque key. Recall returns nil for an unknown one.
// Memory is called from one goroutine, and neither side changes a document that was passed.
type Memory interface {
	Recall(ctx context.Context, url string) (*Document, error)
	Remember(ctx context.Context, d *Document) error
}

// Offer is what a Source offers, and how each set was found.
type Offer struct {
	Asked string // the URL that discovery began with
	// Description is the Source Description that was read, or the one that a Capability List names.
	Description string
	Sets        []SetOffer
	// Others are the Capability Lists that were not wanted.
	Others []string
	// Partial says that a part of the Source Description could not be read (F72).
	Partial bool
	Trail   []Step // every request, in order
}

// SetOffer is one set: a Capability List, or a bare list that is its own set.
type SetOffer struct {
	// ID is the URL of the Capability List, bare list or topic.
	ID   string
	Bare bool // no Capability List: just the given list or topic
	// Found is given, well-known, link-header, html-link, robots, description or up.
	Found string
	// Err is why the set cannot be used, nil for a usable one.
	Err error
	// The first of each kind; later ones are in Also.
	ResourceList, ChangeList        *Ref
	ResourceDump, ChangeDump        *Ref
	ResourceListArchive             *Ref
	ChangeListArchive               *Ref
	ResourceDumpArchive             *Ref
	ChangeDumpArchive               *Ref
	ChangeChannel, FrameworkChannel *Channel
	// Topic is set for a set that follows a feed or another topic instead (websub.md 3.1).
	Topic       *Topic
	Also        []Ref // unknown or repeated capabilities
	DescribedBy string
}

// Channel is a WebSub topic with its hubs, preferred first [14.3].
type Channel struct {
	Kind  rsdoc.Kind
	Topic string
	Hubs  []string
}

// Step is one request of a discovery, shown to people.
type Step struct {
	URL    string `json:"url"`
	How    string `json:"how"` // as SetOffer.Found, or index, self, topic
	Result string `json:"result"`
	OK     bool   `json:"ok"`
}
