// Package feed knows Atom and RSS documents and the records of Resource Finder: it reads their entries, cuts each one
// out as a document of its own, merges edits of records, and writes both. It refuses to know where a document came
// from, and which version of an entry wins.
package feed

import (
	"errors"
	"fmt"
	"net/url"
	"time"
)

// Kind is the format of a topic's document.
type Kind string

// The kinds. None is no feed.
const (
	None Kind = ""
	Atom Kind = "atom"
	RSS  Kind = "rss" // 0.9x, 1.0 and 2.0
)

// Options configure the reading of a document.
type Options struct {
	// Base is the document's URL, for relative links; may be nil.
	Base *url.URL
	// ContentType of the answer. Only its charset counts, as RFC 7303 has it.
	ContentType string
	Limits      Limits
}

// Limits bound one document (P8); zero fields are the defaults.
type Limits struct {
	Entries    int // default 100,000
	EntryBytes int // default 4 MiB, as written
	Depth      int // default 200
}

// Head is the feed's own data; complete once Read returned.
type Head struct {
	Kind    Kind
	ID      string
	Updated time.Time // zero: not given
	Self    string    // feed-level links only (S-08)
	Hubs    []string
	// Paging and archiving (RFC 5005), resolved; "" without.
	Previous, Next, First, Last, Current, PrevArchive, NextArchive string
	Archive, Complete                                              bool
	// Skipped counts unreadable entries; Problems describes the first few for people, with their position.
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
	// Key identifies the entry: atom:id, guid, link, else "sha-256:" and its digest; KeyFrom names which (id, guid,
	// link, digest). A key of more than 2,000 bytes is replaced by "sha-256:" and its digest.
	Key, KeyFrom string
	// Deleted says that it is a tombstone (RFC 6721); Updated is then the time of the deletion.
	Deleted bool
	// Updated is the time of the last change, Published of publication; zero if not given. An item with only a
	// publication date has that as Updated.
	Updated, Published time.Time
	Title, Author      string
	// SourceID is the atom:source's id (aggregated feeds), "" without.
	SourceID string
	Links    []Link
	// XML is the entry as a document of its own: UTF-8, with the namespaces that it uses and the inherited xml:base and
	// xml:lang. Equal entries of differently written documents are equal bytes as far as possible. nil for a tombstone.
	XML []byte
	// Edit is set for a record's edit (T-03). Key is that of the edit, not of the record.
	Edit *Edit
	// Ordinal is its position in the document, from 0.
	Ordinal int
}

// Edit is one edit of a record (websub.md T-03).
type Edit struct {
	Subject  string    `json:"subject"`
	Author   string    `json:"author,omitempty"`  // tel: or mailto: URL, "" without
	Observed time.Time `json:"observed,omitzero"` // UTC; zero if unusable, which counts as the oldest
	Type     string    `json:"type,omitempty"`    // of report:content
	Fields   []Field   `json:"fields"`            // by name, each once
	// Odd lists deviations from the documentation (an unknown enumeration value, text instead of a number …). Nothing
	// is dropped for it.
	Odd []string `json:"odd,omitempty"`
}

// Field is a field that an edit names. An empty value erases it.
type Field struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Error is why a document was refused, or why reading stopped. Failures of the underlying reader (network, disk) are no
// Errors; they come wrapped, for errors.Is and errors.As.
type Error struct {
	Line    int   // from 1
	Offset  int64 // in bytes of its UTF-8 form, from its first '<' on
	Problem string
}

func (e *Error) Error() string {
	return fmt.Sprintf("refused feed at line %d: %s", e.Line, e.Problem)
}

// errLimit is the decoder's read error where a token or an entry is larger than its limit.
var errLimit = errors.New("larger than allowed")

// entryError is why one entry was skipped; the document goes on.
type entryError string

func (e entryError) Error() string { return string(e) }

// quote shortens foreign text for a message, so that no peer decides its length.
func quote(s string) string {
	const most = 80
	if len(s) > most {
		return fmt.Sprintf("%q…", s[:most])
	}
	return fmt.Sprintf("%q", s)
}
