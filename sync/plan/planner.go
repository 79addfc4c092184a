package plan

import (
	"context"

	"resyncd/store"
	"resyncd/sync/keymap"
	"resyncd/sync/merge"
	"resyncd/sync/spill"
	"resyncd/sync/transfer"
)

// How many entries are compared with the state at once: few at first, so that the first fetch starts while the list is
// still arriving and little is held in memory; more in a long list, whose commits are synced one by one, and soon in a Change List
// whose URIs come in no order (a baseline's are gathered): each commit rewrites every index page that it touches, then
// nearly one for each entry of a small batch.
// The very first ones are what all connections wait for: a fifth of a batch is compared in less than half of the time.
const (
	planFirst    = 200
	planBatch    = 1000
	planBatchMax = 8000
	// One more for so many that were listed, and for so many that stood behind a greater one.
	batchListed, batchJumps = 32, 4
)

// Entry is one list entry on its way to becoming a want.
type Entry struct {
	URI      string
	Cand     merge.Candidate
	Baseline bool
	Trusted  bool // of a baseline: Reading.Trusted of its list
	Pushed   bool // by a signed notification
	Hinted   bool // what is said of it proves nothing: the Source is asked
	Edge     bool // the last reading of its document need not have shown it
	Note     *transfer.Note
	Item     *Item // of a topic; then nothing of the above but note counts
}

// Options say for what, and by what rules, a planner plans.
type Options struct {
	Site *transfer.Site
	Set  *store.Set
	// Refused is the rule by which URIs are refused, Filtered the part of it that also holds for what needs no request.
	Refused, Filtered func(uri string) (refused string)
	// Follow are the links of entries that are mirrored too, Records whether entries edit records.
	Follow  []string
	Records bool
	// Wide: the files of all resources are looked at.
	Wide bool
	// Await gives others their turn for a wait; resume ends it. nil: there are none.
	Await func() (resume func())
	// Limits say when a baseline's entries are gathered first; nil: the usual ones.
	Limits *Limits
}

// Hub decides what a hub's word may change of a topic.
type Hub interface {
	// MayChange decides it of an item, and what the row says so far.
	MayChange(uri string, item merge.Candidate, current *store.Want) bool
	// Remember has a commit with wants of notifications tell of them.
	Remember(c *store.Commit) error
}

// Planner turns entries into wants, batch by batch, each in one commit. It is used by one goroutine.
type Planner struct {
	o     Options
	Batch []Entry
	// seen are the rows that the current baseline listed, listedIn where a baseline that is being read notes what it listed, in
	// a planner of notifications; else nil.
	Seen, ListedIn *spill.Bitmap
	Reading        merge.Reading // the baseline that is being read; At and Trusted are those of its entries
	rows           rowPool
	order          order
	draft          draft
	Topic          topicPlan
	// news hears of what the documents told first, lag of pushed wants that they confirm.
	News, Lag func(at store.Version)
	names     *keymap.Assigner
	fold      bool          // the mirror's file system ignores letter case
	Calm      *spill.Bitmap // rows that entries found as they are wanted; nil: none
	Wanted    bool          // any want was written
}

// order is how the entries came, and those that are gathered first because they came in none.
type order struct {
	limits   Limits
	gathered *gathered // nil: none are
	listed   int64
	jumps    int64 // of those listed, and the URI of the last one
	last     string
}

// draft is the commit that is being filled.
type draft struct {
	// with is filled into the commit of the next flush, so that what proves an interval is recorded with its wants.
	with      *store.Commit
	notes     map[int]*transfer.Note // by place in the commit
	newcomers []newcomer
	urgent    []int64 // rows that are being fetched already
}

// topicPlan is what the planning of a topic's items finds out beside wants.
type topicPlan struct {
	Document int64 // the id of its document, for records
	Odd      int64 // what was not as its format has it, in edits of records
	Unheard  int64 // entries that no reading of its feed has shown before
	Crowded  int64 // links beyond followMost
	// contested are items that can only be decided by reading their document again (by its URL, "" for pushes).
	Contested map[string]map[string]bool
	unlinked  []Entry // what an entry does not link to any more
	Hub       Hub     // of its notifications; else nil
}

// New is a planner of one set.
func New(o Options) *Planner {
	fold := o.Site.Mirror != nil && o.Site.Mirror.FoldsCase()
	p := &Planner{o: o, fold: fold, names: keymap.NewAssigner(fold)}
	p.draft.notes, p.order.limits = map[int]*transfer.Note{}, gathers()
	if o.Limits != nil {
		p.order.limits = *o.Limits
	}
	return p
}

