// Package plan turns the entries of documents and notifications into wants, one commit per batch. It knows neither who
// read an entry nor who carries out the work.
package plan

import (
	"context"
	"encoding/binary"
	"slices"

	"resyncd/store"
	"resyncd/sync/merge"
	"resyncd/sync/parsed"
	"resyncd/sync/spill"
	"resyncd/sync/transfer"
)

// Small first batches let fetches start while the list arrives, large ones save commits and index pages.
const (
	planFirst    = 200
	planBatch    = 1000
	planBatchMax = 8000
	// So many entries, or entries behind a greater URI, enlarge a batch by one.
	batchListed, batchJumps = 32, 4
)

// Entry is one list entry before it becomes a want.
type Entry struct {
	URI      string
	Cand     merge.Candidate
	Baseline bool
	Trusted  bool // Reading.Trusted of its list
	Pushed   bool
	Hinted   bool // proves nothing: the Source is asked
	Edge     bool // may be missing from the last reading
	// explained: a newer entry of its reading follows, so what this one contradicts is not asked.
	explained bool
	Note      *transfer.Note
	Offer     *transfer.Offer // its bytes are at hand
	Offered   bool            // says nothing but Offer: other documents told what is wanted
	Item      *Item           // of a topic; then Baseline to Edge do not count
}

// unlisted reports an entry that counts as if it were not there.
func (e *Entry) unlisted() bool { return e.Baseline && e.Cand.Left && !e.Hinted }

// Options are the set and rules of a planner.
type Options struct {
	Site *transfer.Site
	Set  *store.Set
	// Refused returns why a URI is refused; Filtered is the part of that rule for content that needs no request.
	Refused, Filtered func(uri string) (refused string)
	// Follow names the mirrored link relations; Records says that entries edit records.
	Follow  []string
	Records bool
	// Wide: the files of all resources are looked at.
	Wide bool
	// Await passes the turn to others until resume; nil for no others.
	Await func() (resume func())
	// Limits are the limits of gathering; nil for the defaults.
	Limits *Limits
}

// Hub decides what notifications may change in a topic.
type Hub interface {
	// MayChange reports whether a pushed item may replace the row's want.
	MayChange(uri string, item merge.Candidate, current *store.Want) bool
	// Remember adds the record of pushed items to a commit.
	Remember(c *store.Commit)
}

// Planner turns entries into wants, one commit per batch. Only one goroutine may use it.
type Planner struct {
	o       Options
	Batch   []Entry
	Seen    *spill.Bitmap // rows that the current baseline listed
	Left    *spill.Bitmap // rows that it names outside the selection, without a time to compare by
	Reading merge.Reading // the current baseline
	order   order
	Topic   topicPlan
	// News hears of changes that the documents told first; Lag hears of confirmed pushes.
	News, Lag func(at store.Version)
	fold      bool          // the mirror ignores letter case
	Calm      *spill.Bitmap // rows found as wanted
	Wanted    bool
	spare     []row // of the last batch
}

type order struct {
	limits   Limits
	gathered *gathered
	listed   int64
	jumps    int64 // entries below the one before
	last     string
}

type topicPlan struct {
	Document int64 // the document of records
	Odd      int64 // format faults in edits
	Unheard  int64 // entries that no reading showed
	Crowded  int64 // links beyond FollowMost
	// Contested are items that only a new reading can decide, by document URL; "" for pushes.
	Contested map[string]map[string]bool
	unlinked  []Entry // links that entries lost
	Hub       Hub     // nil outside notifications
}

// New returns a planner of one set.
func New(o Options) *Planner {
	fold := o.Site.Mirror != nil && o.Site.Mirror.FoldsCase()
	p := &Planner{o: o, fold: fold, Calm: spill.NewBitmap(), Left: spill.NewBitmap()}
	p.order.limits = gathers
	p.TakeContested()
	if o.Limits != nil {
		p.order.limits = *o.Limits
	}
	if o.Await == nil {
		p.o.Await = func() (resume func()) { return func() {} }
	}
	return p
}

// Refuses returns why a URI is refused; "" for an accepted one.
func (p *Planner) Refuses(uri string) (refused string) { return p.o.Refused(uri) }

// Add queues one entry.
func (p *Planner) Add(ctx context.Context, e Entry) error {
	if e.unlisted() && e.Trusted {
		return nil
	}
	p.order.listed++
	if e.URI < p.order.last {
		p.order.jumps++
	}
	p.order.last = e.URI
	if e.Baseline && e.Offer == nil && p.inNoOrder() {
		return p.gather(ctx, &e)
	}
	p.Batch = append(p.Batch, e)
	if int64(len(p.Batch)) < p.room() {
		return nil
	}
	if e.Baseline || e.Offer != nil {
		return p.plan(ctx)
	}
	return p.Flush(ctx)
}

