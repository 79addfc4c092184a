package sync

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sort"

	"resyncd/destination"
	"resyncd/destination/fetch"
	"resyncd/destination/rsdoc"
	"resyncd/store"
)

// changeBuffer is how many entries of a Change List are held back until its style of dating is known (version.go); a
// longer list is judged by its beginning. It bounds the memory of a list of any length.
const changeBuffer = 20_000

// changes reads every Change List whose interval can reach the position, in the order of its index. Wants are recorded
// hole or no hole; only coverage waits (coverage.md 1). uncached re-asks past caches and for lists read before (F59).
func (p *puller) changes(ctx context.Context, ref destination.Ref, uncached bool) error {
	v := &changeReader{p: p, uncached: uncached}
	if err := p.walkChanges(ctx, ref, rsdoc.KindChangeList, v); err != nil {
		return err
	}
	_, hole := p.cover.FirstHole()
	if v.index == "" || v.index == ref.URL || v.open && !hole {
		return nil // an open list is asked again where it is [9]
	}
	return p.walkChanges(ctx, destination.Ref{URL: v.index, Kind: rsdoc.KindChangeList}, rsdoc.KindChangeList,
		&changeReader{p: p, uncached: uncached})
}

// fromArchives reads the archived lists that can fill a hole.
func (p *puller) fromArchives(ctx context.Context, hole store.Interval) error {
	ref := p.offer.ChangeListArchive
	if ref == nil && p.archives != "" {
		ref = &destination.Ref{URL: p.archives, Kind: rsdoc.KindChangeListArchive}
	}
	if ref == nil {
		return nil
	}
	return p.walkChanges(ctx, *ref, rsdoc.KindChangeListArchive, &changeReader{p: p, archive: true, hole: hole})
}

func (p *puller) walkChanges(ctx context.Context, ref destination.Ref, kind rsdoc.Kind, v *changeReader) error {
	reader := p.s.reader
	if v.uncached {
		reader = reader.Uncached()
	}
	tour, err := reader.Walk(ctx, ref, kind, v)
	if err != nil {
		return err
	}
	if err := p.plan.flush(ctx); err != nil {
		return err
	}
	if tour.Lists > 0 || tour.Root != nil {
		p.out.usable = true
	}
	if v.err != nil && !v.archive {
		p.fail(v.err)
	}
	if v.read > 0 && p.out.kind == "none" && p.plan.wanted {
		p.out.kind = "incremental"
	}
	sort.Slice(v.found, func(i, j int) bool { return v.found[i].From < v.found[j].From })
	if !p.based() && len(v.found) > 0 && p.offer.ResourceList == nil {
		p.cover.StartAt(v.found[0].From) // a lone Change List: begin where it begins
	}
	for _, iv := range v.found {
		p.cover.AddDocument(iv)
		p.tail = max(p.tail, iv.Until)
	}
	p.lists = append(p.lists, v.found...)
	return p.commitSet(ctx)
}

// changeReader reads Change Lists into wants and intervals.
type changeReader struct {
	p        *puller
	archive  bool
	uncached bool
	hole     store.Interval // archives: only what can fill this

	placer *Placer
	buf    []change
	head   rsdoc.Head
	docID  int64
	limit  store.Micros // now, by the Source's clock, and a little skew: nothing later counts (F40)
	links  listLinks
	n      int64
	// sought is what the notifications behind the holes announced, by hole; prev is the list as it was read last.
	sought []*Announcements
	prev   store.Document

	read  int
	open  bool // a list was seen that is still written to
	index string
	found []store.Interval
	err   error
}

// listLinks is what must be remembered of a list that answers 304.
type listLinks struct {
	Index    string `json:"index,omitempty"`
	Archives string `json:"archives,omitempty"`
}

func (v *changeReader) follow(l listLinks) {
	if l.Index != "" {
		v.index = l.Index
	}
	if l.Archives != "" {
		v.p.archives = l.Archives
	}
}

// change is an entry held back until it can be placed in time.
type change struct {
	uri   string
	cand  Candidate
	stamp Stamp
}

