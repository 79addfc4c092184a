package pull

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"resyncd/destination"
	"resyncd/destination/fetch"
	"resyncd/destination/rsdoc"
	"resyncd/store"
	"resyncd/sync/coverage"
	"resyncd/sync/merge"
	"resyncd/sync/parsed"
	"resyncd/sync/plan"
	"resyncd/sync/transfer"
)

// changeBuffer is how many entries wait until the style of dating is known. It bounds the memory of any list.
const changeBuffer = 20_000

// Changes reads the Change Lists that can reach the position; uncached passes caches and reads known lists again (F59).
func (p *Puller) Changes(ctx context.Context, ref destination.Ref, uncached bool) error {
	p.chain.unreached = nil
	v := &changeReader{p: p, uncached: uncached}
	if err := p.walkChanges(ctx, ref, v); err != nil {
		return err
	}
	_, hole := p.Cover.FirstHole()
	if v.index == "" || v.index == ref.URL || v.open && !hole {
		return nil // an open list is asked again at its own URL [9]
	}
	return p.walkChanges(ctx, destination.Ref{URL: v.index, Kind: rsdoc.KindChangeList},
		&changeReader{p: p, uncached: uncached})
}

func (p *Puller) fromArchives(ctx context.Context, hole store.Interval) error {
	ref := p.Offer.ChangeListArchive
	if ref == nil && p.chain.archives != "" {
		ref = &destination.Ref{URL: p.chain.archives, Kind: rsdoc.KindChangeListArchive}
	}
	if ref == nil {
		return nil
	}
	return p.walkChanges(ctx, *ref, &changeReader{p: p, archive: true, hole: hole})
}

// fromDumps reads the Change Dumps that stand beside the lists.
func (p *Puller) fromDumps(ctx context.Context, hole store.Interval) error {
	for _, ref := range []*destination.Ref{p.Offer.ChangeDump, p.Offer.ChangeDumpArchive} {
		if ref == nil || ref == p.Offer.ChangeList || p.covered(hole.Until) {
			continue
		}
		if err := p.walkChanges(ctx, *ref, &changeReader{p: p, archive: true, hole: hole}); err != nil {
			return err
		}
	}
	return nil
}

func (p *Puller) walkChanges(ctx context.Context, ref destination.Ref, v *changeReader) error {
	tour, err := p.walk(ctx, v.uncached, ref, v)
	if err != nil {
		return err
	}
	slices.SortFunc(v.found, func(a, b store.Interval) int { return cmp.Compare(a.From, b.From) })
	if !p.Based() && len(v.found) > 0 && p.Offer.ResourceList == nil {
		if err := p.Plan.Flush(ctx); err != nil { // the floor would shut out older entries that wait
			return err
		}
		p.Cover.StartAt(v.found[0].From)
	}
	for _, iv := range v.found {
		p.Cover.AddDocument(iv)
		p.chain.tail = max(p.chain.tail, iv.Until)
	}
	p.chain.lists = append(p.chain.lists, v.found...)
	if err := p.Plan.FlushWith(ctx, p.SetCommit()); err != nil {
		return err
	}
	p.Out.Usable = p.Out.Usable || tour.Lists > 0 || tour.Root != nil
	if v.err != nil && !v.archive {
		p.Fail(v.err)
	}
	if v.read > 0 && p.Out.Kind == "none" && p.Plan.Wanted {
		p.Out.Kind = "incremental"
	}
	return nil
}

// readerPast returns the reader, or one that passes caches.
func (p *Puller) readerPast(caches bool) *destination.Reader {
	if caches {
		return p.Reader.Uncached()
	}
	return p.Reader
}

// changeReader is one walk over Change Lists.
type changeReader struct {
	p        *Puller
	archive  bool
	uncached bool
	hole     store.Interval
	read     int
	open     bool // some list is still written to
	index    string
	found    []store.Interval
	err      error
}

// listLinks is the memory of a list that may answer 304.
type listLinks struct {
	Index    string `json:"index,omitempty"`
	Archives string `json:"archives,omitempty"`
	Early    bool   `json:"early,omitempty"`    // closed, but written before its until
	Dated    bool   `json:"dated,omitempty"`    // a change gets a new date in the index
	Selected string `json:"selected,omitempty"` // parsed.Selection.Digest of the reading
	// Of a package: how its dump described it, its length once it is whole, and why it cannot be used.
	Said  string `json:"said,omitempty"`
	Held  int64  `json:"held,omitempty"`
	Fault string `json:"fault,omitempty"`
}