// plan flushes entries of a baseline or package once there is room for their work. Others have the turn meanwhile.
func (p *Planner) plan(ctx context.Context) error {
	if len(p.Batch) == 0 {
		return nil
	}
	resume := p.o.Await()
	p.o.Site.AwaitRoom(ctx)
	resume()
	return p.Flush(ctx)
}

func (p *Planner) room() int64 {
	if p.order.listed <= planFirst {
		return planFirst
	}
	return min(max(planBatch, p.order.listed/batchListed, p.order.jumps/batchJumps), planBatchMax)
}

// Flush commits the differences between the queued entries and the state.
func (p *Planner) Flush(ctx context.Context) error { return p.FlushWith(ctx, nil) }

// FlushWith is Flush with further parts of the commit, so that an interval is proven only with its wants (P3).
func (p *Planner) FlushWith(ctx context.Context, c *store.Commit) error {
	for {
		if err := p.flushBatch(ctx, c); err != nil || len(p.Topic.unlinked) == 0 {
			return err
		}
		p.Batch, p.Topic.unlinked, c = append(p.Batch, p.Topic.unlinked...), nil, nil
	}
}

func (p *Planner) flushBatch(ctx context.Context, c *store.Commit) error {
	if len(p.Batch) == 0 && c == nil {
		return nil
	}
	if c == nil {
		c = &store.Commit{Claim: p.o.Site.Claim}
	}
	p.o.Site.Rows.Lock()
	defer p.o.Site.Rows.Unlock()
	defer func() { clear(p.spare) }()
	calm := p.Calm.Len
	byURI, err := p.lookup(ctx)
	if err != nil {
		return err
	}
	var offered []*row
	for i := range p.Batch {
		e := &p.Batch[i]
		r := byURI[e.URI]
		if !e.Offered {
			p.merge(r, e)
		}
		if e.Offer != nil {
			r.offers = append(r.offers, e.Offer)
			offered = append(offered, r)
		}
	}
	p.Batch = slices.DeleteFunc(p.Batch, func(e Entry) bool { return e.Offered })
	if p.o.Records {
		if err := p.foldRecords(ctx, byURI, c); err != nil {
			return err
		}
	}
	if p.Topic.Hub != nil {
		p.Topic.Hub.Remember(c)
	}
	rows, err := p.changes(ctx, byURI, c)
	if err != nil {
		return err
	}
	if p.o.Site.Progress != nil {
		p.o.Site.Progress(transfer.Progress{Listed: int64(len(p.Batch)), Done: p.Calm.Len - calm})
	}
	p.Batch = p.Batch[:0]
	if len(c.Resources) == 0 && len(c.Sets) == 0 && len(c.Inbox) == 0 && len(c.Edits) == 0 &&
		len(c.Documents) == 0 {
		return p.handOffered(ctx, nil, nil, offered)
	}
	urgent, err := p.foresee(ctx, c)
	if err != nil {
		return err
	}
	if err := p.o.Site.Store.Commit(ctx, c); err != nil {
		p.o.Site.Fail(urgent)
		return err
	}
	if err := p.handOffered(ctx, c, rows, offered); err != nil {
		return err
	}
	if len(rows) > 0 {
		p.Wanted = true
		p.written(c, rows, urgent)
	}
	return nil
}

type row struct {
	res     *store.Resource
	want    store.Want
	had     bool
	changed bool
	listed  bool      // by the current baseline
	before  merge.Sum // counted before the batch
	haveNew *store.Have
	same    bool
	moved   bool // the disk differed from the row
	doubted bool // the file counts for nothing
	// newest is the newest version that the reading told behind the entry at hand.
	newest store.Version
	// told is the last entry with the row's own instant; a second one is news.
	told   store.Version
	note   *transfer.Note // of the notification that asked
	offers []*transfer.Offer
	// The rest is for topics: content, preferred key, edits of a record.
	content []byte
	natural string
	edits   []store.Edit
	fresh   [][32]byte // edits that the last pull did not see
}

