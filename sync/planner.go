package sync

import (
	"context"

	"resyncd/destination"
	"resyncd/store"
	"resyncd/sync/keymap"
	"resyncd/sync/merge"
	"resyncd/sync/spill"
	"resyncd/sync/transfer"
)

// How many entries are compared with the state at once: few at first, so that the first fetch starts while the list is
// still arriving and little is held in memory; more in a long list, whose commits are synced one by one, and soon in a Change List
// whose URIs come in no order (a baseline's are gathered, gather.go): each commit rewrites every index page that it touches, then
// nearly one for each entry of a small batch.
// The very first ones are what all connections wait for: a fifth of a batch is compared in less than half of the time.
const (
	planFirst    = 200
	planBatch    = 1000
	planBatchMax = 8000
	// One more for so many that were listed, and for so many that stood behind a greater one.
	batchListed, batchJumps = 32, 4
)

// entry is one list entry on its way to becoming a want.
type entry struct {
	uri      string
	cand     merge.Candidate
	baseline bool
	trusted  bool // of a baseline: Reading.Trusted of its list
	pushed   bool // by a signed notification
	hinted   bool // what is said of it proves nothing: the Source is asked
	edge     bool // the last reading of its document need not have shown it
	note     *transfer.Note
	item     *item // of a topic; then nothing of the above but note counts
}

// planner turns entries into wants, batch by batch, each in one commit. It is used by one goroutine.
type planner struct {
	s     *session
	set   *store.Set
	scope func(uri string) (refused string)
	// filter is the part of scope that also holds for what needs no request.
	filter func(uri string) (refused string)
	seen   *spill.Bitmap // rows that the current baseline listed
	// listedIn is where a baseline that is being read notes what it listed, in a planner of notifications; else nil.
	listedIn *spill.Bitmap
	reading  merge.Reading // the baseline that is being read; At and Trusted are those of its entries
	batch    []entry
	// Of the last batch, for the next: an eighth of what a first sync of small resources allocated.
	pool []row
	rows map[string]*row // by URI
	// limits say when a baseline's entries are gathered first (gather.go).
	limits   gatherLimits
	gathered *gathered // nil: they are not
	// with is filled into the commit of the next flush, so that what proves an interval is recorded with its wants.
	with      *store.Commit
	notes     map[int]*transfer.Note // by place in the commit that is being filled
	newcomers []newcomer             // in it
	urgent    []int64                // rows of it that are being fetched already
	// news hears of what the documents told first, lag of pushed wants that they confirm.
	news  func(at store.Version)
	lag   func(at store.Version)
	names *keymap.Assigner
	fold  bool // the mirror's file system ignores letter case

	listed   int64
	calm     *spill.Bitmap // rows that entries found as they are wanted; nil: none
	jumps    int64         // of those listed, and the URI of the last one
	last     string
	wanted   bool  // any want was written
	document int64 // the id of the topic's document, for records
	odd      int64 // what was not as its format has it, in edits of records
	// Of a topic: entries that no reading of its feed has shown before, links beyond followMost, items that can only be decided by
	// reading their document again (by its URL, "" for pushes), and what an entry does not link to any more.
	unheard   int64
	crowded   int64
	contested map[string]map[string]bool
	unlinked  []entry
	heard     *heard // of a topic's notifications; else nil
}

func (s *session) newPlanner(set *store.Set, offer *destination.SetOffer) (*planner, error) {
	scope, err := s.scopeOf(set, offer)
	if err != nil {
		return nil, err
	}
	filter, err := s.t.filter()
	if err != nil {
		return nil, err
	}
	fold := s.t.Mirror != nil && s.t.Mirror.FoldsCase()
	return &planner{s: s, set: set, scope: scope, filter: filter, fold: fold, names: keymap.NewAssigner(fold),
		notes: map[int]*transfer.Note{}, limits: s.gathers()}, nil
}

// add queues one entry.
func (p *planner) add(ctx context.Context, e entry) error {
	p.listed++
	if e.uri < p.last {
		p.jumps++
	}
	p.last = e.uri
	if e.baseline && p.inNoOrder() {
		return p.gather(ctx, &e)
	}
	p.batch = append(p.batch, e)
	if int64(len(p.batch)) < p.room() {
		return nil
	}
	if e.baseline {
		return p.plan(ctx)
	}
	return p.flush(ctx)
}

// plan is flush for entries of a baseline, once there is room for what they ask for. The turn is given away meanwhile: what was
// gathered of a list is planned without a wait for the list in between.
func (p *planner) plan(ctx context.Context) error {
	if len(p.batch) == 0 {
		return nil
	}
	resume := p.s.await()
	p.s.site.AwaitRoom(ctx)
	resume()
	return p.flush(ctx)
}

