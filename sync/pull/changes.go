package pull

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"resyncd/destination"
	"resyncd/destination/fetch"
	"resyncd/destination/rsdoc"
	"resyncd/store"
	"resyncd/sync/coverage"
	"resyncd/sync/merge"
	"resyncd/sync/parsed"
	"resyncd/sync/plan"
)

// changeBuffer is how many entries wait until the style of dating is known. It bounds the memory of any list.
const changeBuffer = 20_000

// Changes reads the Change Lists that can reach the position, in index order. A hole delays only coverage, not wants
// (coverage.md 2); uncached passes caches and reads known lists again (F59).
func (p *Puller) Changes(ctx context.Context, ref destination.Ref, uncached bool) error {
	p.chain.unreached = nil
	v := &changeReader{p: p, uncached: uncached}
	if err := p.walkChanges(ctx, ref, rsdoc.KindChangeList, v); err != nil {
		return err
	}
	_, hole := p.Cover.FirstHole()
	if v.index == "" || v.index == ref.URL || v.open && !hole {
		return nil // an open list is asked again at its own URL [9]
	}
	return p.walkChanges(ctx, destination.Ref{URL: v.index, Kind: rsdoc.KindChangeList}, rsdoc.KindChangeList,
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
	return p.walkChanges(ctx, *ref, rsdoc.KindChangeListArchive, &changeReader{p: p, archive: true, hole: hole})
}

func (p *Puller) walkChanges(ctx context.Context, ref destination.Ref, kind rsdoc.Kind, v *changeReader) error {
	reader := p.Reader
	if v.uncached {
		reader = reader.Uncached()
	}
	tour, err := reader.Walk(ctx, ref, kind, v)
	if err != nil {
		return err
	}
	if err := p.Plan.Flush(ctx); err != nil {
		return err
	}
	if tour.Lists > 0 || tour.Root != nil {
		p.Out.Usable = true
	}
	if v.err != nil && !v.archive {
		p.Fail(v.err)
	}
	if v.read > 0 && p.Out.Kind == "none" && p.Plan.Wanted {
		p.Out.Kind = "incremental"
	}
	slices.SortFunc(v.found, func(a, b store.Interval) int { return cmp.Compare(a.From, b.From) })
	if !p.Based() && len(v.found) > 0 && p.Offer.ResourceList == nil {
		p.Cover.StartAt(v.found[0].From)
	}
	for _, iv := range v.found {
		p.Cover.AddDocument(iv)
		p.chain.tail = max(p.chain.tail, iv.Until)
	}
	p.chain.lists = append(p.chain.lists, v.found...)
	return p.commitSet(ctx)
}

type changeReader struct {
	p        *Puller
	archive  bool
	uncached bool
	hole     store.Interval

	list   changeList
	placer *merge.Placer
	buf    []parsed.Change
	n      int64
	// sought are the announcements behind the holes, by hole.
	sought []*coverage.Announcements

	read  int
	open  bool // some list is still written to
	index string
	found []store.Interval
	err   error
}

type changeList struct {
	head   rsdoc.Head
	docID  int64
	now    store.Micros // by the Source's clock; later times prove nothing
	number int64        // of its reading
	asked  int64        // faulty entries with a readable URI
	links  listLinks
	prev   store.Document
}

// listLinks is the memory of a list that may answer 304.
type listLinks struct {
	Index    string `json:"index,omitempty"`
	Archives string `json:"archives,omitempty"`
	Early    bool   `json:"early,omitempty"` // closed, but written before its until
	Dated    bool   `json:"dated,omitempty"` // a change gets a new date in the index
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
	v.list.prev = store.Document{}
	doc, err := v.p.Document(ctx, part.URL)
	if err != nil {
		return false, err
	}
	known, closed := doc.Complete, doc.Complete && doc.Until.Known()
	if known {
		v.list.prev = doc
	}
	past := part.Parent != "" && !part.Newest && until.Known() && pos.Known() && until < pos
	switch {
	case past && (closed && !v.fresh(doc) || !closed && !v.p.Set.Estimated):
		return false, nil // a list that begins at the position is read
	case !known || v.uncached:
		return true, nil
	}
	if part.Parent != "" && !part.Newest && doc.Until.Known() && !v.fresh(doc) &&
		(!until.Known() || until == doc.Until) {
		v.list.now = doc.Until
		v.note(doc)
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

// List implements destination.Visitor. A list proves nothing before its end.
func (v *changeReader) List(ctx context.Context, part *destination.Part, l *destination.List) error {
	if l.Head == nil {
		return v.unchanged(ctx, part)
	}
	if err := v.begin(ctx, part, l.Head); err != nil {
		return err
	}
	if err := l.Each(func(e *rsdoc.Entry) error { return v.entry(ctx, e) }); err != nil {
		return err
	}
	return v.end(ctx, part, l)
}

func (v *changeReader) unchanged(ctx context.Context, part *destination.Part) error {
	doc, err := v.p.Store.Document(ctx, v.p.SourceID, part.URL)
	if err != nil {
		return err
	}
	v.list.now = v.p.answered(part.Date)
	v.note(doc)
	if v.fresh(doc) {
		doc.Read = v.p.LocalNow()
		v.p.pending.Documents = append(v.p.pending.Documents, doc)
	}
	v.p.sawList(doc, v.archive, nil, true)
	return nil
}

func (v *changeReader) note(doc store.Document) {
	links := linksOf(doc)
	v.index, v.p.chain.archives = cmp.Or(links.Index, v.index), cmp.Or(links.Archives, v.p.chain.archives)
	if !doc.Until.Known() {
		v.open, v.p.chain.open, v.p.chain.opened = true, true, v.list.now
	}
	if doc.From.Known() && doc.From <= v.list.now+merge.DateCut { // a list from the future does not count yet
		v.found = append(v.found, covers(doc))
	}
}

func (v *changeReader) begin(ctx context.Context, part *destination.Part, h *rsdoc.Head) error {
	v.list.links = listLinks{}
	if l, ok := h.Link(rsdoc.RelArchives); ok {
		v.list.links.Archives = l.Href
	}
	if l, ok := h.Link(rsdoc.RelIndex); ok {
		v.list.links.Index = l.Href
	}
	v.list.now, v.list.number, v.list.asked = v.p.answered(part.Date), merge.NewReading(), 0
	id, err := v.p.Store.EnsureDocument(ctx, v.p.Claim, v.p.Set.ID, part.URL, string(rsdoc.KindChangeList))
	if err != nil {
		return err
	}
	v.list.head, v.list.docID, v.buf, v.n = *h, id, v.buf[:0], 0
	v.sought = v.p.seek()
	v.p.Plan.Lag = v.p.lagSince(v.list.prev)
	if !v.list.head.From.Known() {
		v.list.head.From = part.From
	}
	v.placer = merge.NewPlacer(merge.PlacerHead{
		From: store.Micros(v.list.head.From), Until: store.Micros(v.list.head.Until), Read: v.list.now, Document: id,
		Reading: v.list.number,
	})
	return nil
}

func (v *changeReader) entry(ctx context.Context, e *rsdoc.Entry) error {
	if len(v.buf) >= changeBuffer {
		if err := v.place(ctx); err != nil {
			return err
		}
	}
	v.buf = append(v.buf, parsed.ChangeOf(e))
	if v.n++; e.Fault != "" {
		v.list.asked++
		return nil
	}
	for _, a := range v.sought {
		if a != nil {
			a.Saw(parsed.Announced(e))
		}
	}
	return nil
}

func (v *changeReader) place(ctx context.Context) error {
	stamps := make([]merge.Stamp, len(v.buf))
	for i := range v.buf {
		stamps[i] = v.buf[i].Stamp
	}
	for i, version := range v.placer.Place(stamps) {
		b := &v.buf[i]
		v.p.listed(version)
		b.Cand.Version = version
		if err := v.p.Plan.Add(ctx,
			plan.Entry{URI: b.URI, Cand: b.Cand, Hinted: b.Fault, Edge: v.untold(version)}); err != nil {
			return err
		}
	}
	v.buf = v.buf[:0]
	return nil
}

// untold reports whether the last reading of the list need not have shown an entry.
func (v *changeReader) untold(at store.Version) bool {
	return v.list.prev.Complete &&
		(v.list.prev.Entries == 0 || v.list.prev.LastEntry.Known() && at.From >= v.list.prev.LastEntry)
}

func (v *changeReader) end(ctx context.Context, part *destination.Part, l *destination.List) error {
	skipped, first := l.Skipped, l.Fault
	if err := v.place(ctx); err != nil {
		return err
	}
	v.read++
	url := fetch.RedactURL(part.URL)
	if skipped > 0 {
		v.p.Told.Skipped(skipped)
		v.p.Log.Warn("bad entries of a Change List; the Source is asked about those whose URI can be read",
			"list", url, "entries", skipped, "asked", v.list.asked, "first", first)
	}
	from := store.Micros(v.list.head.From)
	var flaw error
	switch {
	case from.Known() && from > v.list.now+merge.Skew: // the position would follow it into the future (F40)
		flaw = &aheadError{url, v.list.head.From}
	case skipped > v.list.asked:
		flaw = fmt.Errorf("%s: %d entries cannot be read, and nobody can tell what they are about (the first: %w)",
			url, skipped-v.list.asked, first)
	}
	if flaw != nil {
		v.p.Log.Warn("a Change List proves nothing", "err", flaw)
		v.err = cmp.Or(v.err, flaw)
		from = store.NoTime
	}
	until := store.Micros(l.Head.Until)
	if until.Known() && until > v.list.now+merge.DateCut { // the list cannot tell of changes to come
		v.p.Log.Info(
			"a Change List is said to be closed at a time that is still to come; it is taken for an open one",
			"list", url, "until", until.Time())
		until = store.NoTime
	}
	if written, ok := parsed.HTTPTime(part.LastModified); ok && until.Known() {
		v.list.links.Early = written+merge.DateCut < until
	}
	etag, modified := parsed.Lasting(part.ETag, part.LastModified, v.list.now)
	if v.placer.Last().Known() && v.list.now-v.placer.Last() < parsed.WeakFor {
		// a change in the same second would answer 304
		etag, modified = "", ""
	}
	doc := v.p.NewDocument(part.URL, string(rsdoc.KindChangeList))
	doc.SetID, doc.ETag, doc.LastModified, doc.From, doc.Until = v.p.Set.ID, etag, modified, from, until
	doc.LastEntry, doc.Entries, doc.Body = v.placer.Last(), v.n, v.list.links.body()
	doc.Complete = flaw == nil // a 304 would hide the correction
	if flaw == nil && !from.Known() && !v.archive && v.unreached(doc) {
		doc.Complete = false
	}
	v.p.pending.Documents = append(v.p.pending.Documents, doc)
	kind := store.SpanChangeList
	if v.archive {
		kind = store.SpanArchive
	}
	if iv := covers(doc); coverage.Usable(iv) {
		v.p.pending.Spans = append(v.p.pending.Spans, v.p.span(kind, iv, v.n, part.URL))
	}
	v.note(doc)
	v.p.sawList(doc, v.archive, v.sought, sameList(doc, v.list.prev))
	return nil
}

// unreached reports a list without from that may have dropped changes since the position.
func (v *changeReader) unreached(doc store.Document) bool {
	known := v.p.Cover.ProvenPosition()
	if v.list.prev.Complete {
		known = max(known, v.list.prev.LastEntry)
	}
	oldest := v.placer.First()
	switch {
	case !known.Known() || doc.Entries == 0 && !v.list.prev.LastEntry.Known():
		return false
	case !oldest.Known():
		oldest = v.list.now
	case oldest < known, oldest == known && sameList(doc, v.list.prev):
		return false
	}
	v.p.chain.unreached = append(v.p.chain.unreached,
		unreached{doc: doc, hole: store.Interval{From: known, Until: max(known, oldest)}})
	return true
}

// Failed implements destination.Visitor.
func (v *changeReader) Failed(_ context.Context, part *destination.Part, err error) error {
	url := fetch.RedactURL(part.URL)
	if fetch.KindOf(err) != fetch.Gone { // 404 and 410 mean that the list does not exist
		v.p.chain.unread = fmt.Errorf("%s: %w", url, err)
	}
	v.p.Log.Warn("a Change List could not be read", "list", url, "err", err)
	v.err = cmp.Or(v.err, fmt.Errorf("%s: %w", url, err))
	return nil
}

// aheadError tells of a document that begins ahead of the Source's own clock.
type aheadError struct {
	url  string
	from rsdoc.Micros
}

func (e *aheadError) Error() string {
	return fmt.Sprintf(
		"%s: its from, %s, lies in the future by the Source's own clock: nobody can tell what changed before it",
		e.url, e.from)
}

// Cause is for fetch.CauseOf.
func (e *aheadError) Cause() string { return store.CauseClock }
