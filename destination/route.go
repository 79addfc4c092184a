package destination

import (
	"context"

	"resyncd/destination/fetch"
	"resyncd/destination/rsdoc"
)

// routeKey is the key of the route from a requested URL. Its space keeps it from being a document's URL.
func routeKey(asked string) string { return "discovery of " + asked }

// retrace begins where the last discovery ended, so that nothing that failed then is requested again.
func (f *finder) retrace(ctx context.Context) (done bool, err error) {
	d, err := f.r.recall(ctx, routeKey(f.offer.Asked))
	if err != nil || d == nil || len(d.Route) == 0 {
		return false, err
	}
	for _, h := range d.Route {
		ok, err := f.resume(ctx, h)
		if err != nil {
			return false, err
		}
		if !ok {
			f.reset()
			return false, nil
		}
	}
	return true, nil
}

func (f *finder) resume(ctx context.Context, h Hop) (ok bool, err error) {
	if h.Kind == KindFeed {
		return f.resumeFeed(ctx, h)
	}
	if !isDirectory(h.Kind) {
		// Reading the list shows whether it is still there.
		f.step(h.URL, h.How, kindName(h.Kind)+", known from last time, not asked for", true)
		f.add(bareSet(h))
		return true, nil
	}
	fd, err := f.look(ctx, h.URL, h.How)
	if err != nil {
		return false, err
	}
	if fd.err != nil && passing(fd.err) {
		return f.remembered(ctx, h, fd)
	}
	switch {
	case fd.describes():
		return true, f.description(ctx, fd.doc, 0)
	case fd.doc != nil && !(h.Kind == rsdoc.KindDescription):
		if l, ok := fd.head.Link(rsdoc.RelUp); ok && l.Href != fd.url && f.offer.Description == "" {
			f.offer.Description = l.Href
		}
		f.add(setOf(fd.doc, h.How))
		return true, nil
	}
	return false, nil
}

// remembered continues with a document as last read, because it cannot be read now: its sets need not wait for it.
func (f *finder) remembered(ctx context.Context, h Hop, fd *finding) (bool, error) {
	d, err := f.r.recall(ctx, h.URL)
	if err != nil {
		return false, err
	}
	known := &finding{url: h.URL, doc: d}
	if d != nil {
		known.kind, known.head = d.Head.Kind, d.Head
	}
	switch {
	case known.describes():
		f.r.doubted(DoubtKept)
		f.r.log.Warn("the Source Description cannot be read; going on with it as it was last read",
			"url", fetch.RedactURL(h.URL), "err", fd.err)
		return true, f.description(ctx, d, 0)
	default:
		f.add(SetOffer{ID: h.URL, Found: h.How, Err: fd.err})
		return true, nil
	}
}

// Forget makes the next Discover of asked start anew, because known bare lists are offered without a request.
func (r *Reader) Forget(ctx context.Context, asked string) error {
	d, err := r.recall(ctx, routeKey(asked))
	if err != nil || d == nil || len(d.Route) == 0 {
		return err
	}
	return r.remember(ctx, &Document{URL: routeKey(asked)})
}
