package transfer

import (
	"context"
	"slices"
	"time"

	"resyncd/store"
	"resyncd/store/blob"
	"resyncd/sync/merge"
	"resyncd/sync/spill"
)

// staleAsks bounds the failures that ask for a newer list (F47, F48).
const staleAsks = 4

// settle makes one group durable: files first, rows after, in one commit (CONTRIBUTING.md 3.3). No file gets its name
// before its want and its notification are durable (planner.foresee).
func (r *Reconciler) settle(ctx context.Context, group []*outcome) error {
	if len(group) == 0 {
		return nil
	}
	r.giveUp(group)
	err := ctx.Err()
	if err == nil {
		err = r.s.Store.Durable(ctx)
	}
	if err == nil && slices.ContainsFunc(group, func(o *outcome) bool { return o.stage != nil }) {
		err = r.s.Begun(ctx, nil)
	}
	if err != nil {
		discard(group)
		return err
	}
	r.place(ctx, group)
	err = r.record(ctx, group)
	for _, o := range group {
		switch {
		case err == nil && o.verdict != verdictFailed:
			r.s.trust(o.res.ID)
		case err != nil && o.learnt:
			r.s.Doubt(o.res.ID)
		}
	}
	return err
}

func discard(group []*outcome) {
	for _, o := range group {
		o.discard()
	}
}

// giveUp fails outcomes of wants that were never recorded (P5). Rows makes it wait for a commit under way.
func (r *Reconciler) giveUp(group []*outcome) {
	w := r.s
	w.Rows.Lock()
	defer w.Rows.Unlock()
	for _, o := range group {
		if w.is(o.res.ID, void) {
			o.fail(&failure{
				class: "canceled", reason: "the state could not record that it is wanted", unasked: true,
			})
		}
	}
}

// place gives staged bytes their names. A failure of the disk halts the run; files placed before it count.
func (r *Reconciler) place(ctx context.Context, group []*outcome) {
	items := make([]blob.Placement, 0, len(group))
	of := make([]*outcome, 0, len(group))
	for _, o := range group {
		if o.stage != nil {
			items = append(items, blob.Placement{Stage: o.stage, Key: o.res.Key, Displace: o.displace})
			of = append(of, o)
		} else {
			o.displace = ""
		}
	}
	if len(items) == 0 {
		return
	}
	errs, systemic := r.s.Mirror.Place(ctx, items)
	for i, o := range of {
		if errs[i] != nil {
			o.fail(errs[i])
			if o.unsure = systemic != nil; o.unsure { // before another want is planned
				r.s.Doubt(o.res.ID)
			}
		}
		if !items[i].Displaced {
			o.displace = ""
		}
		o.stage = nil
	}
	if systemic != nil && ctx.Err() == nil { // a stopped run is no failure of the disk
		r.halt(systemic)
	}
}

func (r *Reconciler) record(ctx context.Context, group []*outcome) error {
	w := r.s
	w.Rows.Lock()
	defer w.Rows.Unlock()
	if err := r.refreshTouched(ctx, group); err != nil {
		return err
	}
	c := &store.Commit{Claim: r.s.Claim, Resources: make([]store.ResourceChange, 0, len(group))}
	now := r.s.LocalNow()
	for _, o := range group {
		r.recordOne(c, o, w.is(o.res.ID, touched), now)
	}
	if err := r.s.Store.Commit(ctx, c); err != nil {
		return err
	}
	r.count(group)
	for _, o := range group {
		again := w.is(o.res.ID, touched)
		w.end(o.res)
		r.tell(o, again)
	}
	if slices.ContainsFunc(c.Resources, removes) {
		w.Removals()
	}
	return nil
}

