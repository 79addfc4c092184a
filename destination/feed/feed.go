// Package feed knows Atom and RSS documents and the records of Resource Finder: it reads their entries, cuts each one
// out as a document of its own, merges edits of records, and writes both. It refuses to know where a document came
// from, and which version of an entry wins.
package feed

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
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

type reader struct {
	p     *parser
	canon canonical
	head  *Head
	each  func(*Entry) error
	// linksOnly is set by Links, which leaves out everything else.
	linksOnly bool
	next      int   // ordinal of the next entry
	broken    int   // line of the entry that is being read, 0 for none
	stop      error // ends the reading, whatever may follow
	size      int   // bytes of the current entry, as read
}

// Read reads an Atom or RSS document, or a single entry, and calls each with its entries in document order; each may
// keep them. The root element decides on the format (S-65). An unreadable entry is skipped and counted in Head.
//
// Entries before an error were given. An error of each is returned as it is, one of body wrapped; no feed, an early end
// and more than Limits.Entries are an *Error. The Head is never nil and holds what was read of it.
func Read(body io.Reader, o Options, each func(*Entry) error) (*Head, error) {
	r := &reader{head: &Head{}, each: each}
	err := r.run(body, o)
	return r.head, err
}

// errEnough ends the reading for Links.
var errEnough = errors.New("all links were found")

// Links reads self and hubs of a feed itself, never of an entry (S-08): up to the first entry if all are there by then,
// else to the end. It forgives as Read does, and returns what was found before an error.
func Links(body io.Reader, o Options) (self string, hubs []string, err error) {
	r := &reader{head: &Head{}, linksOnly: true}
	if err = r.run(body, o); errors.Is(err, errEnough) {
		err = nil
	}
	return r.head.Self, r.head.Hubs, err
}

func (r *reader) run(body io.Reader, o Options) error {
	text, problem := decode(body, o.ContentType)
	r.p = newParser(newInput(text), o)
	if problem != "" {
		r.head.problem(1, problem)
	}
	base := o.Base
	if base != nil && base.User != nil { // a password must not be kept in entries (P10)
		plain := *base
		plain.User = nil
		base = &plain
	}
	e, err := r.p.root(inherited{base: base})
	if err != nil {
		return r.p.asError(err)
	}
	r.head.Kind = r.p.kind
	if r.isEntry(e) {
		if err := r.takeEntry(e); err != nil && r.stop == nil {
			return r.p.asError(err)
		}
		return r.stop
	}
	for len(r.p.stack) > 0 { // the rest behind the root is ignored
		depth := len(r.p.stack)
		if err := r.step(); err != nil {
			if err := r.skipToEntry(err, depth); err != nil {
				return err
			}
		}
	}
	return nil
}

// step takes the next part of the feed or its channel.
func (r *reader) step() error {
	t, err := r.p.feedToken()
	if err != nil {
		return err
	}
	switch t := t.(type) {
	case xml.EndElement:
		if d := r.p.matchingDepth(t); d > 0 {
			r.p.cut(d - 1)
		}
	case xml.StartElement:
		return r.start(t)
	}
	return nil
}

func (r *reader) start(t xml.StartElement) error {
	e, err := r.p.push(t)
	switch {
	case err != nil:
		if !r.resumesAt(false, strings.ToLower(t.Name.Local)) {
			return err
		}
		r.next++
		r.broken = r.p.line
		return err
	case r.isEntry(e):
		if r.next == r.p.limits.Entries {
			r.stop = &Error{r.p.line, r.p.offset, fmt.Sprintf("more than %d entries", r.p.limits.Entries)}
			return r.stop
		}
		return r.takeEntry(e)
	case r.p.kind == RSS && len(r.p.stack) == 2 && strings.EqualFold(e.local, "channel"):
		return nil
	}
	if err := r.p.tree(e, maxHeadElement, r.isEntry); err != nil {
		return err
	}
	if r.p.kind == Atom || len(r.p.stack) > 1 { // in RSS the channel's, not the root's
		r.element(e)
	}
	return nil
}

func (r *reader) takeEntry(n *node) error {
	if r.linksOnly && r.head.Self != "" && len(r.head.Hubs) > 0 {
		r.stop = errEnough
		return r.stop
	}
	line, offset, ordinal := r.p.line, r.p.offset, r.next
	r.next++
	r.broken = line
	if err := r.p.tree(n, r.p.limits.EntryBytes, r.isEntry); err != nil {
		return err
	}
	r.broken = 0
	if r.linksOnly {
		return nil
	}
	r.size = int(r.p.in.offset - offset)
	read := r.entry
	if strings.EqualFold(n.local, "deleted-entry") {
		read = r.tombstone
	}
	got, err := read(n)
	if err != nil {
		r.skip(line, err.Error())
		return nil
	}
	got.Ordinal = ordinal
	if source := n.child(atomVocabulary, "source"); source != nil {
		got.SourceID = source.childText(atomVocabulary, "id")
	}
	r.stop = r.each(got)
	return r.stop
}

