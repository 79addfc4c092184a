package sync

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"

	"resyncd/destination"
	"resyncd/destination/feed"
	"resyncd/destination/fetch"
	"resyncd/store"
)

// topic brings a set up to what its topic says: the entries of a feed, or the one document that it is.
func (p *puller) topic(ctx context.Context) error {
	a := &p.offer.Topic.Answer
	if a.URL == "" { // nothing answered; the offer tells why
		return nil
	}
	if date := store.Micros(a.Date); date.Known() {
		p.s.offset = date - p.s.localNow()
	}
	if a.NotModified {
		p.out.usable = true
		if err := p.rememberTopic(); err != nil { // of the page that led here
			return err
		}
		return p.commitSet(ctx)
	}
	id, err := p.s.Store.EnsureDocument(ctx, p.s.claim, p.set.ID, a.URL, string(destination.KindFeed))
	if err != nil {
		return err
	}
	p.plan.document, p.plan.news = id, p.heardItem
	if a.Format != feed.None {
		return p.feed(ctx)
	}
	was := false
	if was, err = p.s.recallJSON(ctx, topicWindow+p.set.CapabilityList, &window{}); err != nil {
		return err
	}
	if was { // a page of maintenance, or of an error with status 200 (F58)
		p.fail(fmt.Errorf("%s answered with %s in place of its feed: nothing was changed", fetch.RedactURL(a.URL), cmp.Or(a.ContentType, "a document of no type")))
		return nil
	}
	return p.page(ctx)
}

// heardItem counts what the feed told first although a subscription should have.
func (p *puller) heardItem(at store.Version) {
	if p.missed != nil && p.based() {
		p.missed(at, false)
	}
}

// itemFrom is where entries of this topic come from. The Date of an answer may be that of a cache's old copy, by which what
// has happened since is no invention (P6).
func (p *puller) itemFrom(uncached bool) itemFrom {
	now := p.s.localNow()
	return itemFrom{Uncached: uncached, Now: now, Limit: max(now, p.s.sourceNow()) + skew, Shown: store.NoTime}
}

// page takes up a topic that is no feed: its document is one resource, which is fetched as any other.
func (p *puller) page(ctx context.Context) error {
	t := p.offer.Topic
	a := &t.Answer
	p.out.usable = true
	at := store.Micros(a.Date)
	if lm, ok := httpTime(a.LastModified); ok {
		at = lm
	}
	if !at.Known() {
		at = p.s.sourceNow()
	}
	entries := int64(0)
	if !a.Empty {
		entries = 1
		uri, had, err := p.pageOf(ctx)
		if err != nil {
			return err
		}
		now := p.s.sourceNow()
		c := Candidate{State: store.WantPresent, Version: store.Version{From: now, Until: now, Document: p.plan.document},
			Length: -1, LastMod: store.NoTime, Type: a.ContentType}
		if had != nil {
			c.Version = had.Version
		}
		if err := p.plan.add(ctx, entry{uri: uri, cand: c, item: &item{from: p.itemFrom(false), latest: had == nil}}); err != nil {
			return err
		}
		if err := p.plan.flush(ctx); err != nil {
			return err
		}
	}
	return p.topicRead(ctx, at, p.cover.ProvenPosition(), entries)
}

// pageOf is the resource that a page is: the topic, or what answered in its place. The want is there if its file is what was
// answered, as far as validators tell.
func (p *puller) pageOf(ctx context.Context) (uri string, had *store.Want, err error) {
	t := p.offer.Topic
	a := &t.Answer
	r, err := p.s.Store.Resource(ctx, p.s.src.ID, t.URL)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return "", nil, err
	}
	if uri = t.URL; a.URL != t.URL && a.Final != t.URL && (err != nil || r.WantFor(p.set.ID) == nil) {
		uri = a.URL
		if r, err = p.s.Store.Resource(ctx, p.s.src.ID, uri); err != nil && !errors.Is(err, store.ErrNotFound) {
			return "", nil, err
		}
	}
	if err != nil || r.Have.State != store.HavePresent || r.Work.Action != store.ActionNone {
		return uri, nil, nil
	}
	h := &r.Have
	if a.ETag != "" && h.ETag == a.ETag || a.ETag == "" && h.ETag == "" && a.LastModified != "" && h.LastModified == a.LastModified {
		had = r.WantFor(p.set.ID)
	}
	return uri, had, nil
}

// What one pull reads and holds of a feed: pages and archives, and keys of entries (P8).
const (
	pagesMost = 10_000
	seenMost  = 1_000_000
)

