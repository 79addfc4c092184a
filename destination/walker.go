package destination

import (
	"context"
	"errors"

	"resyncd/destination/rsdoc"
)

var _ Walker = (*Reader)(nil)

// Walk implements Walker. Lists are streamed, indexes are held whole (Limits) and remembered.
func (r *Reader) Walk(ctx context.Context, root Ref, kind rsdoc.Kind, v Visitor) (Tour, error) {
	w := &walk{
		r: r, v: v, seen: map[string]struct{}{}, patience: &patience{window: r.retryFor},
		tour: Tour{Date: rsdoc.NoTime},
	}
	p := &Part{Ref: root.timeless(), Newest: true, Meta: Meta{Date: rsdoc.NoTime}}
	if p.Kind == rsdoc.KindUnknown {
		p.Kind = kind
	}
	err := w.visit(ctx, p, kind, nil)
	w.tour.Complete = err == nil && w.tour.Failed == 0 && !w.doubt
	return w.tour, err
}

// WalkUncached implements Walker.
func (r *Reader) WalkUncached(ctx context.Context, root Ref, kind rsdoc.Kind, v Visitor) (Tour, error) {
	return r.Uncached().Walk(ctx, root, kind, v)
}

// walk is the state of one Walk.
type walk struct {
	r        *Reader
	v        Visitor
	tour     Tour
	seen     map[string]struct{} // every list and index met
	patience *patience
	parts    int
	reads    int   // lists that answered 200
	inARow   int   // transient failures without an answer between
	doubt    bool  // something that no Failed tells keeps the walk from being complete
	stop     error // of the visitor or the memory: ends the walk
}

// errStop stands in for walk.stop where an error passes through code that judges failures of documents.
var errStop = errors.New("walk was stopped")

func (w *walk) stopped(err error) error {
	w.stop = err
	return errStop
}

// visit reads one document of a walk, list or index, and what is below it. path are the indexes above. Its error ends
// the walk.
func (w *walk) visit(ctx context.Context, p *Part, kind rsdoc.Kind, path []string) error {
	w.seen[p.URL] = struct{}{}
	known, err := w.r.recall(ctx, p.URL)
	if err != nil {
		return err
	}
	if known != nil && !holdsParts(known) {
		known = nil
	}
	t := &turn{part: p, kind: kind, known: known}
	if known == nil || p.Depth > 0 {
		verdict, err := w.enter(ctx, t)
		if err != nil || verdict == Skip {
			return err
		}
		if verdict == Recheck {
			t.validators = validatorsOf(p.Meta)
		}
	}
	if known != nil {
		t.validators = validators(known)
	}
	index, err := w.read(ctx, t)
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

// enter asks the visitor whether it wants the part.
func (w *walk) enter(ctx context.Context, t *turn) (Verdict, error) {
	t.entered = true
	verdict, err := w.v.Enter(ctx, t.part)
	if err == nil && verdict == Skip {
		w.tour.Skipped++
	}
	return verdict, err
}

// read asks for the document of a turn until it is read or has failed; an index is returned, a list has gone to the
// visitor.
func (w *walk) read(ctx context.Context, t *turn) (index *Document, err error) {
	for {
		err = w.r.retry(ctx, w.patience, t.part.URL, func() error {
			index, err = w.attempt(ctx, t)
			return err
		})
		look, ok := errors.AsType[*lookFirst](err)
		if !ok {
			return index, err
		}
		t.shape = asList
		if w.r.leadsToList(ctx, look.url, t.kind) {
			t.shape = asIndex
		}
	}
}

// failed tells the visitor of a document that could not be read; the walk goes on.
func (w *walk) failed(ctx context.Context, p *Part, err error) error {
	if passing(err) {
		w.inARow++
		return w.fail(ctx, p, 1, err)
	}
	w.inARow = 0
	if p.Depth == 0 { // what discovery knows of it is no longer true
		if err := w.r.Forget(ctx, p.URL); err != nil {
			return err
		}
	}
	return w.fail(ctx, p, 1, err)
}

// fail counts n lists as failed and tells the visitor of the first.
func (w *walk) fail(ctx context.Context, p *Part, n int, err error) error {
	w.tour.Failed += n
	w.tour.Changed = true
	return w.v.Failed(ctx, p, err)
}

func validatorsOf(m Meta) Meta { return Meta{ETag: m.ETag, LastModified: m.LastModified} }

// timeless takes times that are zero as absent: a Ref that a caller wrote down has no times, and nothing here began
// with 1970.
func (r Ref) timeless() Ref {
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
