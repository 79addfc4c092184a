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

// errOld ends a baseline whose list is not newer than the proven position (coverage.md 4).
var errOld = errors.New("list is not newer than the position")

// errAgain ends a reading that has to begin anew, with the options that were changed for it.
var errAgain = errors.New("list is to be read again")

// Baseline reads a Resource List, or all parts of its index, into wants.
type Baseline struct {
	*Puller
	o    BaselineOptions
	root string // URL of its list or index
	docs []store.Document

	begun   bool         // some list did not answer 304
	held    int64        // held removals at the beginning
	number  int64        // of merge.NewReading
	At      store.Micros // A, the earliest time of its lists
	latest  store.Micros // the latest time of its lists
	Listed  int64
	skipped int64 // entries whose URI cannot be read
	bad     error
	failed  error      // the first failure of a list
	trusted bool       // every list vouches for its at
	back    bool       // some list is older than at an earlier reading
	torn    bool       // two versions were mixed
	reading snapshotOf // the list that is being read
	docID   int64
}

// snapshotOf is the version of a list.
type snapshotOf struct {
	url, etag, modified string
	at                  store.Micros
}

// BaselineOptions say how a list is read.
type BaselineOptions struct {
	// Changed reads only what does not answer 304; one changed part makes the reading unconditional.
	Changed bool
	// reset lets the list override a history that went back.
	reset bool
	// After asks for a list newer than that; NoTime accepts any. A list without time is read.
	After store.Micros
	// uncached reads past caches.
	uncached bool
	inside   bool // reads no `contents`
}

// Rebase takes a baseline. Only a complete one makes unlisted resources absent and moves the floor.
func (p *Puller) Rebase(ctx context.Context, list *destination.Ref, o BaselineOptions) error {
	if list == nil {
		return nil // a lone Change List needs no baseline
	}
	b := &Baseline{Puller: p, o: o, root: list.URL, number: merge.NewReading(), At: store.NoTime, latest: store.NoTime,
		trusted: true}
	p.Plan.Seen, p.Plan.Left = nil, spill.NewBitmap()
	p.Plan.Reading = merge.Reading{At: store.NoTime, Reset: o.reset, Full: p.Full}
	if o.reset {
		defer p.Keep()()
	}
	defer p.Plan.Release() // on errors, entries still gathered are dropped and the list is read again
	tour, err := p.walk(ctx, o.uncached, *list, b)
	switch {
	case errors.Is(err, errOld):
		p.Out.Usable = true
		return nil
	case errors.Is(err, errAgain):
		p.Plan.Release()
		p.Plan.Batch = p.Plan.Batch[:0]
		return p.Rebase(ctx, list, b.o)
	case err != nil:
		return err
	}
	if err := p.Plan.PlanAll(ctx); err != nil {
		return err
	}
	unchanged := !b.begun && b.failed == nil // all lists answered 304
	if p.Out.Usable = p.Out.Usable || tour.Lists > 0 || unchanged; unchanged {
		return nil
	}
	complete := tour.Complete && !b.torn
	if !complete && b.failed == nil {
		b.failed = fmt.Errorf("%s changed while it was read", fetch.RedactURL(list.URL))
	}
	if complete {
		if err := b.finish(ctx, tour); err != nil {
			return err
		}
		if list.Kind == rsdoc.KindResourceDump {
			for i := range b.docs {
				p.forgetManifest(ctx, b.docs[i].URL)
			}
		}
	}
	if b.failed != nil {
		p.Fail(fmt.Errorf("the baseline is incomplete, nothing was removed: %w", b.failed))
	}
	if tour.Lists > 0 {
		p.Out.Kind = "baseline"
	}
	if !complete {
		return nil
	}
	for _, iv := range p.chain.lists {
		p.Cover.AddDocument(iv)
	}
	return p.commitSet(ctx)
}

func (b *Baseline) Open(ctx context.Context) error {
	if b.begun {
		return nil
	}
	counts, err := b.Store.Withheld(ctx, b.Set.ID)
	if err != nil {
		return err
	}
	b.begun, b.held = true, counts.Held
	b.Set.Generation++
	b.Plan.Seen = spill.NewBitmap() // Seen belongs to this generation
	c := b.SetCommit()
	c.Repeatable = true // later commits write wants of this generation
	return b.Store.Commit(ctx, c)
}