// feed reads a feed's document, and as much of its history as is needed to meet what is known (RFC 5005).
func (p *puller) feed(ctx context.Context) error {
	w, err := p.newWalk(ctx)
	if err != nil {
		return err
	}
	older, err := w.read(ctx, &p.offer.Topic.Answer, false)
	if err != nil {
		return err
	}
	for pages := 1; older != "" && w.failed == nil && !w.enough(); pages++ {
		if pages == pagesMost { // what was read counts all the same, or every pull would read it again
			p.fail(fmt.Errorf("feed %s: its history has more than %d pages; the older ones were not read",
				fetch.RedactURL(p.offer.Topic.Answer.URL), pagesMost))
			break
		}
		if older, err = w.readPage(ctx, older, false); err != nil {
			return err
		}
	}
	if p.plan.contested && w.failed == nil {
		if err := w.decide(ctx); err != nil {
			return err
		}
	}
	return w.end(ctx)
}

// walk is one reading of a feed.
type walk struct {
	p       *puller
	items   itemReader
	was     *window // what the last pull saw; nil before the first
	now     window
	all     bool                    // walk to the end of the history
	seen    map[uint64]store.Micros // keys of this walk, and their instants
	asked   map[string]bool
	pages   int
	core    map[uint64]store.Micros // the last pull's entries of which one must be met unchanged, and whether one was
	met     bool
	keys    map[uint64]bool // keys of the last pull's entries: whether they were met, and how many were
	again   int
	newest  store.Micros // instant of the newest entry
	oldest  store.Micros // and of the oldest fresh one
	last    []shown      // the last pull's entries
	missing bool         // an older document is gone
	failed  error        // what keeps the walk from counting
	flaws   int
	told    int64 // entries that the last pull did not see
}

func (p *puller) newWalk(ctx context.Context) (*walk, error) {
	t := p.offer.Topic
	w := &walk{p: p, seen: map[uint64]store.Micros{}, asked: map[string]bool{t.Answer.URL: true, t.URL: true},
		newest: store.NoTime, oldest: store.NoTime}
	w.items = itemReader{p: p.plan, from: p.itemFrom(false), folder: p.set.CapabilityList, document: p.plan.document,
		evidence: t.Answer.URL, kind: t.Answer.Format, own: func(uri string) bool { _, ok := w.seen[keyHash(uri)]; return ok }}
	var was window
	found, err := p.s.recallJSON(ctx, topicWindow+p.set.CapabilityList, &was)
	if err != nil {
		return nil, err
	}
	w.last, w.now.Gone = was.Entries, was.Gone
	if found && len(was.Entries) > 0 { // a feed without entries is no place to go on from
		w.was, w.core, w.keys = &was, was.core(), was.keys()
	}
	_, search, err := p.s.lostContent(ctx, p.set.ID)
	w.all = w.was == nil || p.s.o.Full || search || p.freed
	return w, err
}

func (w *walk) fail(err error) {
	w.failed = fmt.Errorf("feed %s: %w", fetch.RedactURL(w.p.offer.Topic.Answer.URL), err)
	w.p.fail(w.failed)
}

// goneReads is how many pulls in a row must miss an older document before the history is taken to end there.
const goneReads = 3

// readPage reads an older document of the feed. One that stays gone ends the history.
func (w *walk) readPage(ctx context.Context, at string, uncached bool) (older string, err error) {
	reader := w.p.s.reader
	if uncached {
		reader = reader.Uncached()
	}
	a, err := reader.Page(ctx, at)
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case err != nil && fetch.KindOf(err) == fetch.Gone && w.now.Gone+1 >= goneReads:
		w.p.s.log.Warn("a feed names an older document that is not there; its history ends here", "feed", w.p.set.CapabilityList, "document", at)
		return "", nil
	case err != nil && fetch.KindOf(err) == fetch.Gone: // for now, perhaps: what it would have told may be lost for good (F71)
		w.now.Gone++
		w.missing = true
		w.fail(fmt.Errorf("its older document is not there: %w", err))
		return "", nil
	case err != nil:
		w.fail(fmt.Errorf("its older document could not be read: %w", err))
		return "", nil
	}
	return w.read(ctx, a, uncached)
}

// read takes up one document of the feed and returns the address of the one before it, "" for none.
func (w *walk) read(ctx context.Context, a *destination.TopicAnswer, uncached bool) (older string, err error) {
	base, err := url.Parse(a.Final)
	if err != nil || a.Final == "" {
		base, _ = url.Parse(a.URL)
	}
	w.items.from, w.items.kind, w.items.evidence = w.p.itemFrom(uncached), a.Format, a.URL
	if w.pages == 0 || uncached { // the feed as it is now, which its older documents are not
		if date := store.Micros(a.Date); date.Known() {
			w.items.from.Shown = date + 999_999 // which tells whole seconds
		}
	}
	if len(w.seen) >= seenMost {
		clear(w.seen) // versions keep the order of what is met again
	}
	before := len(w.seen)
	var own error
	head, err := feed.Read(bytes.NewReader(a.Body), feed.Options{Base: base, ContentType: a.ContentType}, func(e *feed.Entry) error {
		own = w.entry(ctx, e)
		return own
	})
	w.pages++
	switch {
	case own != nil:
		return "", own
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	}
	if err := w.p.plan.flush(ctx); err != nil { // a batch holds the bytes of its entries
		return "", err
	}
	if err != nil { // the entries before it count
		w.p.out.usable = w.p.out.usable || len(w.seen) > before
		w.fail(fmt.Errorf("could not be read to its end: %w", err))
		return "", nil
	}
	w.p.out.usable = true
	if head.Skipped > 0 {
		w.flaws += head.Skipped
		w.p.s.observe.skipped(int64(head.Skipped))
		w.p.s.log.Warn("entries of a feed could not be read", "feed", a.URL, "entries", head.Skipped, "problems", head.Problems)
	}
	older = head.PrevArchive
	if older == "" && len(w.seen) > before { // a page that brings nothing new: some go on for ever
		older = head.Next
	}
	if older == "" || w.asked[older] {
		return "", nil
	}
	w.asked[older] = true
	return older, nil
}

