package destination

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"

	"resyncd/destination/fetch"
	"resyncd/destination/rsdoc"
)

// Part is one list (urlset) of a walk: the root itself or a part of an index.
type Part struct {
	Ref
	Parent string // URL of the index, "" for the root
	Newest bool   // the last of its index, the only one that may still change
	Depth  int
	// Package is the entry of a dump whose manifest this is, else nil. URL is that of its `contents`, or the package's
	// own for the manifest inside.
	Package *Ref
	Meta
}

// Inside reports whether the part is the manifest in a package.
func (p *Part) Inside() bool { return p.Package != nil && p.URL == p.Package.URL }

// Visitor receives a walk, from one goroutine, part after part, in the index's order. An error that it returns ends the
// walk and is returned by Walk unchanged.
type Visitor interface {
	// Enter reports whether a list is wanted. It is called before the list is fetched, with the index's metadata; with
	// validators that Enter puts into the Part's Meta the list is asked for conditionally. Indexes look like lists
	// before, so Enter is called for them too, and then no List follows.
	Enter(ctx context.Context, p *Part) (bool, error)
	// List receives the answer to a list that was entered, and again when a transfer broke off and the list is read
	// anew from its start.
	List(ctx context.Context, p *Part, l *List) error
	// Failed is called for a list or index that could not be read, or is not what it should be (F58), and once for all
	// that is left where nothing answers any more. The walk goes on and is incomplete.
	Failed(ctx context.Context, p *Part, err error) error
}

// other is where the manifest of a package is too, "" for nowhere.
func (p *Part) other() string {
	switch {
	case p.Package == nil:
		return ""
	case p.Inside():
		return p.Package.Link(rsdoc.RelContents)
	}
	return p.Package.URL
}

// Packages is a Visitor of dumps. Its Enter may set the URL of the package, to have the manifest inside read first.
type Packages interface {
	// Manifest opens the manifest in a package. It sets the Part's Meta, to
	// NotModified where nothing has to be read. fault is what is wrong with the package; err ends the walk.
	Manifest(ctx context.Context, p *Part) (body io.ReadCloser, fault, err error)
}

// List is one reading of a list.
type List struct {
	// Head is that of a root of the expected kind, and nil if the answer was 304. A root may go on behind its entries
	// [5], so all of it is known after Each.
	Head *rsdoc.Head
	// Skipped counts the bad entries, and Fault describes the first of them, after Each.
	Skipped int64
	Fault   error

	doc   *rsdoc.Reader
	first *rsdoc.Entry // nil for an empty list
	kind  rsdoc.Kind
	whole bool  // read to its end
	err   error // the document's, not the visitor's
}

// Each passes on each entry, valid until fn returns; of one with a Fault only its Loc may be used. A list proves
// nothing unless Each returns nil.
func (l *List) Each(fn func(*rsdoc.Entry) error) error {
	for e := l.first; e != nil; {
		if err := fn(e); err != nil {
			return err
		}
		var err error
		if e, err = l.doc.Next(); err != nil && err != io.EOF {
			l.err = broken(err)
			return l.err
		}
	}
	l.err = l.Head.Expect(l.kind)
	l.whole = l.err == nil
	l.Skipped, l.Fault = l.doc.Skipped()
	return l.err
}

// Tour is what a walk did.
type Tour struct {
	Root   *Document // the index, if the root was one
	Lists  int       // read to their end, or unchanged
	Failed int
	// Complete says that every list that was not skipped was read or unchanged, no index had unusable entries, and no
	// index of a snapshot changed meanwhile.
	Complete bool
}

// Walk reads the list or index at root as one of the kind, within bounds (F66, F67); that of an archive kind reads the
// lists it archives. Lists are streamed, indexes are held whole and remembered. Only the indexes of snapshots are read
// again after their lists.
//
// The error is the visitor's, the Memory's or that of ctx; what is wrong with documents goes to Visitor.Failed. Zero
// times and length of root count as absent.
func (r *Reader) Walk(ctx context.Context, root Ref, kind rsdoc.Kind, v Visitor) (Tour, error) {
	w := &walk{
		r: r, v: v, seen: map[string]struct{}{}, window: r.newWindow(),
	}
	p := &Part{Ref: root.dropZeroTimes(), Newest: true, Meta: Meta{Date: rsdoc.NoTime}}
	if p.Kind == rsdoc.KindUnknown {
		p.Kind = kind
	}
	err := w.visit(ctx, p, kind, nil)
	w.tour.Complete = err == nil && w.tour.Failed == 0 && !w.incomplete
	return w.tour, err
}