// Refuses tells why a URI is refused, "" for one that is not.
func (p *Planner) Refuses(uri string) (refused string) { return p.o.Refused(uri) }

// await gives others their turn for a wait.
func (p *Planner) await() (resume func()) {
	if p.o.Await == nil {
		return func() {}
	}
	return p.o.Await()
}

// Add queues one entry.
func (p *Planner) Add(ctx context.Context, e Entry) error {
	p.order.listed++
	if e.URI < p.order.last {
		p.order.jumps++
	}
	p.order.last = e.URI
	if e.Baseline && p.inNoOrder() {
		return p.gather(ctx, &e)
	}
	p.Batch = append(p.Batch, e)
	if int64(len(p.Batch)) < p.room() {
		return nil
	}
	if e.Baseline {
		return p.plan(ctx)
	}
	return p.Flush(ctx)
}

// plan is flush for entries of a baseline, once there is room for what they ask for. The turn is given away meanwhile: what was
// gathered of a list is planned without a wait for the list in between.
func (p *Planner) plan(ctx context.Context) error {
	if len(p.Batch) == 0 {
		return nil
	}
	resume := p.await()
	p.o.Site.AwaitRoom(ctx)
	resume()
	return p.Flush(ctx)
}

// room is how many entries make a batch now.
func (p *Planner) room() int64 {
	if p.order.listed <= planFirst {
		return planFirst
	}
	return min(max(planBatch, p.order.listed/batchListed, p.order.jumps/batchJumps), planBatchMax)
}

// row is one resource of a batch while it is compared.
type row struct {
	res     *store.Resource
	want    store.Want // the set's want as it will be
	had     bool       // the set had a want before
	changed bool
	before  int64 // bytes on disk counted for the set before, -1 for no file
	haveNew *store.Have
	same    bool // an entry of this batch confirmed what is there
	moved   bool // the disk was not as the row told
	doubted bool // what the disk holds counts for nothing
	// contest is the entry by which the reading at hand has put the row in doubt, and from what it was then. What a reading says of
	// a resource at an instant is the last that it says: most of such doubts end with an entry a little further down.
	contest *contest
	// told is the entry of a reading that may tell what the row tells although nothing shows it: the next one cannot.
	told store.Version
	note *transfer.Note // the notification that asked for it
	// Of a topic: bytes at hand, the key that it should get, and edits of the record that it is.
	content []byte
	natural string
	edits   []store.Edit
	fresh   [][32]byte // of them those that the feed did not show at the last pull
}

// Flush compares the queued entries with the state and commits the differences. Under the lock of the rows, because rows read
// here are written back.
func (p *Planner) Flush(ctx context.Context) error {
	for {
		if err := p.flushBatch(ctx); err != nil || len(p.Topic.unlinked) == 0 {
			return err
		}
		p.Batch, p.Topic.unlinked = append(p.Batch, p.Topic.unlinked...), nil
	}
}

func (p *Planner) flushBatch(ctx context.Context) error {
	if len(p.Batch) == 0 && p.draft.with == nil {
		return nil
	}
	p.o.Site.Rows.Lock()
	defer p.o.Site.Rows.Unlock()
	defer p.rows.clear()
	calm := p.calms()
	rows, err := p.lookup(ctx)
	if err != nil {
		return err
	}
	for i := range p.Batch {
		p.merge(rows[p.Batch[i].URI], &p.Batch[i])
	}
	c := p.draft.with
	if c == nil {
		c = &store.Commit{Claim: p.o.Site.Claim}
	}
	p.draft.with = nil
	if err := p.foldRecords(ctx, rows, c); err != nil {
		return err
	}
	if p.Topic.Hub != nil {
		if err := p.Topic.Hub.Remember(c); err != nil {
			return err
		}
	}
	if err := p.changes(ctx, rows, c); err != nil {
		return err
	}
	p.progress(int64(len(p.Batch)), p.calms()-calm)
	p.Batch = p.Batch[:0]
	if len(c.Resources) == 0 && len(c.Sets) == 0 && len(c.Inbox) == 0 && len(c.Edits) == 0 {
		return nil
	}
	if err := p.foresee(ctx, c); err != nil {
		return err
	}
	if err := p.o.Site.Store.Commit(ctx, c); err != nil {
		p.o.Site.Fail(p.draft.urgent)
		return err
	}
	if len(c.Resources) > 0 {
		p.Wanted = true
		p.written(c)
	}
	return nil
}

// FlushWith is flush with further parts of the commit.
func (p *Planner) FlushWith(ctx context.Context, c *store.Commit) error {
	p.draft.with = c
	return p.Flush(ctx)
}

