package destination

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"resyncd/destination/fetch"
	"resyncd/destination/rsdoc"
)

func holdsParts(d *Document) bool { return d.Head.Shape == rsdoc.Index || listsParts(d.Head.Kind) }

// listsParts reports a kind whose lists lead to documents and not to resources: to those of an archive, or the
// manifests of a dump.
func listsParts(k rsdoc.Kind) bool { return archived(k) != "" || manifested(k) != "" }

func (w *walk) index(ctx context.Context, p *Part, d *Document, kind rsdoc.Kind, path []string) error {
	packages := d.Head.Shape == rsdoc.List && manifested(kind) != ""
	if p.Depth >= w.r.limits.depth && !packages {
		return w.failed(ctx, p, fmt.Errorf("indexes are nested more than %d deep", w.r.limits.depth))
	}
	if p.Depth == 0 {
		w.tour.Root = d
	}
	if !d.NotModified {
		if err := w.r.remember(ctx, d); err != nil {
			return err
		}
	}
	if d.Skipped > 0 {
		w.incomplete = true // a bad entry may have been a list
	}
	below := kind
	if d.Head.Shape == rsdoc.List {
		below = cmp.Or(archived(kind), manifested(kind), kind)
	}
	before := w.reads
	path = append(path[:len(path):len(path)], p.URL)
	parts := w.inTimeOrder(d, kind)
	for i := range parts {
		if w.inARow >= giveUpInARow {
			return w.giveUp(ctx, p, parts[i:])
		}
		part, kindOf := partOf(&parts[i], packages && parts[i].Kind != kind), below
		if packages && part.Package == nil {
			kindOf = kind // a dump in an index whose root is wrongly urlset [18]
		}
		if err := w.part(ctx, p, d, part, kindOf, i == len(parts)-1, path); err != nil {
			return err
		}
		if w.parts > w.r.limits.parts {
			return nil
		}
	}
	// Lists of changes each prove their own interval; a snapshot is only as good as the whole (F67, F69).
	if isSnapshot(kind) && w.reads > before && w.tour.Failed == 0 && !w.incomplete {
		w.confirm(ctx, d, kind)
		return ctx.Err()
	}
	return nil
}

// partOf is what an entry of an index leads to: a list, or the manifest of a package.
func partOf(ref *Ref, isPackage bool) *Part {
	p := &Part{Ref: *ref}
	if isPackage {
		p.Package = ref
		p.URL = cmp.Or(ref.Link(rsdoc.RelContents), ref.URL)
	}
	return p
}

func (w *walk) part(ctx context.Context, parent *Part, d *Document, p *Part, kind rsdoc.Kind, last bool,
	path []string) error {
	p.Parent, p.Depth, p.Newest = parent.URL, parent.Depth+1, last && parent.Newest
	p.Meta = Meta{Date: rsdoc.NoTime, NotModified: d.NotModified}
	if p.Kind == rsdoc.KindUnknown {
		p.Kind = kind
	}
	if slices.Contains(path, p.URL) {
		return w.failed(ctx, p, fmt.Errorf("the index %s leads back to itself", fetch.RedactURL(parent.URL)))
	}
	_, again := w.seen[p.URL]
	if again && p.Package != nil { // `contents` of two packages: one of them is not its own
		p.URL = p.Package.URL
		_, again = w.seen[p.URL]
	}
	if again {
		return nil // named twice, read once
	}
	if w.parts++; w.parts > w.r.limits.parts {
		return w.failed(ctx, p, fmt.Errorf("more than %d lists below one index", w.r.limits.parts))
	}
	return w.visit(ctx, p, kind, path)
}

// inTimeOrder lists an index of changes oldest first. 0.9 had the newest first; where intervals and order disagree the
// intervals count [12.2, 16].
func (w *walk) inTimeOrder(d *Document, kind rsdoc.Kind) []Ref {
	if isSnapshot(kind) || isSnapshot(archived(kind)) {
		return d.Entries
	}
	byTime := func(a, b Ref) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(untilOrLast(a), untilOrLast(b)))
	}
	dated := !slices.ContainsFunc(d.Entries, func(r Ref) bool { return !r.From.Known() })
	if !dated || slices.IsSortedFunc(d.Entries, byTime) {
		return d.Entries
	}
	w.r.o.Log.Info("parts of an index are not in the order of their intervals; sorted",
		"index", fetch.RedactURL(d.URL))
	sorted := slices.Clone(d.Entries)
	slices.SortStableFunc(sorted, byTime)
	return sorted
}

func untilOrLast(r Ref) rsdoc.Micros {
	if !r.Until.Known() {
		return math.MaxInt64
	}
	return r.Until
}

