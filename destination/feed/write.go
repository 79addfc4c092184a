package feed

import (
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
	x := &writer{}
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
	if _, err := w.Write(x.Bytes()); err != nil {
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
		x.escape(valid(f.Value), false)
		x.raw("</gs:field>\n")
	}
	x.raw("      </report:row>\n    </report:content>\n")
}

// writer writes a Document, with the characters that XML allows.
type writer struct{ markup }

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
	x.raw(indent)
	x.element(name, valid(value))
	x.raw("\n")
}

func (x *writer) time(indent, name string, t time.Time) { x.text(indent, name, stamp(t)) }

func (x *writer) attr(name, value string) { x.attribute(name, valid(value)) }

func (x *writer) raw(s string) { x.WriteString(s) }

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

// markup is XML as it is written.
type markup struct{ bytes.Buffer }

func (b *markup) element(name, text string) {
	b.WriteString("<" + name + ">")
	b.escape(text, false)
	b.WriteString("</" + name + ">")
}

func (b *markup) attribute(name, value string) {
	b.WriteString(" " + name)
	b.value(value)
}

func (b *markup) value(s string) {
	b.WriteString(`="`)
	b.escape(s, true)
	b.WriteByte('"')
}

// escape writes text, or an attribute's value, so that the same string is read again.
func (b *markup) escape(s string, value bool) {
	from := 0
	for i := range len(s) {
		var ref string
		switch c := s[i]; {
		case c == '&':
			ref = "&amp;"
		case c == '<':
			ref = "&lt;"
		case c == '>':
			ref = "&gt;"
		case c == '\r':
			ref = "&#xD;"
		case !value:
			continue
		case c == '"':
			ref = "&quot;"
		case c == '\n':
			ref = "&#xA;"
		case c == '\t':
			ref = "&#x9;"
		default:
			continue
		}
		b.WriteString(s[from:i])
		b.WriteString(ref)
		from = i + 1
	}
	b.WriteString(s[from:])
}