func (p *Planner) progress(listed, done int64) {
	if p.o.Site.Progress != nil {
		p.o.Site.Progress(transfer.Progress{Listed: listed, Done: done})
	}
}

func (p *Planner) lookup(ctx context.Context) (map[string]*row, error) {
	uris := make([]string, 0, len(p.Batch))
	pool, rows := p.rows.take(len(p.Batch))
	for i := range p.Batch {
		u := p.Batch[i].URI
		if rows[u] == nil {
			rows[u] = &pool[len(uris)]
			uris = append(uris, u)
		}
	}
	found, err := p.o.Site.Store.Lookup(ctx, p.o.Site.SourceID, p.o.Set.ID, uris)
	if err != nil {
		return nil, err
	}
	var fresh []store.Resource
	for i, u := range uris {
		r := rows[u]
		r.res, r.before = found[i], -1
		if r.res == nil {
			if len(fresh) == 0 {
				fresh = make([]store.Resource, min(len(uris)-i, 256))
			}
			r.res, fresh = &fresh[0], fresh[1:]
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

// rowPool are the rows of the last batch, for the next: an eighth of what a first sync of small resources allocated.
type rowPool struct {
	pool []row
	rows map[string]*row // by URI
}

// take returns n empty rows, and where to note them by URI, for as long as a flush takes. Those of large batches are not
// kept for the next.
func (p *rowPool) take(n int) ([]row, map[string]*row) {
	if n > 2*planBatch {
		return make([]row, n), make(map[string]*row, n)
	}
	if cap(p.pool) < n {
		p.pool, p.rows = make([]row, n, max(n, planBatch)), make(map[string]*row, n)
	}
	p.pool = p.pool[:n]
	return p.pool, p.rows
}

// clear forgets the rows.
func (p *rowPool) clear() {
	clear(p.pool)
	clear(p.rows)
}

// merge lets one entry meet the row of its URI. The order of the batch is the order of the document.
func (p *Planner) merge(r *row, e *Entry) {
	var current *store.Want
	if r.had || r.changed {
		current = &r.want
	}
	if e.Item != nil {
		p.mergeItem(r, e)
		return
	}
	if e.Baseline && r.res.ID != 0 {
		p.Seen.Add(r.res.ID)
	} else if e.Hinted || e.Pushed {
		p.keepsListed(r, current)
	}
	if e.Hinted {
		p.mergeHint(r, e, current)
		return
	}
	if e.Pushed {
		p.mergePush(r, e, current)
		return
	}
	if r.want.Pushed {
		p.mergeListed(r, e)
		return
	}
	current = r.reopen(e, current)
	d := p.decide(r, current, e)
	if (d == merge.Repeat || d == merge.Ignore && current != nil && current.Settled) && r.vague(e, current, p.o.Set.Floor) {
		d = merge.Ask
	}
	switch d {
	case merge.Replace, merge.Ask:
		w := p.wantOf(e, current)
		if d == merge.Ask {
			r.contests(e, current)
			w = e.Cand.Contest(current, p.o.Set.Floor, p.o.Set.ID)
			w.Generation = p.generation(e)
		}
		if p.News != nil && !e.Baseline {
			p.News(e.Cand.Version)
		}
		if w.State != store.WantAbsent {
			w.Refused = p.o.Refused(e.URI)
		}
		if current != nil && !p.Reading.Full && merge.CarryOver(current, &w, &r.res.Have) {
			h := r.res.Have
			h.Version = w.Version
			r.haveNew = &h
			r.res.Have = h
		}
		r.want, r.changed = w, true
	case merge.Repeat:
		r.same = true
	}
}

// decide says what an entry of a document does to a row, nil for none.
func (p *Planner) decide(r *row, current *store.Want, e *Entry) merge.Decision {
	if e.Baseline { // by the at that it was read under
		reading := p.Reading
		reading.At, reading.Trusted = e.Cand.Version.From, e.Trusted
		return merge.MergeBaseline(current, &r.res.Have, merge.FloorOf(p.o.Set), e.Cand, reading)
	}
	return merge.Merge(current, &r.res.Have, merge.FloorOf(p.o.Set), e.Cand)
}

// wantOf is an entry of a document as the want of the set, in place of current.
func (p *Planner) wantOf(e *Entry, current *store.Want) store.Want {
	w := e.Cand.Want(p.o.Set.ID)
	if w.Generation = p.generation(e); e.Baseline && !p.Reading.Reset {
		w = merge.Raised(w, current, p.o.Set.Floor)
	}
	return w
}

func (p *Planner) generation(e *Entry) int64 {
	if e.Baseline {
		return p.o.Set.Generation
	}
	return 0
}

// changes fills the commit with what differs and decides what work each resource needs.
func (p *Planner) changes(ctx context.Context, rows map[string]*row, c *store.Commit) error {
	now := p.o.Site.LocalNow()
	var fresh []int        // places in the commit whose resource needs a key
	var natural []string   // what they are called where nothing stands in the way, "" by their URI
	var shared []sharedRow // rows of which the other sets' wants matter
	var files, bytes int64
	p.draft.newcomers = p.draft.newcomers[:0]
	for i := range p.Batch {
		r := rows[p.Batch[i].URI]
		if r == nil {
			continue
		}
		delete(rows, p.Batch[i].URI) // once per URI, in document order
		if err := p.checkDisk(ctx, r, p.Batch[i].Item != nil); err != nil {
			return err
		}
		r.adopt()
		known := r.same && !r.changed // and unchanged, unless something is owed: then what becomes of that is counted
		if !r.changed && r.haveNew == nil && !r.refill() {
			if known && r.res.Work.Action == store.ActionNone {
				p.calmed(r)
			}
			continue
		}
		rc := store.ResourceChange{ID: r.res.ID, Have: r.haveNew}
		if r.changed {
			rc.Want = &r.want
			p.event(c, r, now)
		}
		work := merge.WorkFor(&r.want, &r.res.Have, now)
		if r.doubted && !r.want.Held && r.want.Refused == "" {
			work = store.Work{Action: store.ActionFetch, Due: now}
		}
		if known && work.Action == store.ActionNone {
			p.calmed(r)
		}
		if rc.Work = &work; r.moved || work.Action == store.ActionNone && r.res.Work.Action != store.ActionNone {
			shared = append(shared, sharedRow{row: r, at: len(c.Resources)})
		}
		if rc.URI = r.res.URI; r.res.Key == "" && r.want.State != store.WantAbsent { // a tombstone of something never seen owns no name
			fresh, natural = append(fresh, len(c.Resources)), append(natural, r.natural)
		}
		r.keep(&rc)
		if r.note != nil {
			p.draft.notes[len(c.Resources)] = r.note
		}
		after := merge.Counted(&r.want, &r.res.Have)
		files, bytes = files+merge.Delta(r.before, after), bytes+merge.DeltaBytes(r.before, after)
		if r.res.ID == 0 {
			p.draft.newcomers = append(p.draft.newcomers, newcomer{r.res, len(c.Resources)})
		}
		if c.Resources == nil {
			c.Resources = make([]store.ResourceChange, 0, len(rows)+1) // what else is in the batch may be all new
		}
		c.Resources = append(c.Resources, rc)
	}
	if err := p.AssignKeys(ctx, c, fresh, natural); err != nil {
		return err
	}
	if err := p.askOthers(ctx, c, shared, now); err != nil {
		return err
	}
	for i := range c.Resources {
		if c.Resources[i].ID != 0 {
			p.o.Site.Touch(&c.Resources[i], now)
		}
	}
	if files != 0 || bytes != 0 {
		c.Sets = append(c.Sets, store.SetChange{ID: p.o.Set.ID, Resources: files, Bytes: bytes})
	}
	return nil
}

// AssignKeys gives resources their mirror keys, in document order. A URI that no file name can stand for is refused.
func (p *Planner) AssignKeys(ctx context.Context, c *store.Commit, fresh []int, natural []string) error {
	if len(fresh) == 0 {
		return nil
	}
	uris := make([]string, len(fresh))
	for i, at := range fresh {
		uris[i] = c.Resources[at].URI
	}
	keys, err := p.names.AssignNamed(uris, natural, func(names []string) ([]store.NameUse, error) {
		return p.o.Site.Store.Names(ctx, p.o.Site.SourceID, names)
	})
	if err != nil {
		return err
	}
	for i, at := range fresh {
		rc := &c.Resources[at]
		if rc.Key = keys[i]; rc.Key == "" {
			if rc.Want.Refused == "" {
				rc.Want.Refused = "no file name can stand for this URI"
			}
			rc.Work, rc.Content = &store.Work{}, nil
		} else if p.fold {
			rc.Name = keymap.FoldKey(rc.Key)
		}
	}
	return nil
}

// event adds a history line where something is replaced; a first want is told by its own row.
func (p *Planner) event(c *store.Commit, r *row, now store.Micros) {
	if !r.had {
		return
	}
	what, detail := "wanted", r.want.Digests
	if r.want.State == store.WantAbsent {
		what, detail = "wanted absent", ""
	}
	c.Events = append(c.Events, store.Event{
		SourceID: p.o.Site.SourceID, URI: r.res.URI, At: now, What: what, Version: r.want.Version, Detail: detail,
	})
}
