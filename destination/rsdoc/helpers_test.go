package rsdoc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

const (
	urlset = `<urlset xmlns="` + NamespaceSitemap + `" xmlns:rs="` + NamespaceRS + `">`
	index  = `<sitemapindex xmlns="` + NamespaceSitemap + `" xmlns:rs="` + NamespaceRS + `">`
)

// document is all that a reader gives of one document.
type document struct {
	Head    Head
	Entries []Entry
	Skipped int64
	First   string // of the skipped
	Err     error  // nil where the document was complete
}

// collect reads to the end, copying what the reader reuses.
func collect(r *Reader, err error) document {
	var d document
	for err == nil {
		var e *Entry
		if e, err = r.Next(); err == nil {
			d.Entries = append(d.Entries, copyEntry(e))
		}
	}
	if err != io.EOF {
		d.Err = err
	}
	if r == nil {
		return d
	}
	if h, err := r.Head(); err == nil {
		d.Head = *h
	}
	n, first := r.Skipped()
	if d.Skipped = n; first != nil {
		d.First = first.Error()
	}
	return d
}

func copyEntry(e *Entry) Entry {
	c := *e
	c.Digests = append([]Digest(nil), e.Digests...)
	c.Links = append([]Link(nil), e.Links...)
	for i := range c.Links {
		c.Links[i].Digests = append([]Digest(nil), e.Links[i].Digests...)
	}
	return c
}

func readAll(doc string, o Options) document { return collect(OpenBytes([]byte(doc), o)) }

// readings are all ways to read the same bytes; they must agree.
func readings(doc string, o Options) map[string]document {
	open := func(wrap func(io.Reader) io.Reader) document {
		return collect(NewReader(wrap(strings.NewReader(doc)), o), nil)
	}
	return map[string]document{
		"in place":           readAll(doc, o),
		"whole":              open(func(r io.Reader) io.Reader { return r }),
		"byte by byte":       open(iotest.OneByteReader),
		"halves":             open(iotest.HalfReader),
		"data with EOF":      open(iotest.DataErrReader),
		"sniffed and opened": collect(Open(strings.NewReader(doc), o)),
	}
}

// problemOf is the problem of a DocumentError, 0 for any other error.
func problemOf(err error) Problem {
	var d *DocumentError
	if errors.As(err, &d) {
		return d.Problem
	}
	return 0
}

// dump writes a document as lines, for goldens and for comparing readings.
func dump(d document) string {
	var b bytes.Buffer
	h := d.Head
	fmt.Fprintf(&b, "shape=%d kind=%q raw=%q md=%v at=%s completed=%s from=%s until=%s\n",
		h.Shape, h.Kind, h.RawKind, h.HasMD, h.At, h.Completed, h.From, h.Until)
	dumpLinks(&b, h.Links)
	for _, e := range d.Entries {
		fmt.Fprintf(&b, "%d %s lastmod=%s md=%v capability=%q change=%q datetime=%s at=%s completed=%s from=%s until=%s digests=%v bad=%d length=%d type=%q encoding=%q path=%q badlinks=%d\n",
			e.Ordinal, e.Loc, e.LastMod, e.HasMD, e.Capability, e.Change, e.Datetime, e.At, e.Completed, e.From, e.Until,
			digestStrings(e.Digests), e.BadDigests, e.Length, e.Type, e.Encoding, e.Path, e.BadLinks)
		dumpLinks(&b, e.Links)
	}
	fmt.Fprintf(&b, "skipped=%d %s\n", d.Skipped, d.First)
	if d.Err != nil {
		fmt.Fprintf(&b, "error %v\n", d.Err)
	}
	return b.String()
}

func dumpLinks(w io.Writer, links []Link) {
	for _, l := range links {
		fmt.Fprintf(w, "  link %s %s pri=%d modified=%s type=%q length=%d digests=%v path=%q\n",
			l.Rel, l.Href, l.Pri, l.Modified, l.Type, l.Length, digestStrings(l.Digests), l.Path)
	}
}

// mustRead reads a document that has to be complete, with nothing skipped.
func mustRead(t *testing.T, doc string, o Options) document {
	t.Helper()
	d := readAll(doc, o)
	if d.Err != nil || d.Skipped != 0 {
		t.Fatalf("error %v, %d skipped (%s) in\n%s", d.Err, d.Skipped, d.First, doc)
	}
	return d
}
