package pull

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"resyncd/destination"
	"resyncd/destination/feed"
	"resyncd/destination/fetch"
	"resyncd/store"
	"resyncd/sync/merge"
	"resyncd/sync/plan"
	"resyncd/sync/window"
)

// Bounds of one reading: documents, and keys of entries (P8).
const (
	PagesMost = 10_000
	seenMost  = 1_000_000
)

// walk is one reading of a feed and the needed part of its history.
type walk struct {
	p         *Puller
	items     plan.ItemReader
	was       *window.Window // the last pull; nil before the first
	now       window.Window
	reach     *window.Reach
	all       bool                    // read the whole history
	seen      map[uint64]store.Micros // instants by key
	path      walkPath
	times     walkTimes
	flaws     walkFlaws
	unchanged bool
	complete  bool // the document is the whole set
	paged     bool
	news      int64
	begun     store.Micros    // local
	stood     standing        // before this walk
	sought    map[uint64]told // pushed entries not met yet
}

// walkPath is the way of a walk: live pages, then archives.
type walkPath struct {
	asked         map[string]bool
	live          map[string]bool // documents outside the archives
	pages         int
	next, archive string
	order         window.PageOrder
	ended         bool // no older document is named
	searched      int
	archived      bool // some documents are archives
	past          bool // archives are being read
}

type walkTimes struct {
	newest store.Micros
	oldest store.Micros // of new entries
	shows  store.Micros // oldest of the feed's own document
	goes   store.Micros // newest of the oldest other document
}

type walkFlaws struct {
	failed     error        // why the walk does not count
	own, older int          // entries of the feed's own document, and of older ones
	unread     window.Flaws // those of own
	lost       bool         // no later reading meets them
}

// feed reads a feed and enough history to meet the last pull (RFC 5005).
func (p *Puller) feed(ctx context.Context) error {
	w, err := p.newWalk(ctx)
	if err != nil {
		return err
	}
	if err := w.read(ctx, &p.Offer.Topic.Answer); err != nil {
		return err
	}
	return inOrder(ctx, w.back, w.goOn, w.decide, w.sweep, w.end)
}

// resume continues the history of an unchanged feed where an earlier pull stopped.
func (p *Puller) resume(ctx context.Context) error {
	w, err := p.newWalk(ctx)
	if err != nil {
		return err
	}
	if w.was == nil || len(w.was.Rest)+len(w.was.Flawed) == 0 {
		return p.commitSet(ctx)
	}
	w.unchanged, w.path.pages = true, 1
	return inOrder(ctx, w.goOn, w.end)
}

func (p *Puller) newWalk(ctx context.Context) (*walk, error) {
	t := p.Offer.Topic
	w := &walk{p: p, seen: map[uint64]store.Micros{},
		path: walkPath{asked: map[string]bool{t.Answer.URL: true, t.URL: true},
			live: map[string]bool{t.Answer.URL: true}},
		times: walkTimes{newest: store.NoTime, oldest: store.NoTime, shows: store.NoTime, goes: store.NoTime}}
	w.items = plan.ItemReader{Planner: p.Plan, From: p.ItemFrom(false), Folder: p.Set.CapabilityList,
		Document: p.Plan.Topic.Document,
		Evidence: t.Answer.URL, Kind: t.Answer.Format, Own: func(uri string) bool {
			_, ok := w.seen[window.KeyHash(uri)]
			return ok
		}}
	var was window.Window
	found, err := p.RecallJSON(ctx, TopicWindow+p.Set.CapabilityList, &was)
	if err != nil {
		return nil, err
	}
	w.now.Gone = was.Gone
	if found && len(was.Entries) > 0 { // without entries there is no place to go on from
		w.was, w.reach = &was, was.Reach()
	}
	if w.stood, err = p.standingOf(ctx, p.Set.ID); err != nil {
		return nil, err
	}
	w.begun = p.LocalNow()
	w.sought = w.stood.ripe(w.begun)
	_, search, err := p.LostContent(ctx, p.Set.ID)
	w.all = w.was == nil || p.Wide || search || p.freed || w.stood.Form != p.Target.form() || w.stood.Many
	return w, err
}