// Enter implements destination.Visitor.
func (b *Baseline) Enter(ctx context.Context, part *destination.Part) (bool, error) {
	doc, err := b.choosePart(ctx, part, b.Set.Resources == 0)
	if part.Package != nil && b.o.inside {
		part.URL = part.Package.URL
	}
	if err != nil || !b.o.Changed || b.begun {
		return true, err
	}
	if part.Parent != "" && !part.NotModified {
		return true, b.Open(ctx) // the index changed: all its parts are read
	}
	if !doc.Complete {
		return true, nil
	}
	if part.Parent != "" {
		index, err := b.Document(ctx, part.Parent)
		switch {
		case err != nil:
			return false, err
		case index.URL == "" || doc.Read < index.Read:
			return true, nil // no baseline was completed since the index changed
		case linksOf(doc).Dated, part.Inside() && same(part.Package, &doc):
			return false, nil // the unchanged index dates this part before its last reading
		}
	}
	part.ETag, part.LastModified = doc.ETag, doc.LastModified
	return true, nil
}

// dates reports whether an index surely gives a changed part a new date, not one of the same whole second.
func dates(part *destination.Part) bool {
	at := store.Micros(max(part.LastMod, part.At))
	if part.Parent == "" || !at.Known() {
		return false
	}
	return at%merge.Second != 0 || part.Date.Known() && at+parsed.WeakFor < store.Micros(part.Date)
}

// List implements destination.Visitor.
func (b *Baseline) List(ctx context.Context, part *destination.Part, l *destination.List) error {
	if l.Head == nil {
		doc, err := b.Document(ctx, part.URL)
		doc.Read, doc.Body = b.LocalNow(), listLinks{Dated: dates(part)}.ofPackage(part, doc).body()
		b.pending.Documents = append(b.pending.Documents, doc)
		return err
	}
	r, err := b.begin(ctx, part, l.Head)
	if err != nil {
		return err
	}
	asked := int64(0) // faulty entries with a readable URI
	err = l.Each(func(e *rsdoc.Entry) error {
		c := b.Target.ContentOf(e)
		if !c.Left {
			b.Listed++
		}
		c.State = store.WantPresent
		c.Version = store.Version{From: r.At, Until: r.At, Ordinal: e.Ordinal | b.number, Document: b.docID}
		if e.Fault != "" {
			asked++
		}
		offer := b.offer(part, l.Head, e)
		if offer != nil {
			offer.Version = c.Version
		}
		return b.Plan.Add(ctx, plan.Entry{URI: e.Loc, Cand: c, Baseline: true, Trusted: r.Trusted,
			Hinted: e.Fault != "", Offer: offer})
	})
	if err != nil {
		return err
	}
	if err := b.usedUp(ctx); err != nil {
		return err
	}
	row, err := b.Document(ctx, part.URL)
	if err != nil {
		return err
	}
	unread := b.unread("Resource List", fetch.RedactURL(part.URL), l, asked)
	if unread > 0 {
		b.skipped, b.bad = b.skipped+unread, cmp.Or(b.bad, l.Fault)
	}
	b.reading = snapshotOf{}
	doc := b.NewDocument(part.URL, string(rsdoc.KindResourceList))
	doc.ETag, doc.LastModified = parsed.Lasting(part.ETag, part.LastModified, b.clock(part))
	doc.SetID, doc.At, doc.Complete = b.Set.ID, r.At, unread == 0
	doc.Body = listLinks{Dated: dates(part)}.ofPackage(part, row).body()
	b.docs = append(b.docs, doc)
	return nil
}

// begin judges a list by its head.
func (b *Baseline) begin(ctx context.Context, part *destination.Part, h *rsdoc.Head) (r merge.Reading, err error) {
	if part.Inside() && !b.o.inside && b.reading.url != "" && b.reading.url != part.URL {
		b.o.Changed, b.o.inside = false, true // `contents` that broke off told of resources that may be gone
		return r, errAgain
	}
	if b.o.Changed && !b.begun && part.Parent != "" {
		b.o.Changed = false // a part does not answer 304, and absence needs a whole list
		return r, errAgain
	}
	at := store.Micros(h.At)
	if !at.Known() {
		at = store.Micros(h.From) // 0.9 [16]
	}
	switch {
	case !at.Known():
		at = store.Micros(part.At)
	case part.At.Known() && at < store.Micros(part.At):
		b.torn = true // parts of two generations are no snapshot
	}
	if at.Known() && at > b.clock(part)+merge.Skew {
		// such a floor would shut out every change until then (F40, F74)
		b.Log.Warn("at lies in the future; not believed", "list", fetch.RedactURL(part.URL), "at", at.Time())
		at = store.NoTime
	}
	if old, err := b.isOld(ctx, part, at); err != nil || old {
		return r, cmp.Or(err, errOld)
	}
	if r, err = b.judge(ctx, part, at); err != nil {
		return r, err
	}
	if err := b.Open(ctx); err != nil {
		return r, err
	}
	now := snapshotOf{url: part.URL, etag: part.ETag, modified: part.LastModified, at: at}
	// A transfer that began anew may bring another version, and entries of the older one were taken for listed.
	unnamed := snapshotOf{url: part.URL, at: store.NoTime}
	b.torn = b.torn || b.reading.url != "" && (b.reading != now || now == unnamed)
	b.reading = now
	b.docID, err = b.Store.EnsureDocument(ctx, b.Claim, b.Set.ID, part.URL, string(rsdoc.KindResourceList))
	return r, err
}

