package pull

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"resyncd/destination"
	"resyncd/destination/fetch"
	"resyncd/destination/rsdoc"
	"resyncd/store"
	"resyncd/sync/merge"
	"resyncd/sync/parsed"
	"resyncd/sync/plan"
	"resyncd/sync/spill"
)

// errChanged ends a conditional read at the first part that answers other than 304.
var errChanged = errors.New("list changed")

// errOld ends a baseline whose list is not newer than what is already proven: it could add nothing (coverage.md 4).
var errOld = errors.New("list is not newer than the position")

// errBack ends a reading of a list that gives an older time than at an earlier one: it is read once more, past caches.
var errBack = errors.New("list is older than it was")

// Baseline reads a Resource List, or all parts of its index, into wants.
type Baseline struct {
	Puller *Puller
	o      BaselineOptions
	root   string // the URL of its list, or that of its index
	docs   []store.Document

	begun    bool         // something answered other than 304
	held     int64        // removals that were held then
	number   int64        // newReading's
	At       store.Micros // A: the earliest of what its lists speak of
	latest   store.Micros // the latest
	Listed   int64
	skipped  int64 // entries of which not even the URI could be read
	bad      error
	failures []error
	trusted  bool // every list so far vouches for its at
	back     bool // some list gives an older time than at an earlier reading

	list listRun
}

// listRun is the list of a baseline that is being read.
type listRun struct {
	docID   int64
	reading snapshotOf
	part    merge.Reading // what its entries are worth
	asked   int64         // entries of which only the URI could be read
	torn    bool          // it was begun anew and was another one then, or is not what its index says
}

// snapshotOf tells the versions of a list apart when a broken transfer is begun anew.
type snapshotOf struct {
	url, etag, modified string
	at                  store.Micros
}

// same reports whether two transfers were surely of one version.
func (r snapshotOf) same(o snapshotOf) bool {
	return r == o && (r.etag != "" || r.modified != "" || r.at.Known())
}

// BaselineOptions say what for a list is read.
type BaselineOptions struct {
	// changed reads only what answers other than 304. What is to say that something is absent must be seen whole, so one
	// changed part makes it an unconditional read of all.
	Changed bool
	// reset lets the list override a history that went back.
	reset bool
	// after asks for a list newer than that; NoTime takes any. One that does not tell its time is read.
	After store.Micros
	// uncached reads past caches.
	uncached bool
}

// baselineOutcome is how a baseline ended.
type baselineOutcome struct {
	complete  bool
	unchanged bool // all lists answered 304, nothing was read
	usable    bool // at least one list was read or is unchanged
	old       bool // the list is not newer than asked for; nothing was read
	err       error
}

// takeBaseline reads the list and, if that was complete, makes absent what it does not name and moves the floor.
func (p *Puller) takeBaseline(ctx context.Context, ref destination.Ref, o BaselineOptions) (baselineOutcome, error) {
	b := &Baseline{Puller: p, o: o, root: ref.URL, number: merge.NewReading(), At: store.NoTime, latest: store.NoTime, trusted: true}
	p.Plan.Seen, p.Plan.Reading = nil, merge.Reading{At: store.NoTime, Reset: o.reset, Full: p.Source.Full}
	if o.reset {
		defer p.Source.keep()()
	}
	defer p.Plan.Release() // on the ways out on which what was gathered is not planned: the list is read again then
	reader := p.Source.Reader
	if o.uncached {
		reader = reader.Uncached()
	}
	tour, err := reader.Walk(ctx, ref, rsdoc.KindResourceList, b)
	switch {
	case errors.Is(err, errOld):
		return baselineOutcome{old: true, usable: true}, nil
	case errors.Is(err, errChanged):
		o.Changed = false
		return p.takeBaseline(ctx, ref, o)
	case errors.Is(err, errBack):
		o.Changed, o.uncached = false, true
		p.Plan.Release()
		p.Plan.Batch = p.Plan.Batch[:0]
		return p.takeBaseline(ctx, ref, o)
	case err != nil:
		return baselineOutcome{}, err
	}
	if err := p.Plan.PlanAll(ctx); err != nil {
		return baselineOutcome{}, err
	}
	out := baselineOutcome{usable: tour.Lists > 0}
	if len(b.failures) > 0 {
		out.err = b.failures[0]
	}
	switch {
	case !b.begun && out.err == nil:
		out.unchanged, out.usable = true, true
		return out, nil
	case !tour.Complete || b.list.torn:
		if out.err == nil {
			out.err = fmt.Errorf("%s changed while it was read", fetch.RedactURL(ref.URL))
		}
		return out, nil
	}
	if b.back {
		p.Source.Site.Log.Warn("the Resource List tells an older time than before, past caches too; the Source is asked about all that it says differently",
			"list", fetch.RedactURL(ref.URL))
	}
	if b.skipped > 0 {
		p.Fail(fmt.Errorf("%s: %d entries cannot be read, and nobody can tell what they are about (the first: %w)", fetch.RedactURL(ref.URL), b.skipped, b.bad))
	}
	out.complete = true
	return out, b.finish(ctx, tour)
}