// refreshTouched re-reads rows whose want changed meanwhile, or totals would be wrong.
func (r *Reconciler) refreshTouched(ctx context.Context, group []*outcome) error {
	byID := map[int64]*outcome{}
	var ids []int64
	for _, o := range group {
		if r.s.is(o.res.ID, touched) {
			byID[o.res.ID] = o
			ids = append(ids, o.res.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rs, err := r.s.Store.ByIDs(context.WithoutCancel(ctx), ids) // the files are in place already
	if err != nil {
		return err
	}
	for _, fresh := range rs {
		byID[fresh.ID].res = fresh
	}
	return nil
}

func (r *Reconciler) recordOne(c *store.Commit, o *outcome, touched bool, now store.Micros) {
	rc := store.ResourceChange{ID: o.res.ID}
	have := &o.res.Have
	if o.learnt {
		if have.State != store.HaveNone && have.SHA256 != o.have.SHA256 {
			r.remember(c, o.res)
		}
		have = &o.have
		rc.Have = have
	}
	wants := o.res.Wants
	if !touched {
		work := store.Work{}
		switch o.verdict {
		case verdictFailed:
			work = o.reschedule(now)
		case verdictThere:
			wants, rc.Want = r.stays(o, wants, have) // the want may be newer than the file
			work = merge.WorkForAll(wants, have, now)
		case verdictGone:
			if o.absent() {
				work = store.Work{Action: store.ActionRemove, Due: now}
				break
			}
			fallthrough
		case verdictRefused:
			wants, rc.Want = r.decided(o, wants)
			work = merge.WorkForAll(wants, have, now)
		default:
			if o.absent() {
				work = merge.WorkForAll(wants, have, now)
			} else if o.asks() && o.there() {
				wants, rc.Want = r.decided(o, wants)
				if w := merge.Effective(wants); w != nil && w.SetID != o.want.SetID { // newer than the answer
					work = merge.WorkFor(w, have, now)
				}
			}
		}
		rc.Work = &work
		rc.DropContent = o.want != nil && o.want.Inline && work.Action != store.ActionFetch
	} else if o.unsure { // the planner could not know what is on disk
		rc.Work = new(o.reschedule(now))
	} else if o.learnt {
		rc.Work = new(merge.WorkForAll(wants, have, now))
	}
	if o.displace != "" {
		c.Trash = append(c.Trash, store.Trashed{
			ID: o.displace, SourceID: r.s.SourceID, URI: o.res.URI, Key: o.res.Key, Length: -1,
			Reason: "was in the way of " + o.res.URI, At: now,
		})
	}
	merge.Total(c, o.res.Wants, &o.res.Have, wants, have)
	c.Resources = append(c.Resources, rc)
}

func removes(rc store.ResourceChange) bool {
	return rc.Work != nil && rc.Work.Action == store.ActionRemove
}

func (r *Reconciler) tell(o *outcome, touched bool) {
	if o.verdict == verdictThere {
		r.s.Hint(o.want.SetID)
	}
	if touched {
		r.s.Name([]int64{o.res.ID})
		return
	}
	if o.verdict == verdictFailed && o.failure.stale && o.res.Work.Attempts < staleAsks && o.want != nil {
		r.s.Hint(o.want.SetID)
	}
	if o.verdict == verdictGone && o.absent() {
		return
	}
	r.s.landed(o.res.ID, o.verdict == verdictFailed)
}

func (r *Reconciler) remember(c *store.Commit, res *store.Resource) {
	c.Events = append(c.Events, store.Event{
		SourceID: r.s.SourceID, URI: res.URI, At: res.Have.Fetched, What: "fetched",
		Version: res.Have.Version, Detail: merge.DigestOf(&res.Have),
	})
}

func (r *Reconciler) count(group []*outcome) {
	var p Progress
	r.tallied(func(t *tally) {
		for _, o := range group {
			if o.asks() && o.took > 0 {
				t.sum.Asked++
			}
			right := (o.verdict == verdictCleared || o.verdict == verdictAdopted) && !o.absent()
			t.end(o.res.ID, right)
			if p.Bytes += o.bytes; o.verdict == verdictFailed {
				p.Failed++
				t.failing.Add(o.res.ID)
				continue
			}
			if p.Done++; o.verdict == verdictFetched {
				t.sum.Fetched++
				switch o.via {
				case viaPackage:
					t.sum.FromPackages++
				case viaPatch:
					t.sum.Patched++
				case viaDuplicate:
					t.sum.FromDuplicates++
				}
			}
			t.failing.Remove(o.res.ID)
		}
	})
	for _, o := range group {
		told := Settled{Result: results[o.verdict], Class: o.failure.class, Bytes: o.bytes, Took: o.took}
		if o.verdict == verdictFetched {
			told.Placed, told.Transport = o.have.Length, string(o.via)
		}
		r.s.Observe.Settled(told)
	}
	r.s.Progress(p)
}

// tally is what became of a reconciler's work. The lock of the workset guards it.
type tally struct {
	sum     Done
	counts  []*Count      // one for each pull under way
	failing *spill.Bitmap // rows whose last try failed
	until   time.Time     // end of retries, zero for never
	halted  error         // the failure that stops fetching
	used    int64         // the part of sum.Deleted that ended a halt
	resumed bool
	resting bool // nothing is in flight and nothing due
}

func (r *Reconciler) tallied(f func(*tally)) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	f(&r.tally)
}

// Done is the work of a reconciler since a Count began.
type Done struct {
	Fetched, Deleted int64
	Asked            int64 // answers to a question
	Unchanged        int64 // right before the pull
	Batches          int64 // requests for many resources
	// Of Fetched, those that the Source was not asked for one by one.
	FromPackages, Patched, FromDuplicates int64
}

// Count counts for one pull. Files that were right are kept apart: a list that is read again calls all of them right.
type Count struct {
	began        Done
	right, other *spill.Bitmap
}

// Count begins to count for a pull, until EndCount.
func (r *Reconciler) Count() *Count {
	c := &Count{right: spill.NewBitmap(), other: spill.NewBitmap()}
	r.tallied(func(t *tally) {
		c.began = t.sum
		t.counts = append(t.counts, c)
	})
	return c
}

// EndCount ends a Count.
func (r *Reconciler) EndCount(c *Count) {
	r.tallied(func(t *tally) {
		t.counts = slices.DeleteFunc(t.counts, func(other *Count) bool { return other == c })
	})
}

// Since returns the work since a Count began; calm are the resources that its lists called right.
func (r *Reconciler) Since(c *Count, calm *spill.Bitmap) (d Done) {
	r.tallied(func(t *tally) {
		d = Done{
			Fetched: t.sum.Fetched - c.began.Fetched, Deleted: t.sum.Deleted - c.began.Deleted,
			Asked: t.sum.Asked - c.began.Asked, Unchanged: c.unchanged(calm),
			Batches: t.sum.Batches - c.began.Batches, FromPackages: t.sum.FromPackages - c.began.FromPackages,
			Patched: t.sum.Patched - c.began.Patched, FromDuplicates: t.sum.FromDuplicates - c.began.FromDuplicates,
		}
	})
	return d
}

// unchanged counts the resources that were right before the pull, and that nothing else happened to.
func (c *Count) unchanged(calm *spill.Bitmap) int64 {
	all := calm.Clone()
	for id := range c.right.All() {
		all.Add(id)
	}
	for id := range c.other.All() {
		all.Remove(id)
	}
	return all.Len
}

func (t *tally) end(id int64, right bool) {
	for _, c := range t.counts {
		if right {
			c.right.Add(id)
		} else {
			c.other.Add(id)
		}
	}
}

// FoundRight notes that a resource is as wanted.
func (r *Reconciler) FoundRight(id int64) {
	r.tallied(func(t *tally) { t.end(id, true) })
}

// Failing are the resources whose last try failed.
func (r *Reconciler) Failing() (ids *spill.Bitmap) {
	r.tallied(func(t *tally) { ids = t.failing.Clone() })
	return ids
}

// Went counts removed files.
func (r *Reconciler) Went(n int64) {
	if n > 0 {
		r.tallied(func(t *tally) { t.sum.Deleted += n })
		r.s.Observe.Removed(n)
		r.s.Progress(Progress{Deleted: n})
	}
}