// room is how many entries make a batch now.
func (p *planner) room() int64 {
	if p.listed <= planFirst {
		return planFirst
	}
	return min(max(planBatch, p.listed/batchListed, p.jumps/batchJumps), planBatchMax)
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
	doubted bool // what the disk holds counts for nothing (doubt.go)
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

// flush compares the queued entries with the state and commits the differences. Under the lock of the rows, because rows read
// here are written back.
func (p *planner) flush(ctx context.Context) error {
	for {
		if err := p.flushBatch(ctx); err != nil || len(p.unlinked) == 0 {
			return err
		}
		p.batch, p.unlinked = append(p.batch, p.unlinked...), nil
	}
}

func (p *planner) flushBatch(ctx context.Context) error {
	if len(p.batch) == 0 && p.with == nil {
		return nil
	}
	p.s.site.Rows.Lock()
	defer p.s.site.Rows.Unlock()
	defer func() { clear(p.pool); clear(p.rows) }()
	calm := p.calms()
	rows, err := p.lookup(ctx)
	if err != nil {
		return err
	}
	for i := range p.batch {
		p.merge(rows[p.batch[i].uri], &p.batch[i])
	}
	c := p.with
	if c == nil {
		c = &store.Commit{Claim: p.s.claim}
	}
	p.with = nil
	if err := p.foldRecords(ctx, rows, c); err != nil {
		return err
	}
	if err := p.heard.remember(p, c); err != nil {
		return err
	}
	if err := p.changes(ctx, rows, c); err != nil {
		return err
	}
	p.progress(int64(len(p.batch)), p.calms()-calm)
	p.batch = p.batch[:0]
	if len(c.Resources) == 0 && len(c.Sets) == 0 && len(c.Inbox) == 0 && len(c.Edits) == 0 {
		return nil
	}
	if err := p.foresee(ctx, c); err != nil {
		return err
	}
	if err := p.s.Store.Commit(ctx, c); err != nil {
		p.s.site.Fail(p.urgent)
		return err
	}
	if len(c.Resources) > 0 {
		p.wanted = true
		p.written(c)
	}
	return nil
}

// flushWith is flush with further parts of the commit.
func (p *planner) flushWith(ctx context.Context, c *store.Commit) error {
	p.with = c
	return p.flush(ctx)
}

func (p *planner) progress(listed, done int64) {
	if p.s.o.Progress != nil {
		p.s.o.Progress(transfer.Progress{Listed: listed, Done: done})
	}
}

func (p *planner) lookup(ctx context.Context) (map[string]*row, error) {
	uris := make([]string, 0, len(p.batch))
	pool, rows := p.rowsFor(len(p.batch))
	for i := range p.batch {
		u := p.batch[i].uri
		if rows[u] == nil {
			rows[u] = &pool[len(uris)]
			uris = append(uris, u)
		}
	}
	found, err := p.s.Store.Lookup(ctx, p.s.src.ID, p.set.ID, uris)
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
			r.res.SourceID, r.res.URI = p.s.src.ID, u
			continue
		}
		if w := r.res.WantFor(p.set.ID); w != nil {
			r.want, r.had = *w, true
		}
		r.before = merge.Counted(&r.want, &r.res.Have)
	}
	return rows, nil
}

// rowsFor returns n empty rows, and where to note them by URI, for as long as a flush takes. Those of large batches are not
// kept for the next.
func (p *planner) rowsFor(n int) ([]row, map[string]*row) {
	if n > 2*planBatch {
		return make([]row, n), make(map[string]*row, n)
	}
	if cap(p.pool) < n {
		p.pool, p.rows = make([]row, n, max(n, planBatch)), make(map[string]*row, n)
	}
	p.pool = p.pool[:n]
	return p.pool, p.rows
}

