package sync

import (
	"context"
	"errors"
	"fmt"

	"resyncd/destination"
	"resyncd/destination/rsdoc"
	"resyncd/store"
)

// errChanged ends a conditional read at the first part that answers other than 304.
var errChanged = errors.New("list changed")

// errOld ends a baseline whose list is not newer than what is already proven: it could add nothing (coverage.md 3).
var errOld = errors.New("list is not newer than the position")

// baseline reads a Resource List, or all parts of its index, into wants.
type baseline struct {
	p    *puller
	o    baselineOptions
	list string // its URL, or that of its index
	docs []store.Document

	begun    bool         // something answered other than 304
	held     int64        // removals that were held then
	at       store.Micros // earliest at of all heads
	noAt     bool         // some list carries no at
	modified store.Micros // earliest Last-Modified, for lists without at
	date     store.Micros // Date of the first answer
	listed   int64
	skipped  int64
	bad      error
	failures []error
	docID    int64
	stale    bool

	reading reading // the list that is being read
	torn    bool    // a list was begun anew and was another one then
}

// reading tells the versions of a list apart when a broken transfer is begun anew.
type reading struct {
	url, etag, modified string
	at                  store.Micros
}

// same reports whether two transfers were surely of one version.
func (r reading) same(o reading) bool {
	return r == o && (r.etag != "" || r.modified != "" || r.at.Known())
}

// baselineOptions say what for a list is read.
type baselineOptions struct {
	// changed reads only what answers other than 304. What is to say that something is absent must be seen whole, so one
	// changed part makes it an unconditional read of all.
	changed bool
	// reset lets the list override a history that went back.
	reset bool
	// after asks for a list newer than that; NoTime takes any.
	after store.Micros
}

// baselineOutcome is how a baseline ended.
type baselineOutcome struct {
	complete  bool
	unchanged bool // all lists answered 304, nothing was read
	usable    bool // at least one list was read or is unchanged
	stale     bool // the list is older than the last baseline
	old       bool // the list is not newer than asked for; nothing was read
	err       error
}

// takeBaseline reads the list and, if that was complete, makes absent what it does not name and moves the floor.
func (p *puller) takeBaseline(ctx context.Context, ref destination.Ref, o baselineOptions) (baselineOutcome, error) {
	b := &baseline{p: p, o: o, list: ref.URL, at: store.NoTime, modified: store.NoTime, date: store.NoTime}
	p.plan.seen, p.plan.at, p.plan.reset = nil, store.NoTime, o.reset
	if o.reset {
		defer p.s.turn.keep()()
	}
	defer p.plan.release() // on the ways out on which what was gathered is not planned: the list is read again then
	tour, err := p.s.reader.Walk(ctx, ref, rsdoc.KindResourceList, b)
	switch {
	case errors.Is(err, errOld):
		return baselineOutcome{old: true, usable: true}, nil
	case errors.Is(err, errChanged):
		o.changed = false
		return p.takeBaseline(ctx, ref, o)
	case err != nil:
		return baselineOutcome{}, err
	}
	if err := p.plan.planAll(ctx); err != nil {
		return baselineOutcome{}, err
	}
	out := baselineOutcome{usable: tour.Lists > 0, stale: b.stale}
	if len(b.failures) > 0 {
		out.err = b.failures[0]
	}
	switch {
	case !b.begun && out.err == nil:
		out.unchanged, out.usable = true, true
		return out, nil
	case !tour.Complete || b.stale || b.torn:
		if out.err == nil && !b.stale {
			out.err = fmt.Errorf("%s changed while it was read", ref.URL)
		}
		return out, nil
	}
	out.complete = true
	return out, b.finish(ctx, tour)
}

// begin numbers the baseline once there is something to read.
func (b *baseline) begin(ctx context.Context) error {
	if b.begun {
		return nil
	}
	counts, err := b.p.s.Store.Withheld(ctx, b.p.set.ID)
	if err != nil {
		return err
	}
	b.begun, b.held = true, counts.Held
	b.p.set.Generation++
	b.p.plan.seen = newBitmap() // not before: what it is to hold is told by the generation
	c := b.p.setCommit()
	c.Repeatable = true // a want that carries the number is committed later, so it never survives without it
	return b.p.s.Store.Commit(ctx, c)
}

// snapshot is A: the earliest at; where some list carries none, what stands in for that if it is earlier (coverage.md 1).
func (b *baseline) snapshot() store.Micros {
	if b.at.Known() && !b.noAt {
		return b.at
	}
	const margin = 5 * 60 * 1e6
	a := b.p.s.localNow() - margin
	switch {
	case b.modified.Known():
		a = b.modified
	case b.date.Known():
		a = b.date - margin
	}
	if b.at.Known() {
		a = min(a, b.at)
	}
	return a
}

// Enter implements destination.Visitor.
func (b *baseline) Enter(ctx context.Context, part *destination.Part) (destination.Verdict, error) {
	if !b.o.changed || b.begun {
		return destination.Read, nil
	}
	if part.Parent != "" && !part.NotModified {
		return destination.Read, b.begin(ctx) // the index changed: all its parts are read
	}
	doc, err := b.p.s.Store.Document(ctx, b.p.s.src.ID, part.URL)
	if errors.Is(err, store.ErrNotFound) || err == nil && !doc.Complete {
		return destination.Read, nil
	}
	if err != nil {
		return destination.Skip, err
	}
	if part.Parent != "" {
		index, err := b.p.s.Store.Document(ctx, b.p.s.src.ID, part.Parent)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return destination.Skip, err
		}
		switch {
		case err != nil || doc.Read < index.Read:
			return destination.Read, nil // no baseline was completed since the index last changed
		case part.LastMod.Known() || part.At.Known():
			return destination.Skip, nil // the index, which answered 304, dates this part: it is what it was
		}
	}
	part.ETag, part.LastModified = doc.ETag, doc.LastModified
	return destination.Recheck, nil
}

