package plan

import (
	"cmp"
	"context"
	"slices"

	"resyncd/store"
	"resyncd/sync/merge"
)

// foresee hands over rows as commit c will leave them, so that a pushed resource is fetched while c is written. The
// caller holds the row lock until c ends, and settle waits for that lock; new rows have no number yet.
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
		} else { // the store sorts wants by set
			r.Wants = append(slices.Clip(r.Wants), *rc.Want)
			slices.SortFunc(r.Wants, func(a, b store.Want) int { return cmp.Compare(a.SetID, b.SetID) })
		}
	}
	rs, p.draft.urgent = p.o.Site.Begin(rs), p.draft.urgent[:0]
	for _, r := range rs {
		p.draft.urgent = append(p.draft.urgent, r.ID)
	}
	p.o.Site.HandUrgent(rs)
	return nil
}

func (p *Planner) foreseeable(rc *store.ResourceChange) bool {
	return rc.ID != 0 && rc.Work != nil && rc.Work.Action == store.ActionFetch && rc.Want != nil &&
		rc.Want.State == store.WantPresent && !rc.Want.Inline && rc.Key == "" && !p.o.Site.Busy(rc.ID)
}

func (p *Planner) written(c *store.Commit) {
	ids := make([]int64, 0, len(c.Resources))
	for i := range c.Resources {
		rc := &c.Resources[i]
		if rc.Work == nil || rc.Work.Action == store.ActionNone {
			continue
		}
		if !slices.Contains(p.draft.urgent, rc.ID) {
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

// Name says which rows have new work. A long list is named as a whole, so that a push can pass it.
func (p *Planner) Name(ids []int64) {
	if p.order.listed >= planBatch {
		p.o.Site.NameAll()
	} else {
		p.o.Site.Name(ids)
	}
}

type newcomer struct {
	res *store.Resource
	at  int
}

// handNew hands over new resources without the cost of reading them back, and returns how many.
func (p *Planner) handNew(c *store.Commit) int {
	rows := make([]*store.Resource, 0, len(p.draft.newcomers))
	wants := make([]store.Want, len(p.draft.newcomers)) // a want inside the batch would keep the batch alive
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