// entry takes up one entry, unless a newer one of its key was met in this walk: the same id twice must not go to and fro.
func (w *walk) entry(ctx context.Context, e *feed.Entry) error {
	h, when := keyHash(e.Key), microsOf(e.Updated)
	if e.Edit != nil && w.p.s.t.Records != "" {
		sum := e.Edit.Digest() // several edits of one record may share an id
		h, when = keyHash(string(sum[:])), microsOf(e.Edit.Observed)
	}
	switch was, again := w.seen[h]; {
	case !again:
	case when < was, when == was && !e.Deleted:
		return nil
	case e.Deleted && !was.Known(): // feeds show the newest first: the entry came back
		return nil
	}
	w.seen[h] = when
	w.items.fresh = w.look(h, when)
	if w.was == nil || w.items.fresh {
		w.told++
	}
	return w.items.take(ctx, e)
}

// decide reads the feed's own document once more, past all caches, because only it can say who is right.
func (w *walk) decide(ctx context.Context) error {
	told := w.told
	w.p.plan.contested, w.seen = false, map[uint64]store.Micros{}
	_, err := w.readPage(ctx, w.p.offer.Topic.Answer.URL, true)
	w.told = told // the same entries again
	return err
}

// end judges whether the walk reached back to what was known, and records where the set stands.
func (w *walk) end(ctx context.Context) error {
	p := w.p
	if w.failed != nil { // nothing else is remembered: the next pull reads it all again
		err := p.rememberSet()
		if w.missing && err == nil {
			err = p.rememberJSON(topicWindow+p.set.CapabilityList, &window{Entries: w.last, Gone: w.now.Gone})
		}
		if err != nil {
			return err
		}
		return p.commitSet(ctx)
	}
	if w.flaws > 0 {
		p.flawed = true
		p.fail(fmt.Errorf("feed %s: %d entries could not be read", fetch.RedactURL(p.offer.Topic.Answer.URL), w.flaws))
	}
	since, err := w.hole(ctx)
	if err != nil {
		return err
	}
	position, empty := w.newest, w.was != nil && len(w.now.Entries) == 0
	if empty {
		position = p.cover.ProvenPosition()
	}
	if !position.Known() {
		position = store.Micros(p.offer.Topic.Answer.Date)
	}
	if !position.Known() {
		position = p.s.sourceNow()
	}
	if !empty { // it tells nothing of what it showed before
		w.now.trim()
		w.now.Gone = 0
		if err := p.rememberJSON(topicWindow+p.set.CapabilityList, &w.now); err != nil {
			return err
		}
	}
	return p.topicRead(ctx, position, since, w.told)
}

// hole records that the feed did not reach back to what was known: entries may be missing, and nobody can tell (T-04). A
// feed that brings nothing that was not pushed shows no change in the hole, which then is none (coverage.md 3). It returns how
// far back the feed reached, NoTime for all that there is.
func (w *walk) hole(ctx context.Context) (since store.Micros, err error) {
	p := w.p
	if w.was == nil {
		return store.NoTime, nil
	}
	if w.reached() || p.plan.unheard == 0 {
		return p.cover.ProvenPosition(), nil
	}
	gap := &store.Gap{SetID: p.set.ID, From: p.cover.ProvenPosition(), Until: w.oldest, State: store.GapUnprovable,
		Found: p.s.localNow(), Ended: p.s.localNow()}
	if !gap.Until.Known() || gap.Until <= gap.From {
		gap.Until = max(gap.From, p.s.sourceNow())
	}
	p.out.gapsFound++
	p.s.log.Warn("the feed does not reach back to what was known: entries in between may be missing, and nobody can tell",
		"feed", p.set.CapabilityList, "from", gap.From.Time(), "until", gap.Until.Time())
	if p.s.gapTold != nil {
		p.s.gapTold(*gap)
	}
	return gap.Until, p.putGap(ctx, gap)
}