func (p *Planner) lookup(ctx context.Context) (map[string]*row, error) {
	uris := make([]string, 0, len(p.Batch))
	rows, all := make(map[string]*row, len(p.Batch)), p.spare
	if n := len(p.Batch); n > len(all) {
		if all = make([]row, n); n <= 2*planBatch {
			p.spare = all // larger ones are not kept, to bound the memory
		}
	}
	for i := len(p.Batch) - 1; i >= 0; i-- {
		e := &p.Batch[i]
		r := rows[e.URI]
		if r == nil {
			r = &all[len(uris)]
			rows[e.URI] = r
			uris = append(uris, e.URI)
		}
		if v := e.Cand.Version; !e.Baseline && !e.Hinted {
			newer, same := merge.Relate(r.newest, v) == merge.Newer, merge.SameReading(r.newest, v)
			if e.explained = same && newer; !e.explained {
				r.newest = v
			}
		}
	}
	found, err := p.o.Site.Store.Lookup(ctx, p.o.Site.SourceID, p.o.Set.ID, uris)
	if err != nil {
		return nil, err
	}
	var unknown []store.Resource
	for i, u := range uris {
		r := rows[u]
		if r.res = found[i]; r.res == nil {
			if len(unknown) == 0 {
				unknown = make([]store.Resource, min(len(uris)-i, 256))
			}
			r.res, unknown = &unknown[0], unknown[1:]
			r.res.SourceID, r.res.URI = p.o.Site.SourceID, u
			continue
		}
		if w := r.res.WantFor(p.o.Set.ID); w != nil {
			r.want, r.had = *w, true
		}
		r.before = merge.Counted(&r.want, &r.res.Have)
	}
	return rows, nil
}

// current is the want that the next entry meets; nil for none.
func (r *row) current() *store.Want {
	if r.had || r.changed {
		return &r.want
	}
	return nil
}

func (p *Planner) merge(r *row, e *Entry) {
	switch known := r.res.ID != 0; {
	case e.unlisted() && known:
		p.Left.Add(r.res.ID)
	case e.Baseline && !e.unlisted():
		if r.listed = true; known {
			p.Seen.Add(r.res.ID)
		}
	}
	switch {
	case e.Cand.Left && p.leftOut(r.current(), e):
	case e.Item != nil:
		p.mergeItem(r, e)
	case e.Hinted:
		p.mergeHint(r, e)
	case e.Pushed:
		p.mergePush(r, e)
	case r.want.Pushed:
		p.mergeListed(r, e)
	default:
		p.mergeEntry(r, e)
	}
}

// leftOut reports whether an entry outside the selection changes nothing: an unknown resource costs no row. A pushed
// one needs a document, as the Source's answer tells nothing of links.
func (p *Planner) leftOut(current *store.Want, e *Entry) bool {
	if current == nil || e.unlisted() || e.Hinted && current.State == store.WantAbsent {
		return true
	}
	if e.Pushed && current.State != store.WantAbsent && current.Refused == "" {
		p.o.Site.Hint(p.o.Set.ID)
	}
	return e.Pushed
}

func (p *Planner) mergeEntry(r *row, e *Entry) {
	current := r.current()
	d := p.decide(r, current, e)
	if (d == merge.Repeat || d == merge.Ignore && current != nil && current.Settled) &&
		r.vague(e, current, p.o.Set.Floor) {
		d = merge.Ask
	}
	switch {
	case d == merge.Repeat:
		r.same = true
	case d == merge.Ask && e.explained:
	case d == merge.Replace, d == merge.Ask:
		w := p.made(d, r, e, current)
		if p.News != nil && !e.Baseline && !e.Cand.Left {
			p.News(e.Cand.Version)
		}
		if current != nil && !p.Reading.Full && merge.CarryOver(current, &w, &r.res.Have) {
			h := r.res.Have
			h.Version = w.Version
			r.haveNew, r.res.Have = &h, h
		}
		r.want, r.changed = w, true
	}
}

func (p *Planner) decide(r *row, current *store.Want, e *Entry) merge.Decision {
	if e.Baseline { // the list's own at; an index has several
		reading := p.Reading
		reading.At, reading.Trusted = e.Cand.Version.From, e.Trusted
		return merge.MergeBaseline(current, &r.res.Have, merge.FloorOf(p.o.Set), e.Cand, reading)
	}
	d := merge.Merge(current, &r.res.Have, merge.FloorOf(p.o.Set), e.Cand)
	asked := current != nil && current.State == store.WantAsk
	if !e.Cand.Left || d != merge.Ask && (d != merge.Repeat || !asked) {
		return d
	}
	// No answer tells of links, so the entry counts unless it is of other content than the row.
	present := e.Cand
	present.State = store.WantPresent
	if !asked && merge.Merge(current, &r.res.Have, merge.FloorOf(p.o.Set), present) == merge.Ask {
		return merge.Ignore
	}
	return merge.Replace
}

