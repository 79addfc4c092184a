package destination

import (
	"fmt"
	"io"
	"slices"

	"resyncd/destination/fetch"
	"resyncd/destination/rsdoc"
)

// A small document that breaks off proves nothing (F58).
func (r *Reader) readWhole(url string, a *answer, doc *rsdoc.Reader, expect []rsdoc.Kind) (*Document, error) {
	h, err := doc.Head()
	if err != nil {
		return nil, broken(err)
	}
	if err := expected(h, expect); err != nil {
		return nil, err
	}
	d := &Document{URL: url, Meta: a.meta()}
	return d, r.readRest(d, doc, expect)
}

func (r *Reader) readRest(d *Document, doc *rsdoc.Reader, expect []rsdoc.Kind) error {
	if err := r.readEntries(d, doc); err != nil {
		return err
	}
	h, err := doc.Head() // a root may continue behind its entries [5]
	if err != nil {
		return err
	}
	if err := expected(h, expect); err != nil {
		return err
	}
	d.Head = *h
	n, why := doc.Skipped()
	if d.Skipped = n; n > 0 {
		r.log.Warn("bad entries skipped", "document", fetch.RedactURL(d.URL), "entries", n, "first", why)
	}
	return nil
}

func expected(h *rsdoc.Head, expect []rsdoc.Kind) error {
	if len(expect) == 0 {
		return nil
	}
	return h.Expect(expect...)
}

func (r *Reader) readEntries(d *Document, doc *rsdoc.Reader) error {
	held := 0
	for {
		e, err := doc.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return broken(err)
		}
		if e.Fault != "" {
			continue // Skipped counts it
		}
		ref := refOf(e)
		if held += ref.size(); held > r.limits.smallBytes || len(d.Entries) >= r.limits.smallEntries {
			why := fmt.Sprintf("more than %d entries or %d bytes in a document that has to be held whole",
				r.limits.smallEntries, r.limits.smallBytes)
			return &rsdoc.DocumentError{Problem: rsdoc.Limit, Offset: doc.Bytes(), Detail: why}
		}
		d.Entries = append(d.Entries, ref)
	}
}

// refOf copies an entry, because the reader uses it again.
func refOf(e *rsdoc.Entry) Ref {
	return Ref{
		URL: e.Loc, Kind: e.Capability, LastMod: e.LastMod, At: e.At, From: e.From, Until: e.Until,
		Length: e.Length, Type: e.Type, Links: cloneLinks(e.Links),
	}
}

func cloneLinks(links []rsdoc.Link) []rsdoc.Link {
	if len(links) == 0 {
		return nil
	}
	out := slices.Clone(links)
	for i := range out {
		out[i].Digests = slices.Clone(out[i].Digests)
	}
	return out
}

func (r *Ref) size() int {
	n := 128 + len(r.URL) + len(r.Kind) + len(r.Type)
	for i := range r.Links {
		l := &r.Links[i]
		n += 128 + len(l.Rel) + len(l.Href) + len(l.Type) + len(l.Path) + 72*len(l.Digests)
	}
	return n
}

// sameParts leaves out the root's own at, because some Sources write the time of the request there.
func sameParts(a, b *Document) bool {
	return slices.EqualFunc(a.Entries, b.Entries, func(x, y Ref) bool {
		return x.URL == y.URL && x.LastMod == y.LastMod && x.At == y.At && x.From == y.From && x.Until == y.Until &&
			x.Length == y.Length
	})
}