// Unchanged implements destination.Visitor.
func (b *baseline) Unchanged(context.Context, *destination.Part) error { return nil }

// Begin implements destination.Visitor.
func (b *baseline) Begin(ctx context.Context, part *destination.Part, h *rsdoc.Head) error {
	if b.o.changed && !b.begun && part.Parent != "" {
		return errChanged // its siblings were left out
	}
	at := store.Micros(h.At)
	if !at.Known() {
		at = store.Micros(h.From) // 0.9 [16]
	}
	if !at.Known() {
		at = store.Micros(part.At)
	}
	if at.Known() && at > readAt(part, b.p.s)+skew { // as the floor it would shut out every change until then (F40, F74)
		b.p.s.log.Warn("at lies in the future; not believed", "list", part.URL, "at", at.Time())
		at = store.NoTime
	}
	if at.Known() && b.o.after.Known() && at <= b.o.after && b.listed == 0 {
		return errOld
	}
	if err := b.begin(ctx); err != nil {
		return err
	}
	now := reading{url: part.URL, etag: part.ETag, modified: part.LastModified, at: at}
	b.torn = b.torn || b.reading.url == part.URL && !b.reading.same(now) // entries of an older version were taken for listed
	b.reading = now
	b.note(at, part)
	if at.Known() && b.p.set.Floor.Known() && at < b.p.set.Floor && !b.o.reset {
		b.stale = true
	}
	id, err := b.p.s.Store.EnsureDocument(ctx, b.p.s.claim, b.p.set.ID, part.URL, string(rsdoc.KindResourceList))
	b.docID = id
	b.p.plan.at = b.snapshot()
	return err
}

func (b *baseline) note(at store.Micros, part *destination.Part) {
	m := part.Meta
	if !at.Known() {
		b.noAt = true
	} else if !b.at.Known() || at < b.at {
		b.at = at
	}
	if lm, ok := httpTime(m.LastModified); ok && lm <= readAt(part, b.p.s) && (!b.modified.Known() || lm < b.modified) {
		b.modified = lm
	}
	if d := store.Micros(m.Date); d.Known() && !b.date.Known() {
		b.date = d
	}
}

// Entry implements destination.Visitor.
func (b *baseline) Entry(ctx context.Context, _ *destination.Part, e *rsdoc.Entry) error {
	if b.stale {
		return nil
	}
	b.listed++
	c := contentOf(e)
	c.State = store.WantPresent
	c.Version = store.Version{From: b.p.plan.at, Until: b.p.plan.at, Ordinal: e.Ordinal, Document: b.docID}
	return b.p.plan.add(ctx, entry{uri: e.Loc, cand: c, baseline: true})
}

// End implements destination.Visitor.
func (b *baseline) End(_ context.Context, part *destination.Part, h *rsdoc.Head, skipped int64, first error) error {
	if skipped > 0 {
		b.skipped += skipped
		if b.bad == nil {
			b.bad = fmt.Errorf("%s: %w", part.URL, first)
		}
		b.p.s.observe.skipped(skipped)
		b.p.s.log.Warn("bad entries skipped", "list", part.URL, "entries", skipped, "first", first)
	}
	b.reading = reading{}
	etag, modified := lasting(part.ETag, part.LastModified, readAt(part, b.p.s))
	b.docs = append(b.docs, store.Document{
		SourceID: b.p.s.src.ID, SetID: b.p.set.ID, URL: part.URL, Kind: string(rsdoc.KindResourceList),
		ETag: etag, LastModified: modified, At: store.Micros(h.At), From: store.NoTime, Until: store.NoTime,
		LastEntry: store.NoTime, Complete: true, Read: b.p.s.localNow(),
	})
	return nil
}

// Failed implements destination.Visitor.
func (b *baseline) Failed(_ context.Context, part *destination.Part, err error) error {
	b.p.s.log.Warn("a list could not be read", "list", part.URL, "err", err)
	b.failures = append(b.failures, fmt.Errorf("%s: %w", part.URL, err))
	return nil
}

// finish makes absent what a complete list does not name, and only then moves the floor: a kill in between repeats the
// baseline, it never skips the sweep.
func (b *baseline) finish(ctx context.Context, tour destination.Tour) error {
	p := b.p
	if tour.Root != nil {
		if at := store.Micros(tour.Root.Head.At); at.Known() && (!b.at.Known() || at < b.at) {
			b.at = at
		}
	}
	a := b.snapshot()
	settle := &store.Settle{SetID: p.set.ID, Generation: p.set.Generation, At: a}
	if err := p.s.Store.Commit(ctx, &store.Commit{Claim: p.s.claim, Settle: settle}); err != nil {
		return err
	}
	if err := b.sweep(ctx, a); err != nil {
		return err
	}
	p.set.Baselines++
	if b.o.reset {
		p.cover.Reset(a)
	} else {
		p.cover.AddBaseline(a)
	}
	c := p.setCommit()
	c.Documents = b.docs
	c.Spans = append(c.Spans, p.span(store.SpanBaseline, store.Interval{From: store.NoTime, Until: a}, b.listed, b.list))
	f := p.s.flight
	f.mu.Lock()
	defer f.mu.Unlock()
	c.DropTombstones = &store.DropTombstones{SetID: p.set.ID, At: a - 1, Except: f.aloft()}
	return p.s.Store.Commit(ctx, c)
}