type walk struct {
	r      *Reader
	v      Visitor
	tour   Tour
	seen   map[string]struct{} // lists and indexes
	window *retryWindow
	parts  int
	reads  int
	inARow int // transient failures without an answer in between
	// The walk is incomplete for a reason that no Failed call reports.
	incomplete bool
	stop       error // ends the walk
}

// errStop stands in for walk.stop where an error passes through code that handles failures of documents.
var errStop = errors.New("walk was stopped")

func (w *walk) stopped(err error) error {
	w.stop = err
	return errStop
}

// visit reads one document of a walk and what is below it. path are the indexes above.
func (w *walk) visit(ctx context.Context, p *Part, kind rsdoc.Kind, path []string) error {
	w.seen[p.URL] = struct{}{}
	known, err := w.r.recall(ctx, p.URL)
	if err != nil {
		return err
	}
	if known != nil && !holdsParts(known) {
		known = nil
	}
	t := &docRead{part: p, kind: kind, known: known, req: w.r.request(p.URL, validators(known))}
	if known == nil || p.Depth > 0 {
		t.entered = true
		if wanted, err := w.v.Enter(ctx, p); err != nil || !wanted {
			return err
		}
		if known == nil {
			t.req.ETag, t.req.LastModified = p.ETag, p.LastModified
		}
	}
	index, err := w.read(ctx, t)
	if other := p.other(); other != "" && err != nil && w.stop == nil && ctx.Err() == nil {
		w.r.o.Log.Info("one form of a manifest cannot be read; the other is", "url", fetch.RedactURL(p.URL), "err", err)
		p.URL, p.Meta, t.req = other, Meta{Date: rsdoc.NoTime}, w.r.request(other, Meta{})
		index, err = w.read(ctx, t)
	}
	switch {
	case w.stop != nil:
		return w.stop
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return w.failed(ctx, p, err)
	}
	w.inARow = 0
	if index == nil {
		return nil
	}
	return w.index(ctx, p, index, kind, path)
}

// read returns an index; a list goes to the visitor. The document is closed while what its first entry leads to is
// looked at, because a server may handle one request at a time.
func (w *walk) read(ctx context.Context, t *docRead) (index *Document, err error) {
	if t.part.Inside() {
		return nil, w.inside(ctx, t)
	}
	attempt := func(a *answer) (err error) {
		index, err = w.attempt(ctx, t, a)
		return err
	}
	err = w.r.retry(ctx, w.window, t.req.URL, func() error {
		err := w.r.ask(ctx, t.req, attempt)
		if !errors.Is(err, errLook) {
			return err
		}
		if t.index, err = w.r.leadsToList(ctx, t.first, t.kind); err != nil {
			return err
		}
		t.looked = true
		return w.r.ask(ctx, t.req, attempt)
	})
	return index, err
}

// errNoPackages is the fault of a package for a visitor that reads none.
var errNoPackages = errors.New("the package has no `contents`, and packages are not read for this")

// inside reads the manifest in a package.
func (w *walk) inside(ctx context.Context, t *docRead) error {
	p := t.part
	from, ok := w.v.(Packages)
	if !ok {
		return errNoPackages
	}
	body, fault, err := from.Manifest(ctx, p)
	switch {
	case err != nil:
		return w.stopped(err)
	case fault != nil:
		return fault
	case p.NotModified:
		_, err = w.unchanged(ctx, t, nil)
		return err
	}
	defer func() { _ = body.Close() }()
	return ReadList(body, p.URL, t.kind, func(l *List) error { return w.show(ctx, p, l) })
}

