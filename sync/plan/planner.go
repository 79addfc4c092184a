package plan

import (
	"context"

	"resyncd/store"
	"resyncd/sync/keymap"
	"resyncd/sync/merge"
	"resyncd/sync/spill"
	"resyncd/sync/transfer"
)

// Small first batches let fetches start while the list still arrives. Large batches save commits in long lists, and
// index pages in lists with unordered URIs.
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
	Note     *transfer.Note
	Item     *Item // of a topic; then Baseline to Edge do not count
}

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
	Remember(c *store.Commit) error
}

// Planner turns entries into wants, one commit per batch. Only one goroutine may use it.
type Planner struct {
	o     Options
	Batch []Entry
	// Seen are the rows that the current baseline listed. ListedIn is the Seen of a running baseline, in the planner of
	// notifications.
	Seen, ListedIn *spill.Bitmap
	Reading        merge.Reading // the current baseline
	rows           rowPool
	order          order
	draft          draft
	Topic          topicPlan
	// News hears of changes that the documents told first; Lag hears of confirmed pushes.
	News, Lag func(at store.Version)
	names     *keymap.Assigner
	fold      bool          // the mirror ignores letter case
	Calm      *spill.Bitmap // rows found as wanted; nil for none
	Wanted    bool
}

type order struct {
	limits   Limits
	gathered *gathered
	listed   int64
	jumps    int64 // entries below the one before
	last     string
}

type draft struct {
	// with is the commit to extend, so that an interval is proven only with its wants.
	with      *store.Commit
	notes     map[int]*transfer.Note // by place in the commit
	newcomers []newcomer
	urgent    []int64 // rows whose fetch has begun
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
	p := &Planner{o: o, fold: fold, names: keymap.NewAssigner(fold)}
	p.draft.notes, p.order.limits = map[int]*transfer.Note{}, gathers()
	if o.Limits != nil {
		p.order.limits = *o.Limits
	}
	return p
}

// Refuses returns why a URI is refused; "" for an accepted one.
func (p *Planner) Refuses(uri string) (refused string) { return p.o.Refused(uri) }

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

// plan flushes entries of a baseline once there is room for their work. Others have the turn meanwhile, because sorted
// batches follow without a wait for the list.
func (p *Planner) plan(ctx context.Context) error {
	if len(p.Batch) == 0 {
		return nil
	}
	resume := p.await()
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

// Flush commits the differences between the queued entries and the state. It holds the row lock, because rows that it
// read are written back.
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

// FlushWith is Flush with further parts of the commit.
func (p *Planner) FlushWith(ctx context.Context, c *store.Commit) error {
	p.draft.with = c
	return p.Flush(ctx)
}

func (p *Planner) progress(listed, done int64) {
	if p.o.Site.Progress != nil {
		p.o.Site.Progress(transfer.Progress{Listed: listed, Done: done})
	}
}

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
	if (d == merge.Repeat || d == merge.Ignore && current != nil && current.Settled) &&
		r.vague(e, current, p.o.Set.Floor) {
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

func (p *Planner) decide(r *row, current *store.Want, e *Entry) merge.Decision {
	if e.Baseline { // the list's own at; an index has several
		reading := p.Reading
		reading.At, reading.Trusted = e.Cand.Version.From, e.Trusted
		return merge.MergeBaseline(current, &r.res.Have, merge.FloorOf(p.o.Set), e.Cand, reading)
	}
	return merge.Merge(current, &r.res.Have, merge.FloorOf(p.o.Set), e.Cand)
}

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

func (p *Planner) changes(ctx context.Context, rows map[string]*row, c *store.Commit) error {
	now := p.o.Site.LocalNow()
	var fresh []int // places without key
	var natural []string
	var shared []sharedRow // rows whose other sets matter
	var files, bytes int64
	p.draft.newcomers = p.draft.newcomers[:0]
	for i := range p.Batch {
		r := rows[p.Batch[i].URI]
		if r == nil {
			continue
		}
		delete(rows, p.Batch[i].URI)
		if err := p.checkDisk(ctx, r, p.Batch[i].Item != nil); err != nil {
			return err
		}
		r.adopt()
		known := r.same && !r.changed // a row with work is counted by its work
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
		if rc.URI = r.res.URI; r.res.Key == "" && r.want.State != store.WantAbsent {
			// a tombstone of an unseen resource needs no key
			fresh, natural = append(fresh, len(c.Resources)), append(natural, r.natural)
		}
		r.keep(&rc)
		if r.note != nil {
			p.draft.notes[len(c.Resources)] = r.note
		}
		after := merge.Counted(&r.want, &r.res.Have)
		files, bytes = files+after.Resources-r.before.Resources, bytes+after.Bytes-r.before.Bytes
		if r.res.ID == 0 {
			p.draft.newcomers = append(p.draft.newcomers, newcomer{r.res, len(c.Resources)})
		}
		if c.Resources == nil {
			c.Resources = make([]store.ResourceChange, 0, len(rows)+1)
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

// AssignKeys gives resources their mirror keys, in document order. A URI without a possible file name is refused.
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

// event adds a history line for a replaced want.
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