// ofPackage adds what is known of the package that a manifest lies in.
func (l listLinks) ofPackage(part *destination.Part, doc store.Document) listLinks {
	if part.Inside() {
		l.Said, l.Held = said(part.Package), linksOf(doc).Held
	}
	return l
}

func (l listLinks) body() []byte {
	if l == (listLinks{}) {
		return nil
	}
	b, _ := json.Marshal(l)
	return b
}

// Enter implements destination.Visitor. It selects the parts that are worth a request.
func (v *changeReader) Enter(ctx context.Context, part *destination.Part) (bool, error) {
	pos := v.p.Cover.ProvenPosition()
	from, until := store.Micros(part.From), store.Micros(part.Until)
	if v.archive {
		if until.Known() && until < v.hole.From || from.Known() && from > v.hole.Until {
			return false, nil
		}
		return true, nil
	}
	doc, err := v.p.choosePart(ctx, part, from.Known() && pos.Known() && from >= pos)
	if err != nil {
		return false, err
	}
	doc = v.p.selected(doc)
	known, closed := doc.Complete, doc.Complete && doc.Until.Known()
	past := part.Parent != "" && !part.Newest && until.Known() && pos.Known() && until < pos
	switch {
	case past && (closed && !v.fresh(doc) || !closed && !v.p.Set.Estimated):
		return false, nil // a list that begins at the position is read
	case known && part.Inside() && same(part.Package, &doc) && !v.p.chain.anew &&
		(closed || !v.uncached || !until.Known()): // its end, which lay ahead, may be over
		v.note(doc, v.p.SourceNow())
		v.p.sawList(doc, v.archive, nil, false)
		return false, nil // a package is never read again while its dump says the same of it
	case !known || v.uncached:
		return true, nil
	}
	if part.Parent != "" && !part.Newest && doc.Until.Known() && !v.fresh(doc) &&
		(!until.Known() || until == doc.Until) {
		v.note(doc, doc.Until)
		v.p.sawList(doc, v.archive, nil, false)
		return false, nil // closed at its last reading, so it never changes; the newest is asked again [16]
	}
	part.ETag, part.LastModified = doc.ETag, doc.LastModified
	return true, nil
}

// fresh reports whether a closed list may still change, because it was written before its end and read soon after.
func (v *changeReader) fresh(doc store.Document) bool {
	return doc.Until.Known() && doc.Read+v.p.Offset < doc.Until+merge.Skew && linksOf(doc).Early
}

// selected returns what is remembered of a list. One that was read by another selection counts as unread.
func (p *Puller) selected(doc store.Document) store.Document {
	doc.Complete = doc.Complete && linksOf(doc).Selected == p.Target.Selection.Digest()
	return doc
}

func linksOf(doc store.Document) (l listLinks) {
	if len(doc.Body) > 0 && json.Unmarshal(doc.Body, &l) != nil {
		return listLinks{}
	}
	return l
}

func covers(d store.Document) store.Interval {
	if d.Until.Known() {
		return store.Interval{From: d.From, Until: d.Until}
	}
	return coverage.OpenList(d.From, d.LastEntry)
}

// note takes up what a list proves and where it leads; now is the Source's clock at its reading.
func (v *changeReader) note(doc store.Document, now store.Micros) {
	links := linksOf(doc)
	v.index, v.p.chain.archives = cmp.Or(links.Index, v.index), cmp.Or(links.Archives, v.p.chain.archives)
	if !doc.Until.Known() {
		v.open, v.p.chain.open, v.p.chain.opened = true, true, now
	}
	if doc.From.Known() && doc.From <= now+merge.DateCut { // a list from the future does not count yet
		v.found = append(v.found, covers(doc))
	}
}

// Manifest implements destination.Packages.
func (v *changeReader) Manifest(ctx context.Context, part *destination.Part) (io.ReadCloser, error, error) {
	return v.p.Manifest(ctx, part)
}