// show hands a list to the visitor.
func (w *walk) show(ctx context.Context, p *Part, l *List) error {
	err := w.v.List(ctx, p, l)
	if l.whole { // well-formed to its last byte (F58)
		w.tour.Lists++
		w.reads++
	}
	if err != nil && l.err == nil {
		return w.stopped(err)
	}
	return l.err
}

// ReadList reads a list of the kind that is at hand, such as the manifest in a package. Its URL is its base.
func ReadList(body io.Reader, at string, kind rsdoc.Kind, fn func(*List) error) error {
	base, err := url.Parse(at)
	if err != nil {
		return fmt.Errorf("a list at an address that is no URL: %w", err)
	}
	doc, err := open(body, base, kind)
	if err != nil {
		return err
	}
	h, err := doc.Head()
	if err != nil {
		return broken(err)
	}
	if err := h.Expect(kind); err != nil {
		return err
	}
	if h.Shape == rsdoc.Index {
		return &rsdoc.DocumentError{Problem: rsdoc.WrongRoot, Detail: "a manifest cannot be an index"}
	}
	first, err := doc.Next()
	if err != nil && err != io.EOF {
		return broken(err)
	}
	l := &List{Head: h, doc: doc, first: first, kind: kind}
	if err := fn(l); err != nil {
		return err
	}
	return l.err
}

func (w *walk) failed(ctx context.Context, p *Part, err error) error {
	if passing(err) {
		w.inARow++
		return w.fail(ctx, p, 1, err)
	}
	w.inARow = 0
	if p.Depth == 0 { // discovery's knowledge is outdated
		if err := w.r.Forget(ctx, p.URL); err != nil {
			return err
		}
	}
	return w.fail(ctx, p, 1, err)
}

func (w *walk) fail(ctx context.Context, p *Part, n int, err error) error {
	w.tour.Failed += n
	return w.v.Failed(ctx, p, err)
}

// A Ref that a caller wrote down has no times, and nothing here dates from 1970.
func (r Ref) dropZeroTimes() Ref {
	for _, t := range [...]*rsdoc.Micros{&r.LastMod, &r.At, &r.From, &r.Until} {
		if *t == 0 {
			*t = rsdoc.NoTime
		}
	}
	if r.Length == 0 {
		r.Length = -1
	}
	return r
}

// docRead is the reading of one document of a walk, over all attempts.
type docRead struct {
	part    *Part
	kind    rsdoc.Kind
	known   *Document // of an index; else nil
	req     *fetch.Request
	entered bool

	first  string // what the first entry leads to
	looked bool   // at that
	index  bool   // it is a list, so this document is an index
}

var errLook = errors.New("what the first entry leads to must be looked at first")

// attempt returns an index whole; a list goes to the visitor entry by entry.
func (w *walk) attempt(ctx context.Context, t *docRead, a *answer) (*Document, error) {
	p := t.part
	p.Meta = a.meta()
	if a.NotModified {
		return w.unchanged(ctx, t, a)
	}
	doc, err := open(a.Body, a.base, t.kind)
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
	if h.Shape == rsdoc.Index || listsParts(t.kind) {
		return w.r.readWhole(p.URL, a, doc, nil, t.kind)
	}
	first, err := doc.Next()
	if err != nil && err != io.EOF {
		return nil, broken(err)
	}
	if first != nil && first.Fault == "" {
		index := first.Capability == t.kind && t.kind != rsdoc.KindUnknown
		if !index && t.kind == rsdoc.KindResourceList && datedOnly(first) {
			if t.first = first.Loc; !t.looked {
				return nil, errLook
			}
			index = t.index
		}
		if index {
			return w.r.misrooted(p.URL, a, doc, first, t.kind)
		}
	}
	return nil, w.list(ctx, t, doc, first)
}

func (w *walk) unchanged(ctx context.Context, t *docRead, a *answer) (*Document, error) {
	if t.known != nil {
		return unchanged(t.known, a), t.known.Head.Expect(t.kind)
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
	return w.show(ctx, p, &List{Head: h, doc: doc, first: first, kind: t.kind})
}