// Open numbers the baseline once there is something to read.
func (b *Baseline) Open(ctx context.Context) error {
	if b.begun {
		return nil
	}
	counts, err := b.Puller.Source.Site.Store.Withheld(ctx, b.Puller.Set.ID)
	if err != nil {
		return err
	}
	b.begun, b.held = true, counts.Held
	b.Puller.Set.Generation++
	b.Puller.Plan.Seen = spill.NewBitmap() // not before: what it is to hold is told by the generation
	c := b.Puller.SetCommit()
	c.Repeatable = true // a want that carries the number is committed later, so it never survives without it
	return b.Puller.Source.Site.Store.Commit(ctx, c)
}

// Enter implements destination.Visitor.
func (b *Baseline) Enter(ctx context.Context, part *destination.Part) (destination.Verdict, error) {
	if !b.o.Changed || b.begun {
		return destination.Read, nil
	}
	if part.Parent != "" && !part.NotModified {
		return destination.Read, b.Open(ctx) // the index changed: all its parts are read
	}
	doc, err := b.Puller.Source.Site.Store.Document(ctx, b.Puller.Source.Site.SourceID, part.URL)
	if errors.Is(err, store.ErrNotFound) || err == nil && !doc.Complete {
		return destination.Read, nil
	}
	if err != nil {
		return destination.Skip, err
	}
	if part.Parent != "" {
		index, err := b.Puller.Source.Site.Store.Document(ctx, b.Puller.Source.Site.SourceID, part.Parent)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return destination.Skip, err
		}
		switch {
		case err != nil || doc.Read < index.Read:
			return destination.Read, nil // no baseline was completed since the index last changed
		case linksOf(doc).Dated:
			return destination.Skip, nil // the index, which answered 304, dates this part before it was read: it is what it was
		}
	}
	part.ETag, part.LastModified = doc.ETag, doc.LastModified
	return destination.Recheck, nil
}

// dates tells whether an index will surely have another date for a part that was just read once that changes: not one by the second,
// in which the part may change once more; and where answers have no Date, nobody knows the time that the index goes by.
func dates(part *destination.Part) bool {
	at := store.Micros(max(part.LastMod, part.At))
	if part.Parent == "" || !at.Known() {
		return false
	}
	return at%merge.Second != 0 || part.Date.Known() && at+parsed.WeakFor < store.Micros(part.Date)
}

// Unchanged implements destination.Visitor.
func (b *Baseline) Unchanged(ctx context.Context, part *destination.Part) error {
	doc, err := b.Puller.Source.Site.Store.Document(ctx, b.Puller.Source.Site.SourceID, part.URL)
	if err != nil {
		return err
	}
	doc.Read, doc.Body = b.Puller.Source.Site.LocalNow(), listLinks{Dated: dates(part)}.body()
	b.Puller.pending.docs = append(b.Puller.pending.docs, doc)
	return nil
}