// made returns what a decision to replace or to ask makes of a want.
func (p *Planner) made(d merge.Decision, r *row, e *Entry, current *store.Want) store.Want {
	w := e.Cand.Want(p.o.Set.ID)
	if d == merge.Ask {
		w = e.Cand.Contest(current, p.o.Set.Floor, p.o.Set.ID)
	}
	if e.Baseline {
		w.Generation = p.o.Set.Generation
		if d != merge.Ask && !p.Reading.Reset {
			w = merge.Raised(w, current, p.o.Set.Floor)
		}
	}
	if w.State != store.WantAbsent {
		w.Refused = p.o.Refused(e.URI)
	}
	if current != nil && merge.Satisfied(current, &r.res.Have) != merge.Yes {
		w.Links = parsed.Unpatched(w.Links)
	}
	return w
}

// vague reports an entry that may be news although it has the row's instant: at the edge of the last reading, or the
// second of one reading.
func (r *row) vague(e *Entry, current *store.Want, floor store.Micros) bool {
	v, bytes := e.Cand.Version, e.Cand
	bytes.LastMod = store.NoTime // a resource that changed twice in a second keeps its Last-Modified
	if e.Baseline || current == nil || current.State != store.WantPresent || merge.SameReading(v, current.Version) ||
		merge.Precedes(merge.Clipped(v, floor), merge.Clipped(current.Version, floor)) ||
		merge.Compare(current, &r.res.Have, bytes) != merge.Unclear {
		return false
	}
	again := merge.SameReading(v, r.told) && v.From == r.told.From && v.Ordinal > r.told.Ordinal
	r.told = v
	return again || e.Edge
}

// mergeHint has the Source asked about the resource that an entry names.
func (p *Planner) mergeHint(r *row, e *Entry) {
	current := r.current()
	if r.want.Held || r.want.Refused != "" || current != nil && e.Cand.Version.Until <= current.Version.Until &&
		(current.State == store.WantAsk || current.Settled) {
		return
	}
	r.want, r.changed = p.made(merge.Ask, r, e, current), true
}

// Only its signature vouches for a notification (P9). So a pushed want keeps the documents' statement beside it until
// a document confirms or replaces it (coverage.md 2).

// PushedDocument returns the document number of a notification: negative, and equal for equal bytes, which are no news.
func PushedDocument(digest [32]byte) int64 {
	return -1 - int64(binary.BigEndian.Uint64(digest[:8])>>2)
}

func (p *Planner) mergePush(r *row, e *Entry) {
	current := r.current()
	d := merge.Merge(current, &r.res.Have, merge.FloorOf(p.o.Set), e.Cand)
	r.same = r.same || d == merge.Repeat
	if d != merge.Replace && d != merge.Ask {
		return
	}
	w := p.made(d, r, e, current)
	w.Pushed, w.Listed = true, listedOf(current, p.o.Set.ID)
	r.want, r.changed, r.note = w, true, e.Note
}

func listedOf(current *store.Want, set int64) *store.Want {
	switch {
	case current == nil:
		return &store.Want{SetID: set, Length: -1, LastMod: store.NoTime}
	case current.Pushed:
		return current.Listed
	}
	known := *current
	return &known
}

// mergeListed has a document's entry take the place of a pushed want, or keeps an older one beside it.
func (p *Planner) mergeListed(r *row, e *Entry) {
	pushed := r.want
	d := p.decide(r, &pushed, e)
	switch {
	case d == merge.Ignore:
		p.mergeBeside(r, e)
		return
	case d == merge.Repeat && pushed.State != e.Cand.State:
		r.want.Pushed, r.want.Listed = false, nil
	default:
		r.want = p.made(d, r, e, &pushed)
	}
	switch {
	case d == merge.Repeat:
		if r.same = true; p.Lag != nil {
			p.Lag(pushed.Version)
		}
	case d == merge.Replace && p.News != nil && !e.Baseline && !e.Cand.Left:
		p.News(e.Cand.Version)
	}
	r.changed = true
}

func (p *Planner) mergeBeside(r *row, e *Entry) {
	listed := r.want.Listed
	if listed == nil || listed.State == store.WantNone {
		listed = nil
	}
	if d := p.decide(r, listed, e); d == merge.Replace || d == merge.Ask {
		next := p.made(d, r, e, listed)
		r.want.Listed, r.changed = &next, true
	}
}
