// Package feed knows Atom and RSS documents and the records of Resource Finder: it reads their entries, cuts each one out
// as a document of its own, merges edits of records, and writes Atom. It refuses to know where a document came from, and
// which version of an entry wins.
package feed

import (
	"net/url"
	"time"
)

// Kind is the format of a topic's document.
type Kind string

// The kinds. None: no feed.
const (
	None Kind = ""
	Atom Kind = "atom"
	RSS  Kind = "rss" // 0.9x, 1.0 and 2.0
)

// Options say how a document is read.
type Options struct {
	// Base is where it came from, for relative links; may be nil.
	Base *url.URL
	// ContentType of the answer: only its charset counts, and only as RFC 7303 has it.
	ContentType string
	Limits      Limits
}

// Limits bound one document (P8); zero fields are the defaults.
type Limits struct {
	Entries    int // default 100,000
	EntryBytes int // default 4 MiB, as written
	Depth      int // default 200
}

// Head is what a document says of itself; complete once Read returned.
type Head struct {
	Kind      Kind
	ID, Title string
	Updated   time.Time // zero: it does not say
	Self      string    // feed-level links only (S-08)
	Hubs      []string
	// Paging and archiving (RFC 5005), resolved; "" without.
	Previous, Next, First, Last, Current, PrevArchive, NextArchive string
	Archive, Complete                                              bool
	// Skipped counts entries that could not be read; Problems tells the first few for people, with their place.
	Skipped  int
	Problems []string
}

// Link is a link of an entry. Length is -1 where absent or no number.
type Link struct {
	Rel    string `json:"rel"`
	Href   string `json:"href"` // resolved
	Type   string `json:"type,omitempty"`
	Length int64  `json:"length,omitempty"`
}

// Entry is one entry, item or at:deleted-entry.
type Entry struct {
	// Key is what identifies it: atom:id, guid, link, else "sha-256:" and a digest of it; KeyFrom names which (id, guid,
	// link, digest). What has more than 2,000 bytes is stood for by "sha-256:" and its own digest.
	Key, KeyFrom string
	// Deleted: it is a tombstone (RFC 6721); Updated is when the entry was deleted then.
	Deleted bool
	// Updated is when it changed last, Published when it appeared; zero where it does not say. Updated of an item that has
	// only a publication date is that.
	Updated, Published time.Time
	Title, Author      string
	// SourceID is the atom:source's id (aggregated feeds), "" without.
	SourceID string
	Links    []Link
	// XML is the entry as a document of its own: UTF-8, with the namespaces that it uses, xml:base and xml:lang in force.
	// Equal entries of differently written documents are equal bytes as far as possible. nil for a tombstone.
	XML []byte
	// Edit is there for a record's edit (T-03), whose Key is that of the edit, not of the record.
	Edit *Edit
	// Ordinal is its place in the document, from 0.
	Ordinal int
}

// Edit is one edit of a record (websub.md T-03).
type Edit struct {
	Subject  string
	Author   string    // tel: or mailto: URL, "" without
	Observed time.Time // UTC; zero where it says nothing usable, which is older than everything
	Type     string    // of report:content
	Fields   []Field   // by name, each once
	// Odd tells what is not as the documentation has it (an unknown enumeration value, text where a number should be …).
	// Nothing is dropped for it.
	Odd []string
}

// Field is a field that an edit names: present and empty erases.
type Field struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}