// Begin implements destination.Visitor.
func (b *Baseline) Begin(ctx context.Context, part *destination.Part, h *rsdoc.Head) error {
	if b.o.Changed && !b.begun && part.Parent != "" {
		return errChanged // its siblings were left out
	}
	at := store.Micros(h.At)
	if !at.Known() {
		at = store.Micros(h.From) // 0.9 [16]
	}
	switch {
	case !at.Known():
		at = store.Micros(part.At)
	case part.At.Known() && at < store.Micros(part.At):
		b.list.torn = true // older than its index says: parts of two generations are no snapshot
	}
	if at.Known() && at > readAt(part, b.Puller.Source)+merge.Skew { // as the floor it would shut out every change until then (F40, F74)
		b.Puller.Source.Site.Log.Warn("at lies in the future; not believed", "list", fetch.RedactURL(part.URL), "at", at.Time())
		at = store.NoTime
	}
	if old, err := b.isOld(ctx, part, at); err != nil || old {
		return cmp.Or(err, errOld)
	}
	if err := b.judge(ctx, part, at); err != nil {
		return err
	}
	if err := b.Open(ctx); err != nil {
		return err
	}
	now := snapshotOf{url: part.URL, etag: part.ETag, modified: part.LastModified, at: at}
	b.list.torn = b.list.torn || b.list.reading.url == part.URL && !b.list.reading.same(now) // entries of an older version were taken for listed
	b.list.reading, b.list.asked = now, 0
	id, err := b.Puller.Source.Site.Store.EnsureDocument(ctx, b.Puller.Source.Site.Claim, b.Puller.Set.ID, part.URL, string(rsdoc.KindResourceList))
	b.list.docID = id
	return err
}

// isOld tells a list that is not newer than asked for. A part of an index says nothing of that: one that never changes keeps
// its at for ever, whatever the others tell.
func (b *Baseline) isOld(ctx context.Context, part *destination.Part, at store.Micros) (bool, error) {
	if !b.o.After.Known() || b.begun {
		return false, nil
	}
	if part.Parent != "" {
		index, err := b.Puller.Source.Site.Store.Document(ctx, b.Puller.Source.Site.SourceID, part.Parent)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return false, err
		}
		if at = index.At; err != nil {
			at = store.NoTime
		}
	}
	return at.Known() && at <= b.o.After, nil
}

// judge finds out what the entries of a list are worth, by what is known of its earlier reading.
func (b *Baseline) judge(ctx context.Context, part *destination.Part, at store.Micros) error {
	known, err := b.Puller.Source.Site.Store.Document(ctx, b.Puller.Source.Site.SourceID, part.URL)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	before := err == nil && known.Complete
	same := part.ETag != "" && part.ETag == known.ETag || part.ETag == "" && part.LastModified != "" && part.LastModified == known.LastModified
	r := merge.Reading{At: at, Trusted: at.Known() && (!before || !known.At.Known() || at > known.At || at == known.At && same)}
	if !at.Known() {
		if r.At = b.estimate(part); before && same && known.At.Known() {
			r.At = min(r.At, known.At) // what was said then is said again, not anew
		}
	}
	was, wasKnown := parsed.HTTPTime(known.LastModified)
	is, isKnown := parsed.HTTPTime(part.LastModified)
	r.Back = before && (at.Known() && known.At.Known() && at < known.At || !at.Known() && wasKnown && isKnown && is < was) ||
		!b.Puller.Set.Estimated && b.Puller.Set.Floor.Known() && r.At < b.Puller.Set.Floor
	if r.Back && !b.o.uncached && !b.o.reset {
		return errBack
	}
	b.trusted, b.back = b.trusted && r.Trusted, b.back || r.Back
	if b.list.part = r; !b.At.Known() || r.At < b.At {
		b.At = r.At
	}
	b.latest = max(b.latest, r.At)
	b.Puller.Plan.Reading.Back = b.back
	return nil
}

// estimate stands in for the at that a list does not give (coverage.md 2): its Last-Modified, else a little before its answer. By
// the earlier of the Source's clock and ours: what lies ahead of what writes the changes would have them all told already.
func (b *Baseline) estimate(part *destination.Part) store.Micros {
	const margin = 5 * 60 * 1e6
	answered, own := readAt(part, b.Puller.Source), b.Puller.Source.Site.LocalNow()
	if lm, ok := parsed.HTTPTime(part.LastModified); ok && lm <= answered {
		return min(lm, own)
	}
	return min(answered, own) - margin
}

