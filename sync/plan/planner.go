// Package plan turns the entries of documents and notifications into wants, one commit per batch. It knows neither who
// read an entry nor who carries out the work.
package plan

import (
	"context"

	"resyncd/store"
	"resyncd/sync/keymap"
	"resyncd/sync/merge"
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
	Item      *Item // of a topic; then Baseline to Edge do not count
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
	Remember(c *store.Commit)
}

// Planner turns entries into wants, one commit per batch. Only one goroutine may use it.
type Planner struct {
	o       Options
	Batch   []Entry
	Seen    *spill.Bitmap // rows that the current baseline listed
	Reading merge.Reading // the current baseline
	order   order
	Topic   topicPlan
	// News hears of changes that the documents told first; Lag hears of confirmed pushes.
	News, Lag func(at store.Version)
	names     *keymap.Assigner
	fold      bool          // the mirror ignores letter case
	Calm      *spill.Bitmap // rows found as wanted
	Wanted    bool
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
	p := &Planner{o: o, fold: fold, names: keymap.NewAssigner(fold), Calm: spill.NewBitmap()}
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

// plan flushes entries of a baseline once there is room for their work. Others have the turn meanwhile.
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
	calm := p.Calm.Len
	byURI, err := p.lookup(ctx)
	if err != nil {
		return err
	}
	for i := range p.Batch {
		p.merge(byURI[p.Batch[i].URI], &p.Batch[i])
	}
	if err := p.foldRecords(ctx, byURI, c); err != nil {
		return err
	}
	if p.Topic.Hub != nil {
		p.Topic.Hub.Remember(c)
	}
	rows, err := p.changes(ctx, byURI, c)
	if err != nil {
		return err
	}
	p.progress(int64(len(p.Batch)), p.Calm.Len-calm)
	p.Batch = p.Batch[:0]
	if len(c.Resources) == 0 && len(c.Sets) == 0 && len(c.Inbox) == 0 && len(c.Edits) == 0 {
		return nil
	}
	urgent, err := p.foresee(ctx, c)
	if err != nil {
		return err
	}
	if err := p.o.Site.Store.Commit(ctx, c); err != nil {
		p.o.Site.Fail(urgent)
		return err
	}
	if len(rows) > 0 {
		p.Wanted = true
		p.written(c, rows, urgent)
	}
	return nil
}

func (p *Planner) progress(listed, done int64) {
	if p.o.Site.Progress != nil {
		p.o.Site.Progress(transfer.Progress{Listed: listed, Done: done})
	}
}
