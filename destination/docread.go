package destination

import (
	"context"
	"io"

	"resyncd/destination/fetch"
	"resyncd/destination/rsdoc"
)

// docRead is the reading of one document of a walk, over all attempts.
type docRead struct {
	part    *Part
	kind    rsdoc.Kind
	known   *Document // of an index; else nil
	req     *fetch.Request
	entered bool
}

// attempt returns an index whole; a list goes to the visitor entry by entry.
func (w *walk) attempt(ctx context.Context, t *docRead, a *answer) (*Document, error) {
	p := t.part
	p.Meta = a.meta()
	if a.NotModified {
		return w.unchanged(ctx, t, a)
	}
	doc, err := w.r.open(a, t.kind)
	if err != nil {
		return nil, err
	}
	h, err := doc.Head()
	if err != nil {
		return nil, broken(err)
	}
	if err := h.Expect(t.kind); err != nil {
		return nil, err
	}
	if h.Shape == rsdoc.Index || archived(t.kind) != "" {
		return w.r.readWhole(p.URL, a, doc, []rsdoc.Kind{t.kind})
	}
	first, err := doc.Next()
	if err != nil && err != io.EOF {
		return nil, broken(err)
	}
	if first != nil && first.Fault == "" {
		index := first.Capability == t.kind && t.kind != rsdoc.KindUnknown
		if !index && t.kind == rsdoc.KindResourceList && datedOnly(first) {
			if index, err = w.r.leadsToList(ctx, first.Loc, t.kind); err != nil {
				return nil, err
			}
		}
		if index {
			return w.r.misrooted(p.URL, a, doc, first, t.kind)
		}
	}
	return nil, w.list(ctx, t, doc, first)
}

func (w *walk) unchanged(ctx context.Context, t *docRead, a *answer) (*Document, error) {
	if t.known != nil {
		return unchanged(t.known, a, []rsdoc.Kind{t.kind})
	}
	p := t.part
	if p.ETag == "" { // a 304 need not repeat them
		p.ETag = t.req.ETag
	}
	if p.LastModified == "" {
		p.LastModified = t.req.LastModified
	}
	w.tour.Lists++
	if err := w.v.List(ctx, p, &List{}); err != nil {
		return nil, w.stopped(err)
	}
	return nil, nil
}

// list hands a list to the visitor. Its first entry was read already, nil for an empty list.
func (w *walk) list(ctx context.Context, t *docRead, doc *rsdoc.Reader, first *rsdoc.Entry) error {
	p := t.part
	if t.known != nil { // the remembered index must not come back
		if err := w.r.remember(ctx, &Document{URL: p.URL, Head: rsdoc.NewHead(rsdoc.List, t.kind)}); err != nil {
			return w.stopped(err)
		}
		t.known, t.req.ETag, t.req.LastModified = nil, "", ""
	}
	if !t.entered {
		t.entered = true
		meta := p.Meta // of a request already answered: the visitor may set validators
		wanted, err := w.v.Enter(ctx, p)
		if p.Meta = meta; err != nil {
			return w.stopped(err)
		}
		if !wanted {
			return nil
		}
	}
	h, err := doc.Head()
	if err != nil {
		return err
	}
	l := &List{Head: h, doc: doc, first: first, kind: t.kind}
	err = w.v.List(ctx, p, l)
	if l.whole { // well-formed to its last byte (F58)
		w.tour.Lists++
		w.reads++
	}
	switch {
	case l.err != nil:
		return l.err
	case err != nil:
		return w.stopped(err)
	}
	return nil
}