// merge lets one entry meet the row of its URI. The order of the batch is the order of the document.
func (p *planner) merge(r *row, e *entry) {
	var current *store.Want
	if r.had || r.changed {
		current = &r.want
	}
	if e.item != nil {
		p.mergeItem(r, e)
		return
	}
	if e.baseline && r.res.ID != 0 {
		p.seen.Add(r.res.ID)
	} else if e.hinted || e.pushed {
		p.keepsListed(r, current)
	}
	if e.hinted {
		p.mergeHint(r, e, current)
		return
	}
	if e.pushed {
		p.mergePush(r, e, current)
		return
	}
	if r.want.Pushed {
		p.mergeListed(r, e)
		return
	}
	current = r.reopen(e, current)
	d := p.decide(r, current, e)
	if (d == merge.Repeat || d == merge.Ignore && current != nil && current.Settled) && r.vague(e, current, p.set.Floor) {
		d = merge.Ask
	}
	switch d {
	case merge.Replace, merge.Ask:
		w := p.wantOf(e, current)
		if d == merge.Ask {
			r.contests(e, current)
			w = e.cand.Contest(current, p.set.Floor, p.set.ID)
			w.Generation = p.generation(e)
		}
		if p.news != nil && !e.baseline {
			p.news(e.cand.Version)
		}
		if w.State != store.WantAbsent {
			w.Refused = p.scope(e.uri)
		}
		if current != nil && !p.reading.Full && merge.CarryOver(current, &w, &r.res.Have) {
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
func (p *planner) decide(r *row, current *store.Want, e *entry) merge.Decision {
	if e.baseline { // by the at that it was read under
		reading := p.reading
		reading.At, reading.Trusted = e.cand.Version.From, e.trusted
		return merge.MergeBaseline(current, &r.res.Have, merge.FloorOf(p.set), e.cand, reading)
	}
	return merge.Merge(current, &r.res.Have, merge.FloorOf(p.set), e.cand)
}

// wantOf is an entry of a document as the want of the set, in place of current.
func (p *planner) wantOf(e *entry, current *store.Want) store.Want {
	w := e.cand.Want(p.set.ID)
	if w.Generation = p.generation(e); e.baseline && !p.reading.Reset {
		w = merge.Raised(w, current, p.set.Floor)
	}
	return w
}

func (p *planner) generation(e *entry) int64 {
	if e.baseline {
		return p.set.Generation
	}
	return 0
}

// changes fills the commit with what differs and decides what work each resource needs.
func (p *planner) changes(ctx context.Context, rows map[string]*row, c *store.Commit) error {
	now := p.s.site.LocalNow()
	var fresh []int        // places in the commit whose resource needs a key
	var natural []string   // what they are called where nothing stands in the way, "" by their URI
	var shared []sharedRow // rows of which the other sets' wants matter
	var files, bytes int64
	p.newcomers = p.newcomers[:0]
	for i := range p.batch {
		r := rows[p.batch[i].uri]
		if r == nil {
			continue
		}
		delete(rows, p.batch[i].uri) // once per URI, in document order
		if err := p.checkDisk(ctx, r, p.batch[i].item != nil); err != nil {
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
			p.s.event(c, r, now)
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
			p.notes[len(c.Resources)] = r.note
		}
		after := merge.Counted(&r.want, &r.res.Have)
		files, bytes = files+merge.Delta(r.before, after), bytes+merge.DeltaBytes(r.before, after)
		if r.res.ID == 0 {
			p.newcomers = append(p.newcomers, newcomer{r.res, len(c.Resources)})
		}
		if c.Resources == nil {
			c.Resources = make([]store.ResourceChange, 0, len(rows)+1) // what else is in the batch may be all new
		}
		c.Resources = append(c.Resources, rc)
	}
	if err := p.assignKeys(ctx, c, fresh, natural); err != nil {
		return err
	}
	if err := p.askOthers(ctx, c, shared, now); err != nil {
		return err
	}
	for i := range c.Resources {
		if c.Resources[i].ID != 0 {
			p.s.site.Touch(&c.Resources[i], now)
		}
	}
	if files != 0 || bytes != 0 {
		c.Sets = append(c.Sets, store.SetChange{ID: p.set.ID, Resources: files, Bytes: bytes})
	}
	return nil
}

// assignKeys gives resources their mirror keys, in document order. A URI that no file name can stand for is refused.
func (p *planner) assignKeys(ctx context.Context, c *store.Commit, fresh []int, natural []string) error {
	if len(fresh) == 0 {
		return nil
	}
	uris := make([]string, len(fresh))
	for i, at := range fresh {
		uris[i] = c.Resources[at].URI
	}
	keys, err := p.names.AssignNamed(uris, natural, func(names []string) ([]store.NameUse, error) {
		return p.s.Store.Names(ctx, p.s.src.ID, names)
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
func (s *session) event(c *store.Commit, r *row, now store.Micros) {
	if !r.had {
		return
	}
	what, detail := "wanted", r.want.Digests
	if r.want.State == store.WantAbsent {
		what, detail = "wanted absent", ""
	}
	c.Events = append(c.Events, store.Event{
		SourceID: s.src.ID, URI: r.res.URI, At: now, What: what, Version: r.want.Version, Detail: detail,
	})
}
