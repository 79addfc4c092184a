package plan

import (
	"cmp"
	"context"
	"runtime"
	"slices"

	"resyncd/store"
	"resyncd/sync/merge"
)

// foresee hands over rows as the commit c is going to leave them, so that what is pushed is fetched while that is written.
// Nothing comes of them before c is recorded or has failed: the caller holds the lock of the rows until then, and settle
// waits for it. Only rows that exist can be handed over, as a new one gets its number by the commit.
func (p *Planner) foresee(ctx context.Context, c *store.Commit) error {
	p.draft.urgent = p.draft.urgent[:0]
	if !p.o.Site.Follows || len(c.Inbox) == 0 {
		return nil
	}
	at := map[int64]*store.ResourceChange{}
	room := p.o.Site.UrgentRoom()
	for i := range c.Resources {
		if rc := &c.Resources[i]; len(p.draft.urgent) < room && p.foreseeable(rc) {
			p.draft.urgent = append(p.draft.urgent, rc.ID)
			at[rc.ID] = rc
		}
	}
	if len(p.draft.urgent) == 0 {
		return nil
	}
	rs, err := p.o.Site.Store.ByIDs(ctx, p.draft.urgent)
	if err != nil {
		return err
	}
	for _, r := range rs {
		rc := at[r.ID]
		r.Work = *rc.Work
		if rc.Have != nil {
			r.Have = *rc.Have
		}
		if r.WantFor(rc.Want.SetID) != nil {
			r.Wants = merge.Replaced(r.Wants, rc.Want)
		} else { // sorted, as the store has them
			r.Wants = append(slices.Clip(r.Wants), *rc.Want)
			slices.SortFunc(r.Wants, func(a, b store.Want) int { return cmp.Compare(a.SetID, b.SetID) })
		}
	}
	rs, p.draft.urgent = p.o.Site.Begin(rs), p.draft.urgent[:0]
	for _, r := range rs {
		p.draft.urgent = append(p.draft.urgent, r.ID)
	}
	p.o.Site.HandUrgent(rs)
	// The commit would else go on at once in this thread, and the fetch wait until another thread is awake.
	runtime.Gosched()
	return nil
}

// foreseeable tells a change of a row that is to be fetched at once, and is nobody's work yet.
func (p *Planner) foreseeable(rc *store.ResourceChange) bool {
	return rc.ID != 0 && rc.Work != nil && rc.Work.Action == store.ActionFetch && rc.Want != nil &&
		rc.Want.State == store.WantPresent && !rc.Want.Inline && rc.Key == "" && !p.o.Site.Busy(rc.ID)
}

// written hands over what a commit asks for, and has notifications wait for it.
func (p *Planner) written(c *store.Commit) {
	ids := make([]int64, 0, len(c.Resources))
	for i := range c.Resources {
		rc := &c.Resources[i]
		if rc.Work == nil || rc.Work.Action == store.ActionNone {
			continue
		}
		if !slices.Contains(p.draft.urgent, rc.ID) { // which is handed over already
			ids = append(ids, rc.ID)
		}
		if n := p.draft.notes[i]; n != nil {
			p.o.Site.Expect(rc.ID, n)
		}
	}
	handed := p.handNew(c)
	clear(p.draft.notes)
	if handed == 0 || handed < len(ids) {
		p.Name(ids)
	}
}

// Name says which rows have new work. Those of a long list are looked for in pages, so that a push can pass it.
func (p *Planner) Name(ids []int64) {
	if p.order.listed >= planBatch {
		p.o.Site.NameAll()
	} else {
		p.o.Site.Name(ids)
	}
}

// newcomer is a resource that a commit brings, and its place in it.
type newcomer struct {
	res *store.Resource
	at  int
}

// handNew hands over resources that a commit brought and that are to be fetched, as they were written: reading them back is
// a quarter of what the state costs in a first catch-up. It returns how many.
func (p *Planner) handNew(c *store.Commit) int {
	rows := make([]*store.Resource, 0, len(p.draft.newcomers))
	wants := make([]store.Want, len(p.draft.newcomers)) // not those of the batch, which would be kept with them
	for i, n := range p.draft.newcomers {
		rc := &c.Resources[n.at]
		if rc.Work.Action != store.ActionFetch || rc.Want == nil || rc.Want.Inline || p.draft.notes[n.at] != nil {
			continue
		}
		wants[i] = *rc.Want
		n.res.ID, n.res.Key, n.res.Work, n.res.Wants = rc.ID, rc.Key, *rc.Work, wants[i:i+1:i+1]
		rows = append(rows, n.res)
	}
	if len(rows) == 0 || !p.o.Site.HandReady(rows) {
		return 0
	}
	return len(rows)
}
