package pull

import (
	"context"
	"slices"

	"resyncd/store"
	"resyncd/sync/merge"
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
	pushed := p.Scan(store.ScanQuery{SetID: p.Set.ID, Filter: store.FilterPushed})
	return p.Revise(ctx, pushed, p.Plan.Name, func(v *Revision, rs []*store.Resource) error {
		return p.askPage(ctx, v, rs, proven, due)
	})
}

func agreed(w *store.Want, h *store.Have) bool {
	return w.State == store.WantPresent && w.Digests != "" && h.Version == w.Version &&
		merge.Satisfied(w, h) == merge.Yes
}

// askPage asks about wants that the documents passed by (proven) or should show by now (late).
func (p *Puller) askPage(ctx context.Context, v *Revision, rs []*store.Resource, proven, late store.Micros) error {
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
		work := merge.WorkForAll(r.Wants, &r.Have, v.Now)
		if r.Key == "" && want.State != store.WantAbsent {
			fresh = append(fresh, len(v.Resources))
		}
		v.Change(store.ResourceChange{ID: r.ID, URI: r.URI, Want: &want, Work: &work})
		v.Count(before, r.Have, r) // a doubtful deletion does not count
	}
	if len(v.Resources) == 0 {
		return nil
	}
	p.Log.Info("changes that were pushed are in no document of the Source; it is asked about them",
		"set", p.Set.CapabilityList, "resources", len(v.Resources))
	return p.Plan.AssignKeys(ctx, &v.Commit, fresh, nil)
}