// Enter implements destination.Visitor: which parts of an index are worth a request.
func (v *changeReader) Enter(ctx context.Context, part *destination.Part) (destination.Verdict, error) {
	pos := v.p.cover.ProvenPosition()
	from, until := store.Micros(part.From), store.Micros(part.Until)
	if v.archive {
		if until.Known() && until < v.hole.From || from.Known() && from > v.hole.Until {
			return destination.Skip, nil
		}
		return destination.Read, nil
	}
	v.prev = store.Document{}
	if part.Parent != "" && until.Known() && pos.Known() && until < pos && !part.Newest {
		return destination.Skip, nil // its interval ends before the position; one that only begins there is read
	}
	doc, err := v.p.s.Store.Document(ctx, v.p.s.src.ID, part.URL)
	if err == nil && doc.Complete {
		v.prev = doc
	}
	if errors.Is(err, store.ErrNotFound) || err == nil && (!doc.Complete || v.uncached) {
		return destination.Read, nil
	}
	if err != nil {
		return destination.Skip, err
	}
	if part.Parent != "" && !part.Newest && doc.Until.Known() && (!until.Known() || until == doc.Until) {
		v.note(doc)
		v.p.sawList(doc, v.archive, nil, false)
		return destination.Skip, nil // closed when last read, so it never changes; the newest is asked again [16]
	}
	part.ETag, part.LastModified = doc.ETag, doc.LastModified
	return destination.Recheck, nil
}

// evidenceMark parts the URL of a Change List from its `from` in the name of the document that versions refer to.
const evidenceMark = "#from="

// covers is what a remembered list proves.
func covers(d store.Document) store.Interval {
	if d.Until.Known() {
		return store.Interval{From: d.From, Until: d.Until}
	}
	return OpenList(d.From, d.LastEntry)
}

// Unchanged implements destination.Visitor.
func (v *changeReader) Unchanged(ctx context.Context, part *destination.Part) error {
	doc, err := v.p.s.Store.Document(ctx, v.p.s.src.ID, part.URL)
	if err != nil {
		return err
	}
	v.note(doc)
	v.opened(doc, readAt(part, v.p.s))
	v.p.sawList(doc, v.archive, nil, true)
	return nil
}

// opened notes when a list that is still written to was answered.
func (v *changeReader) opened(doc store.Document, at store.Micros) {
	if !doc.Until.Known() {
		v.p.opened = at
	}
}

// note takes up what a list proves and where it leads.
func (v *changeReader) note(doc store.Document) {
	var l listLinks
	if len(doc.Body) > 0 && json.Unmarshal(doc.Body, &l) == nil {
		v.follow(l)
	}
	v.open = v.open || !doc.Until.Known()
	v.p.open = v.p.open || v.open
	if doc.From.Known() {
		v.found = append(v.found, covers(doc))
	}
}

// Begin implements destination.Visitor.
func (v *changeReader) Begin(ctx context.Context, part *destination.Part, h *rsdoc.Head) error {
	v.links = listLinks{}
	if l, ok := h.Link(rsdoc.RelArchives); ok {
		v.links.Archives = l.Href
	}
	if l, ok := h.Link(rsdoc.RelIndex); ok {
		v.links.Index = l.Href
	}
	v.limit = readAt(part, v.p.s) + skew
	// A list that rotates under one URL begins its ordinals anew: to the version order it is another document.
	url := part.URL + evidenceMark + h.From.String()
	id, err := v.p.s.Store.EnsureDocument(ctx, v.p.s.claim, v.p.set.ID, url, string(rsdoc.KindChangeList))
	if err != nil {
		return err
	}
	v.head, v.docID, v.buf, v.n = *h, id, v.buf[:0], 0
	v.sought = v.p.seek()
	v.p.plan.lag = v.p.lagSince(v.prev)
	if !v.head.From.Known() {
		v.head.From = part.From
	}
	v.placer = NewPlacer(PlacerHead{
		From: store.Micros(v.head.From), Until: store.Micros(v.head.Until), Read: readAt(part, v.p.s), Document: id,
	})
	return nil
}

