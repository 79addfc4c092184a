package feed

import (
	"bytes"
	"embed"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/template"
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

//go:embed atom.tmpl rss.tmpl
var layouts embed.FS

// documents are the layouts of what is written.
var documents = template.Must(template.New("").Funcs(template.FuncMap{
	"text":    func(s string) string { return textEscapes.Replace(valid(s)) },
	"value":   func(s string) string { return valueEscapes.Replace(valid(s)) },
	"time":    stamp,
	"rssTime": rssTime,
}).ParseFS(layouts, "*.tmpl"))

// Write writes an Atom 1.0 document (RFC 4287) that Read reads back. Characters that XML does not allow become U+FFFD.
// Missing required elements are left out, because a record's edits have none (T-03).
func Write(w io.Writer, d *Document) error { return d.write(w, "atom.tmpl", "") }

// WriteRSS writes RSS 2.0 with the links of Atom in it, as much software does; site is the page that it belongs to. It
// has no word for a deletion or an edit, and its times have whole seconds.
func WriteRSS(w io.Writer, d *Document, site string) error { return d.write(w, "rss.tmpl", site) }

func (d *Document) write(w io.Writer, layout, site string) error {
	var body bytes.Buffer
	err := documents.ExecuteTemplate(&body, layout, map[string]any{
		"ID": d.ID, "Title": d.Title, "Site": site, "Updated": d.Updated, "Archive": d.Archive, "Links": d.links(),
		"Entries": d.Entries, "Deletions": d.some(func(e NewEntry) bool { return e.Deleted }),
		"Edits": d.some(func(e NewEntry) bool { return e.Edit != nil }),
	})
	if err == nil {
		_, err = body.WriteTo(w)
	}
	if err != nil {
		return fmt.Errorf("write a feed: %w", err)
	}
	return nil
}

func (d *Document) some(is func(NewEntry) bool) bool { return slices.ContainsFunc(d.Entries, is) }

// links are those of the document itself.
func (d *Document) links() []Link {
	links := []Link{{Rel: "self", Href: d.Self}}
	for _, hub := range d.Hubs {
		links = append(links, Link{Rel: "hub", Href: hub})
	}
	links = append(links, Link{Rel: "current", Href: d.Current}, Link{Rel: "prev-archive", Href: d.PrevArchive},
		Link{Rel: "next-archive", Href: d.NextArchive})
	return slices.DeleteFunc(links, func(l Link) bool { return l.Href == "" })
}

func rssTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC1123Z)
}

// valid replaces characters that XML does not allow.
func valid(s string) string {
	return strings.Map(func(r rune) rune {
		if xmlChar(r) {
			return r
		}
		return utf8.RuneError
	}, s)
}

// Escapes of text, and of an attribute's value, with which the same string is read again.
var (
	textEscapes  = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "\r", "&#xD;")
	valueEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "\r", "&#xD;", `"`, "&quot;",
		"\n", "&#xA;", "\t", "&#x9;")
)
