package destination

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"resyncd/destination/fetch"
	"resyncd/destination/rsdoc"
)

// description takes up the sets of a Source Description or of its index [8].
func (f *finder) description(ctx context.Context, d *Document, depth int) error {
	if f.read[d.URL] {
		return nil
	}
	f.read[d.URL] = true
	if depth == 0 {
		f.offer.Description = d.URL
	}
	if d.Skipped > 0 {
		f.offer.Partial = true
	}
	loose := SetOffer{ID: d.URL, Found: howDescription}
	for i := range d.Entries {
		e := &d.Entries[i]
		var err error
		switch {
		case e.Kind == rsdoc.KindDescription, d.Head.Shape == rsdoc.Index && d.Head.Kind == rsdoc.KindDescription:
			err = f.nested(ctx, e, depth+1)
		case e.Kind == rsdoc.KindCapabilityList, e.Kind == rsdoc.KindUnknown: // the rs:md may be missing [17.1]
			err = f.member(ctx, e, depth)
		default:
			loose.add(*e)
		}
		if err != nil {
			return err
		}
	}
	// A description that names lists offers them as one set.
	if loose.usable() {
		f.add(loose)
	}
	return nil
}

func (f *finder) nested(ctx context.Context, e *Ref, depth int) error {
	if _, again := f.seen[e.URL]; again {
		return nil
	}
	if depth > f.r.limits.depth {
		f.offer.Partial = true
		f.step(e.URL, howIndex, fmt.Sprintf("not asked for: Source Descriptions nested more than %d deep",
			f.r.limits.depth), false)
		return nil
	}
	fd, err := f.look(ctx, e.URL, howIndex)
	switch {
	case err != nil:
		return err
	case fd.describes():
		return f.description(ctx, fd.doc, depth)
	case fd.doc != nil:
		f.add(setOf(fd.doc, howDescription))
		return nil
	}
	f.offer.Partial = true
	return nil
}

// errNotCapabilityList is the fault of an entry that leads to another document (F58).
var errNotCapabilityList = errors.New("there is no Capability List at its address")

// member takes up one Capability List of a Source Description. Its failure does not stop the others (P11).
func (f *finder) member(ctx context.Context, e *Ref, depth int) error {
	if _, again := f.sets[e.URL]; again {
		return nil
	}
	if !f.wanted(e.URL) {
		f.add(SetOffer{ID: e.URL})
		return nil
	}
	if len(f.offer.Sets) >= f.r.limits.requests {
		f.offer.Partial = true
		return nil
	}
	fd, err := f.look(ctx, e.URL, howDescription)
	if err != nil {
		return err
	}
	s := SetOffer{ID: e.URL, Found: howDescription}
	switch {
	case fd.err != nil:
		s.Err = fd.err
	case fd.describes():
		if depth+1 > f.r.limits.depth {
			f.offer.Partial = true
			return nil
		}
		return f.description(ctx, fd.doc, depth+1)
	case fd.doc != nil:
		s = setOf(fd.doc, howDescription)
	case isOffered(fd.kind):
		s = bareSet(Hop{Ref: Ref{URL: fd.url, Kind: fd.kind, Links: fd.head.Links}.dropZeroTimes(),
			Shape: fd.head.Shape, How: howDescription})
	default:
		s.Err = fmt.Errorf("%w: %s", errNotCapabilityList, fd.result())
	}
	s.DescribedBy = cmp.Or(s.DescribedBy, hrefOf(e.Links, rsdoc.RelDescribedBy))
	f.add(s)
	return nil
}

// list takes up a list that was reached without a Capability List: it stands for the set of the Capability List that
// names it, or for itself.
func (f *finder) list(ctx context.Context, fd *finding, how string) error {
	above, err := f.climb(ctx, fd)
	if err != nil {
		return err
	}
	if above == nil {
		set := bareSet(f.hop(fd, how))
		if set.ResourceList == nil && set.ChangeList == nil {
			f.incomplete = true // a dump or an archive in another document's place must not hide the Source for good
		}
		f.add(set)
		return nil
	}
	if how == howGiven {
		how = howUp
	}
	return f.capabilityList(ctx, above, how)
}

// climb finds the Capability List that names a list or an index of it. The document decides, not the link's relation:
// in 0.9, and at careless Sources since, up leads to the index [16].
func (f *finder) climb(ctx context.Context, list *finding) (*finding, error) {
	covered := []string{list.url, list.final}
	type link struct{ url, how string }
	var ahead []link
	enqueue := func(h *rsdoc.Head) {
		for _, up := range upLinks(h) {
			ahead = append(ahead, link{up, howUp})
		}
		if l, ok := h.Link(rsdoc.RelIndex); ok {
			covered = append(covered, l.Href)
			ahead = append(ahead, link{l.Href, howIndex})
		}
	}
	enqueue(&list.head)
	for step := 0; step < len(ahead) && step < upSteps; step++ {
		next := ahead[step]
		if next.url == list.url {
			continue
		}
		fd, err := f.look(ctx, next.url, next.how)
		if err != nil {
			return nil, err
		}
		switch {
		case fd.doc != nil && fd.kind == rsdoc.KindCapabilityList && names(fd.doc, covered...):
			return fd, nil
		case fd.err == nil && !fd.page && fd.head.Shape == rsdoc.Index && fd.kind == list.kind:
			covered = append(covered, fd.url, fd.final)
			enqueue(&fd.head)
		}
	}
	return nil, nil
}

// upLinks are today's relation and that of 0.9.
func upLinks(h *rsdoc.Head) []string {
	var out []string
	for _, rel := range [...]string{rsdoc.RelUp, rsdoc.RelResourceSync} {
		if l, ok := h.Link(rel); ok && !slices.Contains(out, l.Href) {
			out = append(out, l.Href)
		}
	}
	return out
}

func names(d *Document, urls ...string) bool {
	for i := range d.Entries {
		if slices.Contains(urls, d.Entries[i].URL) {
			return true
		}
	}
	return false
}

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
		f.r.o.Doubted(DoubtKept)
		f.r.o.Log.Warn("the Source Description cannot be read; going on with it as it was last read",
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
