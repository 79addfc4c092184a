package rsdoc

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Writer writes one document as a stream, which Reader reads back. Its errors are final.
type Writer struct {
	// Spec10 writes entries as in 1.0: the time of the change is lastmod [digest 16]. Set it before the first Write.
	Spec10 bool

	w     *bufio.Writer
	shape Shape
	err   error
	open  bool
}

// names are the root and the entries of a document, by shape.
var names = [...]struct{ root, entry string }{List: {"urlset", "url"}, Index: {"sitemapindex", "sitemap"}}

// NewWriter writes the root's start tag, rs:ln and rs:md. The capability is h.RawKind, else h.Kind; with neither, and
// no times, the document is a plain Sitemap.
func NewWriter(w io.Writer, h Head) (*Writer, error) {
	x := &Writer{w: bufio.NewWriterSize(w, smallWindow), shape: h.Shape, open: true}
	x.raw(`<?xml version="1.0" encoding="UTF-8"?>`, "\n<", names[x.shape].root, ` xmlns="`, NamespaceSitemap, "\"\n")
	x.raw(`        xmlns:rs="`, NamespaceRS, "\">\n")
	for i := range h.Links {
		x.link("  ", &h.Links[i])
	}
	x.element("  <rs:md", h.HasMD,
		"capability", cmp.Or(h.RawKind, string(h.Kind)), "at", h.At.String(), "completed", h.Completed.String(),
		"from", h.From.String(), "until", h.Until.String())
	return x, x.result("write the head of a document")
}

// Write writes one entry. Entries must come in the order of their kind [digest 2].
func (x *Writer) Write(e *Entry) error {
	if !x.open && x.err == nil {
		x.err = errors.New("the document is closed")
	}
	if e.Loc == "" {
		x.fail(errors.New("an entry without loc"))
	}
	if e.Change >= ChangeUnknown {
		x.fail(errors.New("a change that the specification does not name"))
	}
	name := names[x.shape].entry
	lastMod, datetime := e.LastMod, e.Datetime
	if x.Spec10 && datetime.Known() {
		lastMod, datetime = datetime, NoTime
	}
	x.raw("  <", name, ">\n    <loc>")
	x.escape(e.Loc, inText)
	x.raw("</loc>\n")
	if lastMod.Known() {
		x.raw("    <lastmod>", lastMod.String(), "</lastmod>\n")
	}
	x.element("    <rs:md", e.HasMD,
		"capability", string(e.Capability), "change", e.Change.String(), "datetime", datetime.String(),
		"at", e.At.String(), "completed", e.Completed.String(), "from", e.From.String(), "until", e.Until.String(),
		"hash", hashText(e.Digests), "length", lengthText(e.Length), "type", e.Type,
		"encoding", e.Encoding, "path", e.Path)
	for i := range e.Links {
		x.link("    ", &e.Links[i])
	}
	x.raw("  </", name, ">\n")
	return x.result("write an entry")
}

// Close writes the root's end tag and flushes to the underlying writer, which stays open.
func (x *Writer) Close() error {
	if x.open {
		x.raw("</", names[x.shape].root, ">\n")
		x.open = false
		x.fail(x.w.Flush())
	}
	return x.result("end a document")
}

func (x *Writer) link(indent string, l *Link) {
	if l.Rel == "" || l.Href == "" {
		x.fail(errors.New("a link without rel or href"))
	}
	pri := ""
	if 1 <= l.Pri && l.Pri < noPri {
		pri = strconv.Itoa(l.Pri)
	}
	x.element(indent+"<rs:ln", true,
		"rel", l.Rel, "href", l.Href, "pri", pri, "modified", l.Modified.String(),
		"hash", hashText(l.Digests), "length", lengthText(l.Length), "type", l.Type,
		"profile", l.Profile, "path", l.Path)
}

func hashText(digests []Digest) string {
	all := make([]string, len(digests))
	for i, d := range digests {
		all[i] = d.String()
	}
	return strings.Join(all, " ")
}

func lengthText(n int64) string {
	if n < 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// element writes an empty element with those attributes, name and value in turn, that have a value. Without any it is
// left out, unless it is to be there in any case.
func (x *Writer) element(opening string, always bool, attrs ...string) {
	open := always
	if open {
		x.raw(opening)
	}
	for i := 0; i < len(attrs); i += 2 {
		name, value := attrs[i], attrs[i+1]
		if value == "" {
			continue
		}
		if !open {
			x.raw(opening)
			open = true
		}
		x.raw(" ", name, "=\"")
		x.escape(value, inAttribute)
		x.raw("\"")
	}
	if open {
		x.raw("/>\n")
	}
}

func (x *Writer) raw(parts ...string) {
	for _, p := range parts {
		if x.err == nil {
			_, x.err = x.w.WriteString(p)
		}
	}
}

var (
	inText      = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "\r", "&#13;")
	inAttribute = strings.NewReplacer(
		"&", "&amp;", "<", "&lt;", ">", "&gt;", "\r", "&#13;", "\"", "&quot;", "\n", "&#10;", "\t", "&#9;")
)

// A value with a character that XML does not allow cannot be written.
func (x *Writer) escape(s string, escapes *strings.Replacer) {
	if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !xmlChar(r) }) {
		x.fail(fmt.Errorf("%s has a character that XML does not allow", quote(s)))
		return
	}
	if x.err == nil {
		_, x.err = escapes.WriteString(x.w, s)
	}
}

func (x *Writer) fail(err error) {
	if x.err == nil {
		x.err = err
	}
}

func (x *Writer) result(doing string) error {
	if x.err != nil {
		return fmt.Errorf("%s: %w", doing, x.err)
	}
	return nil
}