// List implements destination.Visitor. A list proves nothing before its end.
func (v *changeReader) List(ctx context.Context, part *destination.Part, l *destination.List) error {
	p := v.p
	prev, err := p.Document(ctx, part.URL)
	if err != nil {
		return err
	}
	prev = p.selected(prev)
	c := &changeList{changeReader: v, part: part, was: prev, now: p.clock(part), prev: prev}
	if l.Head == nil {
		v.note(prev, c.now)
		if v.fresh(prev) {
			prev.Read = p.LocalNow()
			p.pending.Documents = append(p.pending.Documents, prev)
		}
		p.sawList(prev, v.archive, nil, true)
		return nil
	}
	if v.archive || !prev.Complete {
		c.prev = store.Document{}
	}
	id, err := p.Store.EnsureDocument(ctx, p.Claim, p.Set.ID, part.URL, string(rsdoc.KindChangeList))
	if err != nil {
		return err
	}
	if c.from = store.Micros(l.Head.From); !c.from.Known() {
		c.from = store.Micros(part.From)
	}
	c.sought, p.Plan.Lag = p.seek(), p.lagSince(c.prev)
	c.placer = merge.NewPlacer(merge.PlacerHead{
		From: c.from, Until: c.until(l), Read: c.now, Document: id, Reading: merge.NewReading(),
	})
	if err := l.Each(func(e *rsdoc.Entry) error { return c.entry(ctx, l, e) }); err != nil {
		return err
	}
	if err := c.place(ctx); err != nil {
		return err
	}
	c.end(l)
	if part.Package == nil {
		return nil
	}
	// A kill must not cost the packages before.
	documents := &store.Commit{Claim: p.Claim, Documents: p.pending.Documents, Spans: p.pending.Spans}
	p.pending.Documents, p.pending.Spans = nil, nil
	return cmp.Or(p.usedUp(ctx), p.Plan.FlushWith(ctx, documents))
}

// until is the end of a list. That of a package may stand in its dump only.
func (c *changeList) until(l *destination.List) store.Micros {
	if !l.Head.Until.Known() && c.part.Package != nil {
		return store.Micros(c.part.Until)
	}
	return store.Micros(l.Head.Until)
}

// changeList is one reading of a list.
type changeList struct {
	*changeReader
	part   *destination.Part
	now    store.Micros   // by the Source's clock; later times prove nothing
	prev   store.Document // its last complete reading
	was    store.Document // its row
	from   store.Micros
	placer *merge.Placer
	buf    []parsed.Change
	offers []*transfer.Offer // of buf
	n      int64
	asked  int64 // faulty entries with a readable URI
	// sought are the announcements behind the holes, by hole.
	sought []*coverage.Announcements
}

func (c *changeList) entry(ctx context.Context, l *destination.List, e *rsdoc.Entry) error {
	if len(c.buf) >= changeBuffer {
		if err := c.place(ctx); err != nil {
			return err
		}
	}
	c.buf, c.offers = append(c.buf, c.p.Target.ChangeOf(e)), append(c.offers, c.p.offer(c.part, l.Head, e))
	if c.n++; e.Fault != "" {
		c.asked++
		return nil
	}
	for _, a := range c.sought {
		if a != nil {
			a.Saw(parsed.Announced(e))
		}
	}
	return nil
}

func (c *changeList) place(ctx context.Context) error {
	parsed.Place(c.placer, c.buf)
	for i := range c.buf {
		b := &c.buf[i]
		c.p.listed(b.Cand.Version)
		if b.Over {
			continue
		}
		e := plan.Entry{URI: b.URI, Cand: b.Cand, Hinted: b.Fault, Edge: c.untold(b.Cand.Version), Offer: c.offers[i]}
		if e.Offer != nil {
			e.Offer.Version = b.Cand.Version
		}
		if err := c.p.Plan.Add(ctx, e); err != nil {
			return err
		}
	}
	c.buf, c.offers = c.buf[:0], c.offers[:0]
	return nil
}

// untold reports whether the last reading of the list need not have shown an entry.
func (c *changeList) untold(at store.Version) bool {
	return c.prev.Complete && (c.prev.Entries == 0 || c.prev.LastEntry.Known() && at.From >= c.prev.LastEntry)
}

