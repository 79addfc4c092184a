package feed

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Document is a feed to be written. Empty strings and zero times are left out.
type Document struct {
	ID, Title, Self string
	Hubs            []string
	Updated         time.Time
	// Paging and archiving (RFC 5005).
	Current, PrevArchive, NextArchive string
	// Archive says that the document never changes again.
	Archive bool
	Entries []NewEntry
}

// NewEntry is an entry to be written.
type NewEntry struct {
	ID, Title, Author string
	Updated           time.Time
	Links             []Link // a Length of 0 or less is left out
	Summary           string
	// Deleted makes it an at:deleted-entry of ID (RFC 6721), deleted at Updated.
	Deleted bool
	// Edit makes it an edit of a record (T-03), with the edit's author only.
	Edit *Edit
}

// Write writes an Atom 1.0 document (RFC 4287) that Read reads back. Characters that XML does not allow become U+FFFD.
// Missing required elements are left out, because a record's edits have none (T-03).
func Write(w io.Writer, d *Document) error {
	x := &writer{w: bufio.NewWriter(w)}
	x.raw(xmlDeclaration)
	x.raw(`<feed xmlns="` + nsAtom + `"`)
	deleted, edits := false, false
	for _, e := range d.Entries {
		deleted = deleted || e.Deleted
		edits = edits || e.Edit != nil
	}
	x.declare(d.Archive, "fh", nsFH)
	x.declare(deleted, "at", nsTomb)
	x.declare(edits, "report", nsReport)
	x.declare(edits, "gs", nsSheet)
	x.raw(">\n")
	x.text("  ", "id", d.ID)
	x.text("  ", "title", d.Title)
	x.time("  ", "updated", d.Updated)
	if d.Archive {
		x.raw("  <fh:archive/>\n")
	}
	x.relation("self", d.Self)
	for _, hub := range d.Hubs {
		x.relation("hub", hub)
	}
	for _, l := range []struct{ rel, href string }{
		{"current", d.Current}, {"prev-archive", d.PrevArchive}, {"next-archive", d.NextArchive},
	} {
		x.relation(l.rel, l.href)
	}
	for i := range d.Entries {
		x.entry(&d.Entries[i])
	}
	x.raw("</feed>\n")
	if err := x.w.Flush(); err != nil {
		return fmt.Errorf("write a feed: %w", err)
	}
	return nil
}

func (x *writer) entry(e *NewEntry) {
	if e.Deleted {
		x.raw("  <at:deleted-entry")
		x.attr("ref", e.ID)
		if !e.Updated.IsZero() {
			x.attr("when", stamp(e.Updated))
		}
		x.raw("/>\n")
		return
	}
	x.raw("  <entry>\n")
	author, uri := e.Author, ""
	if e.Edit != nil {
		author, uri = "", e.Edit.Author
	}
	if author != "" || uri != "" {
		x.raw("    <author>\n")
		x.text("      ", "name", author)
		x.text("      ", "uri", uri)
		x.raw("    </author>\n")
	}
	x.text("    ", "id", e.ID)
	x.text("    ", "title", e.Title)
	x.time("    ", "updated", e.Updated)
	for _, l := range e.Links {
		x.link("    ", l)
	}
	x.text("    ", "summary", e.Summary)
	if e.Edit != nil {
		x.writeEdit(e.Edit)
	}
	x.raw("  </entry>\n")
}

// writeEdit writes an edit's elements in the form of the documented sample.
func (x *writer) writeEdit(e *Edit) {
	x.text("    ", "report:subject", e.Subject)
	x.time("    ", "report:observed", e.Observed)
	x.raw("    <report:content")
	if e.Type != "" {
		x.attr("type", e.Type)
	}
	x.raw(">\n      <report:row>\n")
	for _, f := range e.Fields {
		x.raw("        <gs:field")
		x.attr("name", f.Name)
		x.raw(">")
		x.escaped(f.Value, false)
		x.raw("</gs:field>\n")
	}
	x.raw("      </report:row>\n    </report:content>\n")
}

// writer writes markup; its bufio.Writer keeps the first error for the end.
type writer struct {
	w   *bufio.Writer
	buf bytes.Buffer
}

func (x *writer) declare(used bool, prefix, uri string) {
	if used {
		x.attr("xmlns:"+prefix, uri)
	}
}

func (x *writer) relation(rel, href string) {
	if href != "" {
		x.link("  ", Link{Rel: rel, Href: href})
	}
}

func (x *writer) link(indent string, l Link) {
	x.raw(indent + "<link")
	if l.Rel != "" {
		x.attr("rel", l.Rel)
	}
	x.attr("href", l.Href)
	if l.Type != "" {
		x.attr("type", l.Type)
	}
	if l.Length > 0 {
		x.attr("length", strconv.FormatInt(l.Length, 10))
	}
	x.raw("/>\n")
}

func (x *writer) text(indent, name, value string) {
	if value == "" {
		return
	}
	x.raw(indent + "<" + name + ">")
	x.escaped(value, false)
	x.raw("</" + name + ">\n")
}

func (x *writer) time(indent, name string, t time.Time) { x.text(indent, name, stamp(t)) }

func (x *writer) attr(name, value string) {
	x.raw(" " + name + `="`)
	x.escaped(value, true)
	x.raw(`"`)
}

func (x *writer) raw(s string) { _, _ = x.w.WriteString(s) }

func (x *writer) escaped(s string, value bool) {
	x.buf.Reset()
	escape(&x.buf, valid(s), value)
	_, _ = x.w.Write(x.buf.Bytes())
}

// valid replaces characters that XML does not allow.
func valid(s string) string {
	for _, r := range s {
		if !xmlChar(r) || r == utf8.RuneError {
			return strings.Map(func(r rune) rune {
				if xmlChar(r) {
					return r
				}
				return utf8.RuneError
			}, s)
		}
	}
	return s
}