// giveUp fails the rest of an index whose parts no longer answer.
func (w *walk) giveUp(ctx context.Context, index *Part, rest []Ref) error {
	p := &Part{Ref: rest[0], Parent: index.URL, Depth: index.Depth + 1, Meta: Meta{Date: rsdoc.NoTime}}
	return w.fail(ctx, p, len(rest), fmt.Errorf("not asked for, nor are the %d lists behind it: %d in a row failed",
		len(rest)-1, w.inARow))
}

// confirm reads the index again after its parts: parts of two generations are no snapshot (F67, F69).
func (w *walk) confirm(ctx context.Context, d *Document, kind rsdoc.Kind) {
	var again *Document
	err := w.r.take(ctx, w.window, w.r.request(d.URL, d.Meta), func(a *answer) error {
		if a.NotModified {
			again = d
			return nil
		}
		doc, err := open(a.Body, a.base, kind)
		if err != nil {
			return err
		}
		again, err = w.r.readWhole(d.URL, a, doc, nil, kind)
		return err
	})
	switch {
	case err != nil:
		w.incomplete = true
		w.r.o.Doubted(DoubtChanged)
		w.r.o.Log.Warn("an index could not be read again after its lists; nothing is concluded from what they lack",
			"index", fetch.RedactURL(d.URL), "err", err)
	case !sameParts(d, again):
		w.incomplete = true
		w.r.o.Doubted(DoubtChanged)
		w.r.o.Log.Warn("an index changed while its lists were read; nothing is concluded from what they lack",
			"index", fetch.RedactURL(d.URL))
	}
}

// misrooted reads an index whose root is wrongly urlset [18] and remembers it as an index. Entries that name no list of
// the kind count as bad, because they may have been resources.
func (r *Reader) misrooted(url string, a *answer, doc *rsdoc.Reader, first *rsdoc.Entry,
	kind rsdoc.Kind) (*Document, error) {
	d, err := r.readWhole(url, a, doc, first, kind)
	if err != nil {
		return nil, err
	}
	d.Head.Shape = rsdoc.Index
	all := len(d.Entries)
	d.Entries = slices.DeleteFunc(d.Entries, func(e Ref) bool { return e.Kind != kind && !e.At.Known() })
	d.Skipped += int64(all - len(d.Entries))
	r.o.Log.Info("a urlset is read as the index that its entries make it", "index", fetch.RedactURL(url),
		"lists", len(d.Entries), "others", d.Skipped)
	return d, nil
}

// datedOnly reports an entry with a snapshot time and nothing of a resource: only parts look like that [2].
func datedOnly(e *rsdoc.Entry) bool {
	return e.HasMD && e.At.Known() && e.Capability == rsdoc.KindUnknown && e.Length < 0 && len(e.Digests) == 0 &&
		e.BadDigests == 0 && e.Change == rsdoc.ChangeNone
}

// leadsToList reports whether there is a list or index of the kind at url. A failure that passes is an error, because
// it proves nothing: the document would be an index in one attempt and a list in the next.
func (r *Reader) leadsToList(ctx context.Context, url string, kind rsdoc.Kind) (bool, error) {
	err := r.ask(ctx, r.request(url, Meta{}), func(a *answer) error {
		doc, err := open(a.Body, a.base, kind)
		if err != nil {
			return err
		}
		h, err := doc.Head()
		if err != nil {
			return broken(err)
		}
		return h.Expect(kind)
	})
	if transient(err) || ctx.Err() != nil {
		return false, err
	}
	return err == nil, nil
}

// Dump is a dump, or an index of dumps, with all of its packages.
type Dump struct {
	Head     rsdoc.Head // of the root; the zero value where that could not be read
	Packages []Ref
	Problem  error // what could not be read
}

// Dump reads a dump without the manifests of its packages. The error is that of ctx or of the Memory.
func (r *Reader) Dump(ctx context.Context, root Ref) (*Dump, error) {
	d := &Dump{}
	tour, err := r.Walk(ctx, root, root.Kind, d)
	if tour.Root != nil {
		d.Head = tour.Root.Head
	}
	return d, err
}

// Enter implements Visitor.
func (d *Dump) Enter(_ context.Context, p *Part) (bool, error) {
	if p.Package != nil {
		d.Packages = append(d.Packages, *p.Package)
	}
	return p.Package == nil, nil
}

// List implements Visitor. A dump has no lists.
func (d *Dump) List(context.Context, *Part, *List) error { return nil }

// Failed implements Visitor.
func (d *Dump) Failed(_ context.Context, p *Part, err error) error {
	d.Problem = cmp.Or(d.Problem, fmt.Errorf("%s: %w", fetch.RedactURL(p.URL), err))
	return nil
}