// end judges what the list proves.
func (c *changeList) end(l *destination.List) {
	p, part := c.p, c.part
	c.read++
	url := fetch.RedactURL(part.URL)
	var flaw error
	switch unread := p.unread("Change List", url, l, c.asked); {
	case c.from.Known() && c.from > c.now+merge.Skew: // the position would follow it into the future (F40)
		flaw = clockError{fmt.Errorf(
			"%s: its from, %s, lies in the future by the Source's own clock: nobody can tell what changed before it",
			url, rsdoc.Micros(c.from))}
	case unread > 0:
		flaw = errUnread(url, unread, l.Fault)
	}
	if flaw != nil {
		p.Log.Warn("a Change List proves nothing", "err", flaw)
		c.err = cmp.Or(c.err, flaw)
		c.from = store.NoTime
	}
	until := c.until(l)
	if until.Known() && until > c.now+merge.DateCut { // the list cannot tell of changes to come
		p.Log.Info(
			"a Change List is said to be closed at a time that is still to come; it is taken for an open one",
			"list", url, "until", until.Time())
		until = store.NoTime
	}
	links := listLinks{Selected: p.Target.Selection.Digest()}
	if l, ok := l.Head.Link(rsdoc.RelArchives); ok && part.Package == nil {
		links.Archives = l.Href
	}
	if l, ok := l.Head.Link(rsdoc.RelIndex); ok && part.Package == nil {
		links.Index = l.Href
	}
	if written, ok := parsed.HTTPTime(part.LastModified); ok && until.Known() {
		links.Early = written+merge.DateCut < until
	}
	doc := p.NewDocument(part.URL, string(rsdoc.KindChangeList))
	doc.ETag, doc.LastModified = parsed.Lasting(part.ETag, part.LastModified, c.now)
	if last := c.placer.Last(); last.Known() && c.now-last < parsed.WeakFor {
		doc.ETag, doc.LastModified = "", "" // a change in the same second would answer 304
	}
	doc.SetID, doc.From, doc.Until, doc.LastEntry = p.Set.ID, c.from, until, c.placer.Last()
	doc.Entries, doc.Body = c.n, links.ofPackage(part, c.was).body()
	doc.Complete = flaw == nil && // a 304 would hide the correction
		(c.from.Known() || c.archive || !c.unreached(doc))
	p.pending.Documents = append(p.pending.Documents, doc)
	kind := store.SpanChangeList
	switch {
	case part.Package != nil:
		kind = store.SpanChangeDump
	case c.archive:
		kind = store.SpanArchive
	}
	if iv := covers(doc); coverage.Usable(iv) {
		p.pending.Spans = append(p.pending.Spans, p.span(kind, iv, c.n, part.URL))
	}
	c.note(doc, c.now)
	p.sawList(doc, c.archive, c.sought, sameList(doc, c.prev))
}

// unread reports the bad entries of a list and returns how many of them the Source cannot be asked about.
func (p *Puller) unread(what, url string, l *destination.List, asked int64) int64 {
	if l.Skipped > 0 {
		p.Observe.Skipped(l.Skipped)
		p.Log.Warn("bad entries of a "+what+"; the Source is asked about those whose URI can be read",
			"list", url, "entries", l.Skipped, "asked", asked, "first", l.Fault)
	}
	return l.Skipped - asked
}

func errUnread(url string, n int64, first error) error {
	return fmt.Errorf("%s: %d entries cannot be read, and nobody can tell what they are about (the first: %w)",
		url, n, first)
}

// unreached reports a list without from that may have dropped changes since the position.
func (c *changeList) unreached(doc store.Document) bool {
	known := c.p.Cover.ProvenPosition()
	if c.prev.Complete {
		known = max(known, c.prev.LastEntry)
	}
	oldest := c.placer.First()
	switch {
	case !known.Known() || doc.Entries == 0 && !c.prev.LastEntry.Known():
		return false
	case !oldest.Known():
		oldest = c.now
	case oldest < known, oldest == known && sameList(doc, c.prev):
		return false
	}
	c.p.chain.unreached = append(c.p.chain.unreached,
		unreached{doc: doc, hole: store.Interval{From: known, Until: max(known, oldest)}})
	return true
}

// Failed implements destination.Visitor.
func (v *changeReader) Failed(_ context.Context, part *destination.Part, err error) error {
	url := fetch.RedactURL(part.URL)
	// 404 and 410 mean that the list does not exist. A package that is spoilt beside lists is none to wait for.
	if fetch.KindOf(err) != fetch.Gone && !(v.archive && part.Package != nil && !passing(err)) {
		v.p.chain.unread = fmt.Errorf("%s: %w", url, err)
	}
	v.p.Log.Warn("a Change List could not be read", "list", url, "err", err)
	v.err = cmp.Or(v.err, fmt.Errorf("%s: %w", url, err))
	return nil
}

// clockError is a fault of the Source's clock.
type clockError struct{ error }

// Cause is for fetch.CauseOf.
func (clockError) Cause() string { return store.CauseClock }