// Entry implements destination.Visitor.
func (b *Baseline) Entry(ctx context.Context, _ *destination.Part, e *rsdoc.Entry) error {
	b.Listed++
	c := parsed.ContentOf(e)
	c.State = store.WantPresent
	c.Version = store.Version{From: b.list.part.At, Until: b.list.part.At, Ordinal: e.Ordinal | b.number, Document: b.list.docID}
	if e.Fault != "" {
		b.list.asked++
	}
	return b.Puller.Plan.Add(ctx, plan.Entry{URI: e.Loc, Cand: c, Baseline: true, Trusted: b.list.part.Trusted, Hinted: e.Fault != ""})
}

// End implements destination.Visitor.
func (b *Baseline) End(_ context.Context, part *destination.Part, _ *rsdoc.Head, skipped int64, first error) error {
	if skipped > 0 {
		TellOf(b.Puller.Source.Told.Skipped, skipped)
		b.Puller.Source.Site.Log.Warn("bad entries of a Resource List; the Source is asked about those whose URI can be read",
			"list", fetch.RedactURL(part.URL), "entries", skipped, "asked", b.list.asked, "first", first)
	}
	if unread := skipped - b.list.asked; unread > 0 {
		b.skipped += unread
		if b.bad == nil {
			b.bad = first
		}
	}
	b.list.reading = snapshotOf{}
	etag, modified := parsed.Lasting(part.ETag, part.LastModified, readAt(part, b.Puller.Source))
	b.docs = append(b.docs, store.Document{
		SourceID: b.Puller.Source.Site.SourceID, SetID: b.Puller.Set.ID, URL: part.URL, Kind: string(rsdoc.KindResourceList),
		ETag: etag, LastModified: modified, At: b.list.part.At, From: store.NoTime, Until: store.NoTime,
		LastEntry: store.NoTime, Complete: skipped == b.list.asked, Read: b.Puller.Source.Site.LocalNow(),
		Body: listLinks{Dated: dates(part)}.body(),
	})
	return nil
}

// Failed implements destination.Visitor.
func (b *Baseline) Failed(_ context.Context, part *destination.Part, err error) error {
	b.Puller.Source.Site.Log.Warn("a list could not be read", "list", fetch.RedactURL(part.URL), "err", err)
	b.failures = append(b.failures, fmt.Errorf("%s: %w", fetch.RedactURL(part.URL), err))
	return nil
}

// finish makes absent what a complete list does not name, and only then moves the floor: a kill in between repeats the
// baseline, it never skips the sweep.
func (b *Baseline) finish(ctx context.Context, tour destination.Tour) error {
	p := b.Puller
	if tour.Root != nil {
		if at := store.Micros(tour.Root.Head.At); at.Known() && (!b.At.Known() || at < b.At) {
			b.At = at
		}
	}
	a := b.At
	// What is absent is so by all parts together, so it is as of one instant only where they have that in common.
	p.Plan.Reading.At, p.Plan.Reading.Trusted = a, b.trusted && a == b.latest
	if err := b.Sweep(ctx, a); err != nil {
		return err
	}
	p.Set.Baselines++
	if b.o.reset {
		p.Cover.Reset(a)
	} else {
		p.Cover.AddBaseline(a)
	}
	p.Set.Flawed = b.skipped > 0
	p.Set.Estimated = !b.trusted || b.back && !b.o.reset
	c := p.SetCommit()
	c.Documents = b.docs
	c.Spans = append(c.Spans, p.span(store.SpanBaseline, store.Interval{From: store.NoTime, Until: a}, b.Listed, b.root))
	p.Source.Site.Rows.Lock()
	defer p.Source.Site.Rows.Unlock()
	c.DropTombstones = &store.DropTombstones{SetID: p.Set.ID, At: a - 1, Except: p.Source.Site.InFlight()}
	return p.Source.Site.Store.Commit(ctx, c)
}
