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
func (p *Planner) foresee(ctx context.Context, c *store.Commit) (urgent []int64, err error) {
	if !p.o.Site.Follows || len(c.Inbox) == 0 {
		return nil, nil
	}
	at := map[int64]*store.ResourceChange{}
	room := p.o.Site.UrgentRoom()
	for i := range c.Resources {
		if rc := &c.Resources[i]; len(urgent) < room && p.foreseeable(rc) {
			urgent = append(urgent, rc.ID)
			at[rc.ID] = rc
		}
	}
	if len(urgent) == 0 {
		return nil, nil
	}
	rs, err := p.o.Site.Store.ByIDs(ctx, urgent)
	if err != nil {
		return nil, err
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
	rs, urgent = p.o.Site.Begin(rs), urgent[:0]
	for _, r := range rs {
		urgent = append(urgent, r.ID)
	}
	p.o.Site.HandUrgent(rs)
	return urgent, nil
}

func (p *Planner) foreseeable(rc *store.ResourceChange) bool {
	return rc.ID != 0 && rc.Work != nil && rc.Work.Action == store.ActionFetch && rc.Want != nil &&
		rc.Want.State == store.WantPresent && !rc.Want.Inline && rc.Key == "" && !p.o.Site.Busy(rc.ID)
}

func (p *Planner) written(c *store.Commit, rows []*row, urgent []int64) {
	ids := make([]int64, 0, len(rows))
	for i, r := range rows {
		rc := &c.Resources[i]
		if r.listed {
			p.Seen.Add(rc.ID)
		}
		if rc.Work.Action == store.ActionNone {
			continue
		}
		if !slices.Contains(urgent, rc.ID) {
			ids = append(ids, rc.ID)
		}
		if r.note != nil {
			p.o.Site.Expect(rc.ID, r.note)
		}
	}
	handed := p.handNew(c, rows)
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

// handNew hands over new resources without the cost of reading them back, and returns how many.
func (p *Planner) handNew(c *store.Commit, rows []*row) int {
	var fresh []*store.Resource
	for i, r := range rows {
		rc := &c.Resources[i]
		if r.res.ID != 0 || rc.Work.Action != store.ActionFetch || rc.Want == nil || rc.Want.Inline || r.note != nil {
			continue
		}
		// A want inside the row would keep the row alive.
		r.res.ID, r.res.Key, r.res.Work, r.res.Wants = rc.ID, rc.Key, *rc.Work, []store.Want{*rc.Want}
		fresh = append(fresh, r.res)
	}
	if len(fresh) == 0 || !p.o.Site.HandReady(fresh) {
		return 0
	}
	return len(fresh)
}