// isOld reports whether a list is not newer than After. An unchanging part keeps its at, so the index decides.
func (b *Baseline) isOld(ctx context.Context, part *destination.Part, at store.Micros) (bool, error) {
	if !b.o.After.Known() || b.begun {
		return false, nil
	}
	if part.Parent != "" {
		index, err := b.Document(ctx, part.Parent)
		if err != nil {
			return false, err
		}
		at = index.At
	}
	return at.Known() && at <= b.o.After, nil
}

func (b *Baseline) judge(ctx context.Context, part *destination.Part, at store.Micros) (r merge.Reading, err error) {
	known, err := b.Document(ctx, part.URL)
	if err != nil {
		return r, err
	}
	before := known.Complete
	same := part.ETag != "" && part.ETag == known.ETag ||
		part.ETag == "" && part.LastModified != "" && part.LastModified == known.LastModified
	r = merge.Reading{At: at,
		Trusted: at.Known() && (!before || !known.At.Known() || at > known.At || at == known.At && same)}
	if !at.Known() {
		if r.At = b.estimate(part); before && same && known.At.Known() {
			r.At = min(r.At, known.At) // an unchanged list makes no newer statement
		}
	}
	was, wasKnown := parsed.HTTPTime(known.LastModified)
	is, isKnown := parsed.HTTPTime(part.LastModified)
	r.Back = before &&
		(at.Known() && known.At.Known() && at < known.At || !at.Known() && wasKnown && isKnown && is < was) ||
		!b.Set.Estimated && b.Set.Floor.Known() && r.At < b.Set.Floor
	if r.Back && !b.o.uncached && !b.o.reset {
		b.o.Changed, b.o.uncached = false, true // a cache may be stale
		return r, errAgain
	}
	b.trusted, b.back = b.trusted && r.Trusted, b.back || r.Back
	b.At, b.latest = store.Earliest(b.At, r.At), max(b.latest, r.At)
	b.Plan.Reading.Back = b.back
	return r, nil
}

// estimate replaces a missing at by the earlier clock, which claims no change not told yet (coverage.md 2).
func (b *Baseline) estimate(part *destination.Part) store.Micros {
	const margin = 5 * 60 * 1e6
	answered, own := b.clock(part), b.LocalNow()
	if lm, ok := parsed.HTTPTime(part.LastModified); ok && lm <= answered {
		return min(lm, own)
	}
	return min(answered, own) - margin
}

// Failed implements destination.Visitor.
func (b *Baseline) Failed(ctx context.Context, part *destination.Part, err error) error {
	if part.Inside() && !passing(err) {
		b.forgetManifest(ctx, part.URL) // a power cut may have spoilt it
	}
	b.Log.Warn("a list could not be read", "list", fetch.RedactURL(part.URL), "err", err)
	b.failed = cmp.Or(b.failed, fmt.Errorf("%s: %w", fetch.RedactURL(part.URL), err))
	return nil
}

// finish makes unlisted resources absent and then moves the floor, so that a kill in between repeats the sweep.
func (b *Baseline) finish(ctx context.Context, tour destination.Tour) error {
	p := b.Puller
	if b.back {
		p.Log.Warn("the Resource List tells an older time than before, past caches too; "+
			"the Source is asked about all that it says differently", "list", fetch.RedactURL(b.root))
	}
	if b.skipped > 0 {
		p.Fail(errUnread(fetch.RedactURL(b.root), b.skipped, b.bad))
	}
	if tour.Root != nil {
		b.At = store.Earliest(b.At, store.Micros(tour.Root.Head.At))
	}
	a := b.At
	// An absence is of one instant only if all parts have the same at.
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
	c.Spans = append(c.Spans,
		p.span(store.SpanBaseline, store.Interval{From: store.NoTime, Until: a}, b.Listed, b.root))
	p.Rows.Lock()
	defer p.Rows.Unlock()
	c.DropTombstones = &store.DropTombstones{SetID: p.Set.ID, At: a - 1, Except: p.InFlight()}
	return p.Store.Commit(ctx, c)
}