func (w *walk) fail(err error) {
	w.flaws.failed = w.problem(err)
	w.p.Fail(w.flaws.failed)
}

func (w *walk) problem(err error) error {
	return fmt.Errorf("feed %s: %w", fetch.RedactURL(w.p.Offer.Topic.Answer.URL), err)
}

// back reads older documents until the walk meets the last pull.
func (w *walk) back(ctx context.Context) error {
	for w.flaws.failed == nil && !w.enough() {
		at := w.take()
		switch {
		case at == "":
			w.path.ended = true
			return nil
		case w.path.pages >= PagesMost: // the read part counts, or every pull would read it again
			w.now.Rest = append(w.now.Rest, at)
			if w.path.archive != "" {
				w.now.Rest = append(w.now.Rest, w.path.archive)
			}
			w.p.Fail(w.problem(fmt.Errorf("its history has more than %d documents; the next pull goes on from there",
				PagesMost)))
			return nil
		}
		if err := w.readPage(ctx, at); err != nil {
			return err
		}
	}
	return nil
}

// goOn reads the documents that an earlier pull missed.
func (w *walk) goOn(ctx context.Context) error {
	if w.was == nil || w.flaws.failed != nil {
		return nil
	}
	next, archive := w.path.next, w.path.archive
	for _, at := range w.was.Flawed {
		if w.path.asked[at] {
			continue
		}
		w.path.asked[at] = true
		if err := w.readPage(ctx, at); err != nil {
			return err
		}
	}
	w.path.next, w.path.archive = next, archive
	for _, at := range w.was.Rest {
		if w.path.asked[at] {
			continue
		}
		w.all, w.path.next, w.path.archive = true, "", at
		if err := w.back(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) take() (at string) {
	if at, w.path.next = w.path.next, ""; at == "" {
		at, w.path.archive, w.path.past = w.path.archive, "", true
	}
	if at != "" {
		w.path.asked[at], w.path.live[at] = true, !w.path.past
	}
	return at
}

// GoneReads is how many pulls must miss an older document before the history ends there for now.
const GoneReads = 3

func (w *walk) readPage(ctx context.Context, at string) error {
	a, err := w.page(ctx, w.p.Reader, at)
	switch {
	case err == nil:
		return w.read(ctx, a)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	rest := w.was != nil && slices.Contains(w.was.Rest, at)
	flawed := w.was != nil && slices.Contains(w.was.Flawed, at)
	unread := fmt.Errorf("its older document could not be read: %w", err)
	switch gone := fetch.KindOf(err) == fetch.Gone; {
	case flawed && gone:
		w.flaws.lost = true
	case flawed:
		w.now.Flawed = append(w.now.Flawed, at)
		w.p.Fail(w.problem(unread))
	case gone && (rest || w.now.Gone+1 >= GoneReads):
		w.p.Log.Warn(
			"a feed names an older document that is not there; what it told is asked for at each pull",
			"feed", w.p.Set.CapabilityList,
			"document", fetch.RedactURL(at))
		w.now.Rest = append(w.now.Rest, at)
	case rest:
		w.now.Rest = append(w.now.Rest, at)
		w.p.Fail(w.problem(unread))
	case gone: // a temporary fault may cost entries for good (F71)
		w.now.Gone++
		w.fail(fmt.Errorf("its older document is not there: %w", err))
	default:
		w.fail(unread)
	}
	return nil
}

// page asks for an older document. A document must not lead from https to http (F60).
func (w *walk) page(ctx context.Context, r *destination.Reader, at string) (*destination.TopicAnswer, error) {
	if strings.HasPrefix(w.p.Offer.Topic.Answer.Final, "https:") && !strings.HasPrefix(at, "https:") {
		return nil, fmt.Errorf("%s: the feed is read over https, its older document is not offered so",
			fetch.RedactURL(at))
	}
	return r.Page(ctx, at)
}

// again reads a document past caches. A fault of the Source fails the walk and returns neither answer nor error.
func (w *walk) again(ctx context.Context, at string) (*destination.TopicAnswer, error) {
	a, err := w.page(ctx, w.p.Reader.Uncached(), at)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		w.fail(fmt.Errorf("it could not be read again, past caches: %w", err))
		return nil, nil
	}
	return a, nil
}

func (w *walk) read(ctx context.Context, a *destination.TopicAnswer) error {
	w.readFrom(a, false)
	if len(w.seen) >= seenMost {
		clear(w.seen) // versions keep the order of repeated entries
	}
	before := len(w.seen)
	head, err := w.entries(ctx, a, w.entry)
	if err != nil {
		return err
	}
	w.path.pages++
	if w.flaws.failed != nil {
		w.p.Out.Usable = w.p.Out.Usable || len(w.seen) > before
		return nil
	}
	w.p.Out.Usable = true
	if head.Skipped > 0 {
		w.p.Observe.Skipped(int64(head.Skipped))
		w.p.Log.Warn("entries of a feed could not be read",
			"feed", fetch.RedactURL(a.URL), "entries", head.Skipped, "problems", head.Problems)
	}
	if w.path.pages == 1 {
		w.flaws.own = head.Skipped
		w.flaws.unread.End(0, w.flaws.own-w.flaws.unread.Len())
	} else if head.Skipped > 0 {
		if w.flaws.older += head.Skipped; w.path.live[a.URL] { // a live entry moves to another page
			w.flaws.lost = true
		} else {
			w.now.Flawed = append(w.now.Flawed, a.URL)
		}
	}
	if w.path.pages > 1 { // the first page may hold pinned entries
		w.times.goes = store.Earliest(w.times.goes, w.path.order.Newest())
	}
	if w.path.order.Turn(); w.path.pages == 1 {
		w.complete, w.paged = head.Complete && head.Next == "", head.Next != ""
	}
	if head.Next != "" && !w.path.asked[head.Next] && len(w.seen) > before { // some feeds repeat pages for ever
		w.path.next = head.Next
	}
	if head.PrevArchive != "" && !w.path.asked[head.PrevArchive] {
		w.path.archive, w.path.archived = head.PrevArchive, true
	}
	return nil
}

func (w *walk) readFrom(a *destination.TopicAnswer, uncached bool) {
	w.items.From, w.items.Kind, w.items.Evidence = w.p.ItemFrom(uncached), a.Format, a.URL
	w.items.From.Page = a.URL
	if w.path.live[a.URL] {
		if date := store.Micros(a.Date); date.Known() {
			w.items.From.Shown = date + 999_999 // Date has whole seconds
		}
	}
}

// entries passes the entries of a document to each and plans them. A fault of the document fails the walk.
func (w *walk) entries(ctx context.Context, a *destination.TopicAnswer,
	each func(context.Context, *feed.Entry) error) (*feed.Head, error) {
	base, err := url.Parse(a.Final)
	if err != nil || a.Final == "" {
		base, _ = url.Parse(a.URL)
	}
	head, broken, err := readFeed(a.Body, feed.Options{Base: base, ContentType: a.ContentType},
		func(e *feed.Entry) error { return each(ctx, e) })
	switch {
	case err != nil:
		return head, err
	case ctx.Err() != nil:
		return head, context.Cause(ctx)
	case broken != nil:
		w.fail(fmt.Errorf("could not be read to its end: %w", broken))
	}
	return head, w.p.Plan.Flush(ctx) // a batch holds the bytes of its entries
}

func (w *walk) identity(e *feed.Entry) (h uint64, when store.Micros) {
	if e.Edit != nil && w.p.Target.Records != "" {
		sum := e.Edit.Digest() // edits of one record may share an id
		return window.KeyHash(string(sum[:])), store.MicrosOf(e.Edit.Observed)
	}
	return window.KeyHash(e.Key), store.MicrosOf(e.Updated)
}

// entry takes up an entry unless this walk met a newer one, so that equal ids do not alternate.
func (w *walk) entry(ctx context.Context, e *feed.Entry) error {
	h, when := w.identity(e)
	w.path.order.Meet(when)
	if w.path.pages == 0 {
		w.flaws.unread.Meet(h, e.Ordinal)
	}
	switch was, again := w.seen[h]; {
	case !again:
	case when < was, when == was && !e.Deleted:
		return nil
	case e.Deleted && !was.Known(): // newest first: the entry came back
		return nil
	}
	w.seen[h] = when
	w.items.Fresh = w.look(h, when)
	// a known entry on an older page has moved, so it is checked in full
	w.items.From.Full = w.p.Full || w.path.pages > 0 && !w.items.Fresh && w.was != nil
	w.items.Old = w.was != nil && !w.was.Broken && when.Known() && when <= w.p.Cover.ProvenPosition()
	if w.was == nil || w.items.Fresh {
		w.news++
	}
	return w.items.Take(ctx, e)
}

// decide reads contradicting documents again past caches. Only the last statement on an entry counts.
func (w *walk) decide(ctx context.Context) error {
	if w.flaws.failed != nil {
		return nil
	}
	contested := w.p.Plan.TakeContested()
	delete(contested, "")
	w.items.Fresh = false
	for page, uris := range contested {
		a, err := w.again(ctx, page)
		if a == nil {
			return err
		}
		last := map[string]*feed.Entry{}
		_, err = w.entries(ctx, a, func(_ context.Context, e *feed.Entry) error {
			if was := last[e.Key]; uris[e.Key] &&
				(was == nil || e.Updated.After(was.Updated) || e.Updated.Equal(was.Updated) && e.Deleted) {
				last[e.Key] = e
			}
			return nil
		})
		if err != nil || w.flaws.failed != nil {
			return err
		}
		w.readFrom(a, true)
		for _, e := range last {
			if err := w.items.Take(ctx, e); err != nil {
				return err
			}
		}
		if err := w.p.Plan.Flush(ctx); err != nil {
			return err
		}
	}
	w.p.Plan.TakeContested()
	return nil
}

// sweep makes absent what a complete feed does not show, read again past caches, with the guard (RFC 5005, 2).
func (w *walk) sweep(ctx context.Context) error {
	if !w.complete || w.flaws.failed != nil {
		return nil
	}
	p := w.p
	b := &Baseline{Puller: p, docID: p.Plan.Topic.Document, Listed: int64(len(w.seen)),
		skipped: int64(w.flaws.own)}
	if err := b.Open(ctx); err != nil {
		return err
	}
	p.Plan.Reading = merge.Reading{At: p.SourceNow(), Reset: true}
	p.shown = func(r *store.Resource, want *store.Want) bool {
		pushed, ok := merge.PushedAt(want)
		_, shown := w.seen[window.KeyHash(r.URI)]
		return shown || !want.Inline || want.Type == plan.RecordType || ok && p.LocalNow()-pushed < merge.FeedLag
	}
	defer func() { p.shown = nil }()
	rows, _, err := p.unlisted(ctx, merge.Candidate{State: store.WantAbsent}, nil)
	if err != nil || rows == 0 {
		return err
	}
	a, err := w.again(ctx, p.Offer.Topic.Answer.URL)
	if a == nil {
		return err
	}
	head, err := w.entries(ctx, a, func(_ context.Context, e *feed.Entry) error {
		h, when := w.identity(e)
		w.seen[h] = when
		return nil
	})
	if err != nil || w.flaws.failed != nil || !head.Complete {
		return err
	}
	return b.Sweep(ctx, p.SourceNow())
}
