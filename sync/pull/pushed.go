package pull

import (
	"context"
	"slices"

	"resyncd/store"
	"resyncd/sync/merge"
	"resyncd/sync/transfer"
)

// Only its signature vouches for a notification (P9). So the Source is asked about a pushed want that its documents
// should tell of and do not (coverage.md 2).

// askPushed has the Source asked about pushed wants that the documents lack, so that a forged entry lives only until
// the next pull.
func (p *Puller) askPushed(ctx context.Context) error {
	proven := p.Cover.ProvenPosition()
	if !proven.Known() {
		return nil
	}
	due := proven
	if p.chain.open && p.Out.Problem == nil && p.chain.opened.Known() {
		// an open list tells of a change within its lag, or never
		due = max(due, p.chain.opened-max(lagLeast, p.lag))
	}
	return p.eachPushed(ctx, func(rs []*store.Resource) error { return p.askPage(ctx, rs, proven, due) })
}

// eachPushed pages over the rows of pushed wants. It holds the row lock, because the rows are written back.
func (p *Puller) eachPushed(ctx context.Context, page func([]*store.Resource) error) error {
	for after, more := int64(0), true; more; {
		var err error
		if after, more, err = p.pagePushed(ctx, after, page); err != nil {
			return err
		}
	}
	return nil
}

func (p *Puller) pagePushed(ctx context.Context, after int64, page func([]*store.Resource) error,
) (last int64, more bool, err error) {
	p.Rows.Lock()
	defer p.Rows.Unlock()
	rs, err := p.Store.Scan(ctx, store.ScanQuery{
		SourceID: p.SourceID, SetID: p.Set.ID, Filter: store.FilterPushed, After: after, Limit: SweepPage,
	})
	if err != nil || len(rs) == 0 {
		return after, false, err
	}
	return rs[len(rs)-1].ID, true, page(rs)
}

func agreed(w *store.Want, h *store.Have) bool {
	return w.State == store.WantPresent && w.Digests != "" && h.Version == w.Version &&
		merge.Satisfied(w, h) == merge.Yes
}

// askPage asks about wants that the documents passed by (proven) or should show by now (late).
func (p *Puller) askPage(ctx context.Context, rs []*store.Resource, proven, late store.Micros) error {
	c := &store.Commit{Claim: p.Claim}
	sums := map[int64]*store.SetChange{}
	now := p.LocalNow()
	var fresh []int
	for _, r := range rs {
		w := r.WantFor(p.Set.ID)
		if w == nil || w.Version.Until > late || w.Version.Until > proven && agreed(w, &r.Have) {
			continue
		}
		before := slices.Clone(r.Wants)
		if w.Pushed, w.Settled = false, false; w.State == store.WantAbsent {
			w.Listed = nil // a 404 confirms the push
		}
		if w.Refused == "" {
			w.State, w.Digests, w.Length, w.LastMod = store.WantAsk, "", -1, store.NoTime
			w.Version.Document, w.Version.Ordinal = 0, 0
		}
		want := *w
		work := merge.WorkForAll(r.Wants, &r.Have, now)
		if r.Key == "" && want.State != store.WantAbsent {
			fresh = append(fresh, len(c.Resources))
		}
		rc := store.ResourceChange{ID: r.ID, URI: r.URI, Want: &want, Work: &work}
		p.Touch(&rc, now)
		c.Resources = append(c.Resources, rc)
		merge.Total(sums, before, &r.Have, r.Wants, &r.Have) // a doubtful deletion does not count
	}
	for _, sum := range sums {
		c.Sets = append(c.Sets, *sum)
	}
	if len(c.Resources) == 0 {
		return nil
	}
	if err := p.Plan.AssignKeys(ctx, c, fresh, nil); err != nil {
		return err
	}
	p.Log.Info("changes that were pushed are in no document of the Source; it is asked about them",
		"set", p.Set.CapabilityList, "resources", len(c.Resources))
	if err := p.Store.Commit(ctx, c); err != nil {
		return err
	}
	p.Plan.Name(transfer.Due(c))
	return nil
}