// isEntry reports whether a child of the feed is an entry.
func (r *reader) isEntry(n *node) bool {
	switch strings.ToLower(n.local) {
	case "entry":
		return r.p.kind == Atom && n.vocabulary == atomVocabulary
	case "item":
		return r.p.kind == RSS && n.vocabulary == rssVocabulary
	case "deleted-entry":
		return n.vocabulary == tombstones
	}
	return false
}

const (
	maxHeadElement = 256 << 10 // bytes of an element of the feed itself; a larger one is ignored
	maxHubs        = 32
	maxText        = 2 << 10 // bytes of the feed's id
)

// element takes what an element of the feed itself says.
func (r *reader) element(n *node) {
	h := r.head
	switch name := strings.ToLower(n.local); n.vocabulary {
	case history:
		h.Archive = h.Archive || name == "archive"
		h.Complete = h.Complete || name == "complete"
	case atomVocabulary, rssVocabulary, dublinCore:
		switch name {
		case "link":
			r.link(n)
		case "id":
			if s := strings.TrimSpace(n.content()); h.ID == "" && len(s) <= maxText {
				h.ID = s
			}
		case "updated", "modified", "lastbuilddate", "pubdate", "date":
			if h.Updated.IsZero() {
				h.Updated = parseDate(n.content())
			}
		}
	}
}

// link takes a link of the feed itself (S-08): its topic, its hubs, and its neighbours by RFC 5005.
func (r *reader) link(n *node) {
	h := r.head
	href := strings.TrimSpace(n.attr("href"))
	if n.vocabulary != atomVocabulary || href == "" || len(href) > maxReference {
		return
	}
	href = n.at.resolve(href)
	for _, rel := range strings.Fields(n.attr("rel")) {
		rel = relation(rel)
		if rel == "hub" && len(h.Hubs) < maxHubs && !slices.Contains(h.Hubs, href) {
			h.Hubs = append(h.Hubs, href)
		}
		if to := h.single(rel); to != nil && *to == "" {
			*to = href
		}
	}
}

// single is where the link of a relation is kept of which a feed has one, nil for others.
func (h *Head) single(rel string) *string {
	return map[string]*string{
		"self": &h.Self, "first": &h.First, "last": &h.Last, "current": &h.Current, "next": &h.Next,
		"previous": &h.Previous, "prev": &h.Previous, "prev-archive": &h.PrevArchive, "next-archive": &h.NextArchive,
	}[rel]
}

func (h *Head) problem(line int, text string) {
	if len(h.Problems) < maxProblems {
		h.Problems = append(h.Problems, fmt.Sprintf("line %d: %s", line, text))
	}
}

// resume skips unreadable input up to a tag for which stop is true. The tag is read again. It returns false at the end
// of the document.
func (in *input) resume(stop func(end bool, local string) bool) bool {
	in.readLimit = 1<<63 - 1
	again := in.last == '<' // the decoder may have taken it without using it
	for {
		if !again {
			if b, err := in.ReadByte(); err != nil {
				return false
			} else if b != '<' {
				continue
			}
		}
		again = false
		tag := []byte{'<'}
		for len(tag) < 64 {
			b, err := in.ReadByte()
			if err != nil {
				return false
			}
			if b == '<' {
				again = true
				break
			}
			tag = append(tag, b)
			if strings.IndexByte("> \t\r\n/", b) < 0 || len(tag) == 2 {
				continue
			}
			name, end := strings.CutPrefix(string(tag[1:len(tag)-1]), "/")
			if _, local, ok := strings.Cut(name, ":"); ok {
				name = local
			}
			if stop(end, strings.ToLower(name)) {
				in.pending = append(tag, in.pending...)
				in.offset -= int64(len(tag))
				in.line -= bytes.Count(tag, []byte{'\n'})
				if in.state = inTag; tag[len(tag)-1] == '>' {
					in.state = inText
				}
				return true
			}
			break
		}
	}
}

func (r *reader) skip(line int, why string) {
	r.head.Skipped++
	r.head.problem(line, "an entry was skipped: "+why)
}

// skipToEntry goes on behind what cannot be read, at the next entry or the feed's end; it returns why that is
// impossible. depth is the depth of the feed's children.
func (r *reader) skipToEntry(err error, depth int) error {
	if r.stop != nil {
		return r.stop
	}
	fault := r.p.asError(err)
	var said *Error
	if !errors.As(fault, &said) || !r.p.in.resume(r.resumesAt) {
		if r.p.in.err != nil {
			return r.p.in.err
		}
		return fault
	}
	if r.broken > 0 {
		r.skip(r.broken, fmt.Sprintf("%s (line %d)", said.Problem, said.Line))
	} else {
		r.head.problem(said.Line, said.Problem)
	}
	r.broken = 0
	r.p.cut(depth)
	r.p.restart()
	return nil
}

// resumesAt recognises by local names the tags that can only be the feed's own. In a CDATA section that is a guess, but
// the alternative is to lose all that follows.
func (r *reader) resumesAt(end bool, local string) bool {
	switch local {
	case "entry", "deleted-entry":
		return !end && r.p.kind == Atom
	case "item":
		return !end && r.p.kind == RSS
	case "feed":
		return end && r.p.kind == Atom
	case "channel", "rss", "rdf":
		return end && r.p.kind == RSS
	}
	return false
}
