package rsdoc

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
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

// NewWriter writes the root's start tag, rs:ln and rs:md. The capability is h.RawKind, else h.Kind; with neither, and
// no times, the document is a plain Sitemap.
func NewWriter(w io.Writer, h Head) (*Writer, error) {
	x := &Writer{w: bufio.NewWriterSize(w, smallWindow), shape: h.Shape, open: true}
	x.raw(`<?xml version="1.0" encoding="UTF-8"?>`, "\n<", x.root(), ` xmlns="`, NamespaceSitemap, "\"\n")
	x.raw(`        xmlns:rs="`, NamespaceRS, "\">\n")
	for i := range h.Links {
		x.link("  ", &h.Links[i])
	}
	kind := h.RawKind
	if kind == "" {
		kind = string(h.Kind)
	}
	if h.HasMD || kind != "" || h.At.Known() || h.Completed.Known() || h.From.Known() || h.Until.Known() ||
		h.Modified.Known() {
		x.raw("  <rs:md")
		x.attr("capability", kind)
		x.attr("at", h.At.String())
		x.attr("completed", h.Completed.String())
		x.attr("from", h.From.String())
		x.attr("until", h.Until.String())
		x.attr("modified", h.Modified.String())
		x.raw("/>\n")
	}
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
	name := "url"
	if x.shape == Index {
		name = "sitemap"
	}
	lastMod, datetime := e.LastMod, e.Datetime
	if x.Spec10 && datetime.Known() {
		lastMod, datetime = datetime, NoTime
	}
	x.raw("  <", name, ">\n    <loc>")
	x.escape(e.Loc, false)
	x.raw("</loc>\n")
	if lastMod.Known() {
		x.raw("    <lastmod>", lastMod.String(), "</lastmod>\n")
	}
	x.entryMD(e, datetime)
	for i := range e.Links {
		x.link("    ", &e.Links[i])
	}
	x.raw("  </", name, ">\n")
	return x.result("write an entry")
}

// Close writes the root's end tag and flushes to the underlying writer, which stays open.
func (x *Writer) Close() error {
	if x.open {
		x.raw("</", x.root(), ">\n")
		x.open = false
		x.fail(x.w.Flush())
	}
	return x.result("end a document")
}

func (x *Writer) root() string {
	if x.shape == Index {
		return "sitemapindex"
	}
	return "urlset"
}

func (x *Writer) entryMD(e *Entry, datetime Micros) {
	has := e.HasMD || e.Capability != "" || e.Change != ChangeNone || datetime.Known() || e.At.Known() ||
		e.Completed.Known() || e.From.Known() || e.Until.Known() || len(e.Digests) > 0 || e.Length >= 0 ||
		e.Type != "" || e.Encoding != "" || e.Path != ""
	if !has {
		return
	}
	x.raw("    <rs:md")
	x.attr("capability", string(e.Capability))
	x.attr("change", e.Change.String())
	x.attr("datetime", datetime.String())
	x.attr("at", e.At.String())
	x.attr("completed", e.Completed.String())
	x.attr("from", e.From.String())
	x.attr("until", e.Until.String())
	x.fixity(e.Digests, e.Length, e.Type)
	x.attr("encoding", e.Encoding)
	x.attr("path", e.Path)
	x.raw("/>\n")
}

func (x *Writer) link(indent string, l *Link) {
	if l.Rel == "" || l.Href == "" {
		x.fail(errors.New("a link without rel or href"))
	}
	x.raw(indent, "<rs:ln")
	x.attr("rel", l.Rel)
	x.attr("href", l.Href)
	if 1 <= l.Pri && l.Pri < noPri {
		x.attr("pri", strconv.Itoa(l.Pri))
	}
	x.attr("modified", l.Modified.String())
	x.fixity(l.Digests, l.Length, l.Type)
	x.attr("path", l.Path)
	x.raw("/>\n")
}

func (x *Writer) fixity(digests []Digest, length int64, mediaType string) {
	var hash []byte
	for i, d := range digests {
		if i > 0 {
			hash = append(hash, ' ')
		}
		hash = append(hash, d.String()...)
	}
	x.attr("hash", string(hash))
	if length >= 0 {
		x.attr("length", strconv.FormatInt(length, 10))
	}
	x.attr("type", mediaType)
}

func (x *Writer) attr(name, value string) {
	if value == "" {
		return
	}
	x.raw(" ", name, "=\"")
	x.escape(value, true)
	x.raw("\"")
}

func (x *Writer) raw(parts ...string) {
	for _, p := range parts {
		if x.err == nil {
			_, x.err = x.w.WriteString(p)
		}
	}
}

// A value with a character that XML does not allow cannot be written.
func (x *Writer) escape(s string, attr bool) {
	from := 0
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 || !xmlChar(r) {
			x.fail(fmt.Errorf("%s has a character that XML does not allow", quote(s)))
			return
		}
		ref := ""
		switch {
		case r == '&':
			ref = "&amp;"
		case r == '<':
			ref = "&lt;"
		case r == '>':
			ref = "&gt;"
		case r == '\r':
			ref = "&#13;"
		case attr && r == '"':
			ref = "&quot;"
		case attr && r == '\n':
			ref = "&#10;"
		case attr && r == '\t':
			ref = "&#9;"
		}
		if ref != "" {
			x.raw(s[from:i], ref)
			from = i + size
		}
		i += size
	}
	x.raw(s[from:])
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