// readAt is the time of reading in Source time, as far as the answer tells it.
func readAt(part *destination.Part, s *session) store.Micros {
	if part.Date.Known() {
		s.offset = store.Micros(part.Date) - s.localNow()
		return store.Micros(part.Date)
	}
	return s.localNow()
}

// Entry implements destination.Visitor.
func (v *changeReader) Entry(ctx context.Context, _ *destination.Part, e *rsdoc.Entry) error {
	v.buf = append(v.buf, changeOf(e))
	for _, a := range v.sought {
		if a != nil {
			a.Saw(announced(e))
		}
	}
	v.n++
	if len(v.buf) >= changeBuffer {
		return v.place(ctx)
	}
	return nil
}

// place gives the buffered entries their versions and plans them.
func (v *changeReader) place(ctx context.Context) error {
	stamps := make([]Stamp, len(v.buf))
	for i := range v.buf {
		stamps[i] = v.buf[i].stamp
	}
	for i, version := range v.placer.Place(stamps) {
		v.p.listed(version)
		v.buf[i].cand.Version = version
		if err := v.p.plan.add(ctx, entry{uri: v.buf[i].uri, cand: v.buf[i].cand}); err != nil {
			return err
		}
	}
	v.buf = v.buf[:0]
	return nil
}

// End implements destination.Visitor. Only now does the list prove anything.
func (v *changeReader) End(ctx context.Context, part *destination.Part, h *rsdoc.Head, skipped int64, first error) error {
	if err := v.place(ctx); err != nil {
		return err
	}
	v.read++
	if skipped > 0 {
		v.p.s.observe.skipped(skipped)
		v.p.s.log.Warn("bad entries skipped", "list", part.URL, "entries", skipped, "first", first)
	}
	from := store.Micros(v.head.From)
	ahead := from.Known() && from > v.limit
	if ahead { // else the position would follow it there (F40)
		v.p.s.log.Warn("from lies in the future; not believed", "list", part.URL, "from", from.Time())
		if v.err == nil {
			v.err = fmt.Errorf("%s: its from, %s, lies in the future by the Source's own clock: nobody can tell what changed before it", part.URL, v.head.From)
		}
		from = store.NoTime
	}
	etag, modified := lasting(part.ETag, part.LastModified, readAt(part, v.p.s))
	doc := store.Document{
		SourceID: v.p.s.src.ID, SetID: v.p.set.ID, URL: part.URL, Kind: string(rsdoc.KindChangeList),
		ETag: etag, LastModified: modified, At: store.NoTime, From: from,
		Until: v.clip(part, store.Micros(h.Until)), LastEntry: v.placer.Last(), Entries: v.n, Complete: !ahead, Read: v.p.s.localNow(), // else a 304 would hide that it is right now
	}
	if body, err := json.Marshal(v.links); err == nil && v.links != (listLinks{}) {
		doc.Body = body
	}
	v.p.docs = append(v.p.docs, doc)
	v.p.proved(listKind(v.archive), covers(doc), v.n, part.URL)
	v.note(doc)
	v.opened(doc, v.limit-skew)
	v.p.sawList(doc, v.archive, v.sought, sameList(doc, v.prev))
	if !doc.From.Known() {
		v.p.s.log.Warn("a Change List has no usable from: it proves no interval, so gaps cannot be seen", "list", part.URL)
	}
	return nil
}

// clip keeps an until in the future from moving the position past now and a little skew (F40).
func (v *changeReader) clip(part *destination.Part, until store.Micros) store.Micros {
	if until.Known() && until > v.limit {
		v.p.s.log.Warn("until lies in the future; cut", "list", part.URL, "until", until.Time())
		return v.limit
	}
	return until
}

// Failed implements destination.Visitor.
func (v *changeReader) Failed(_ context.Context, part *destination.Part, err error) error {
	if fetch.KindOf(err) != fetch.Gone { // 404, 410: the Source says that it is not there
		v.p.unread = fmt.Errorf("%s: %w", part.URL, err)
	}
	v.p.s.log.Warn("a Change List could not be read", "list", part.URL, "err", err)
	if v.err == nil {
		v.err = fmt.Errorf("%s: %w", part.URL, err)
	}
	return nil
}
