package pull

import (
	"context"
	"slices"

	"resyncd/store"
	"resyncd/sync/merge"
)

// Sweep makes unlisted resources absent as of a, or holds their files for the operator.
func (b *Baseline) Sweep(ctx context.Context, a store.Micros) error {
	p := b.Puller
	absent := merge.Candidate{
		State: store.WantAbsent, Version: store.Version{From: a, Until: a, Document: b.docID}, Length: -1,
		LastMod: store.NoTime,
	}
	rows, missing, err := p.unlisted(ctx, absent, nil)
	if err != nil {
		return err
	}
	counts, err := p.Store.Withheld(ctx, p.Set.ID)
	if err != nil {
		return err
	}
	// Removals held earlier count too, except of resources that this list names again.
	files := missing + counts.Held
	hold := merge.Hold(b.Listed == 0, files, p.Set.Resources, p.Target.DeleteGuard) || b.skipped > 0 && files > 0
	if err := p.heed(ctx, absent, hold || b.skipped > 0); err != nil || rows == 0 && counts.Held == 0 {
		return err
	}
	if hold {
		p.Log.Warn(
			"the new list would remove too much; held for you: see `resyncd ls --held`, "+
				"then `resyncd approve` or `approve --reject`",
			"set", p.Set.CapabilityList, "files", files, "of", p.Set.Resources, "bad_entries", b.skipped)
	}
	_, _, err = p.unlisted(ctx, absent, func(rs []*store.Resource) error { return p.makeAbsent(ctx, rs, absent, hold) })
	if err == nil && hold && missing > 0 {
		p.Observe.Held(p.Set.ID, missing)
	}
	if err != nil || hold || counts.Held == 0 {
		return err
	}
	if counts.Held > merge.GuardMin && counts.Held >= b.held {
		// growth of the mirror does not excuse removals that were held before
		return nil
	}
	p.Log.Info("the new list removes little enough: what an earlier one had held is carried out",
		"set", p.Set.CapabilityList, "files", counts.Held)
	_, err = p.DecideHeld(ctx, p.Set.ID, heldUnlisted, p.Plan.Name)
	return err
}

// heed notes pushed deletions that the list confirms, or older documents would count again if a push was untrue.
func (p *Puller) heed(ctx context.Context, absent merge.Candidate, hold bool) error {
	pushed := p.Scan(store.ScanQuery{SetID: p.Set.ID, Filter: store.FilterPushed})
	return p.Revise(ctx, pushed, p.Plan.Name, func(v *Revision, rs []*store.Resource) error {
		for _, r := range rs {
			w := r.WantFor(p.Set.ID)
			if w != nil && w.State == store.WantAbsent && !p.Plan.Seen.Has(r.ID) && backed(w, absent) {
				v.Change(store.ResourceChange{ID: r.ID, Want: takenBack(w, absent, hold)})
			}
		}
		return nil
	})
}

// unlisted pages over wanted resources that the baseline did not list, and counts them and their files.
func (p *Puller) unlisted(
	ctx context.Context, absent merge.Candidate, each func([]*store.Resource) error,
) (rows, files int64, err error) {
	var ids []int64
	page := func() error {
		p.Rows.Lock() // rows that are read are written back
		defer p.Rows.Unlock()
		rs, err := p.Store.ByIDs(ctx, ids)
		if err != nil {
			return err
		}
		rs = slices.DeleteFunc(rs, func(r *store.Resource) bool {
			w := r.WantFor(p.Set.ID)
			if w == nil || p.shown != nil && p.shown(r, w) {
				return true
			}
			ignored := merge.MergeUnlisted(w, merge.FloorOf(p.Set), p.Plan.Reading) == merge.Ignore
			if ignored && !backed(w, absent) {
				return true
			}
			if rows++; !ignored && r.Have.State == store.HavePresent {
				files++
			}
			return false
		})
		if ids = ids[:0]; each != nil {
			return each(rs)
		}
		return nil
	}
	for id, err := range p.Store.Unlisted(ctx, p.Set.ID, p.Set.Generation, EndOfTime) {
		if err != nil {
			return rows, files, err
		}
		if p.Plan.Seen.Has(id) {
			continue
		}
		if ids = append(ids, id); len(ids) >= SweepPage {
			if err := page(); err != nil {
				return rows, files, err
			}
		}
	}
	if len(ids) > 0 {
		err = page()
	}
	return rows, files, err
}

// backed reports whether older documents stand behind a pushed or doubted want.
func backed(w *store.Want, absent merge.Candidate) bool {
	l := w.Listed
	return l != nil && l.State == store.WantPresent && (l.Generation > 0 || l.Version.From <= absent.Version.Until)
}

func takenBack(w *store.Want, absent merge.Candidate, hold bool) *store.Want {
	next, listed := *w, absent.Want(w.SetID)
	listed.Held, next.Listed = hold, &listed
	return &next
}

// makeAbsent records removals. Content fields stay, so that a rejected sweep can restore the want.
func (p *Puller) makeAbsent(ctx context.Context, rs []*store.Resource, absent merge.Candidate, hold bool) error {
	v := p.NewRevision()
	for _, r := range rs {
		w := r.WantFor(p.Set.ID)
		before, was := slices.Clone(r.Wants), r.Have
		var found *store.Have
		next := *w
		decision := merge.MergeUnlisted(w, merge.FloorOf(p.Set), p.Plan.Reading)
		// A Source that lost its list may answer 404 for all its entries, and no answer tells of links.
		if decision == merge.Ask && (hold && r.Have.State == store.HavePresent || p.Plan.Left.Has(r.ID) ||
			p.Target.Leaves(w.Links)) {
			decision = merge.Replace
		}
		switch decision {
		case merge.Replace:
			var err error
			if found, err = p.Found(ctx, r, false); err != nil {
				return err
			} else if found != nil {
				r.Have = *found
			}
			next.State, next.Version, next.Settled, next.Refused = store.WantAbsent, absent.Version, false, ""
			if !p.Plan.Reading.Reset {
				next = merge.Raised(next, w, p.Set.Floor)
			}
			next.Pushed, next.Listed = false, nil
			next.Held = hold && r.Have.State == store.HavePresent
		case merge.Ask: // changed in the instant of the snapshot
			next = absent.Contest(w, p.Set.Floor, p.Set.ID)
		default:
			if backed(w, absent) {
				v.Change(store.ResourceChange{ID: r.ID, Want: takenBack(w, absent, hold)})
			}
			continue
		}
		next.Generation = p.Set.Generation
		*w = next
		work := merge.WorkForAll(r.Wants, &r.Have, v.Now)
		v.Change(store.ResourceChange{ID: r.ID, Want: &next, Work: &work, Have: found})
		what := "unlisted"
		if next.Held {
			what = "held"
		}
		v.Event(r, what, next.Version)
		v.Count(before, was, r)
	}
	ids, err := v.Write(ctx)
	if len(ids) > 0 {
		p.Plan.Name(ids)
	}
	return err
}

// The ends of a hold, in the words of the history.
const (
	HeldApproved = "approved"
	HeldRejected = "rejected"
	heldUnlisted = "unlisted"
)

// DecideHeld ends the hold of the removals of a set, 0 for all sets, and returns how many there were.
func (s *Source) DecideHeld(ctx context.Context, set int64, what string, name func([]int64)) (n int64, err error) {
	sets, err := s.Store.Sets(ctx, s.SourceID)
	if err != nil {
		return 0, err
	}
	floors := map[int64]store.Micros{}
	for i := range sets {
		floors[sets[i].ID] = sets[i].Floor
	}
	held := s.Scan(store.ScanQuery{SetID: set, Filter: store.FilterHeld})
	err = s.Revise(ctx, held, name, func(v *Revision, rs []*store.Resource) error {
		n += int64(len(rs))
		for _, r := range rs {
			before, have := slices.Clone(r.Wants), r.Have
			for i := range r.Wants {
				w := &r.Wants[i]
				if !w.Held || set != 0 && w.SetID != set {
					continue
				}
				w.Held = false
				if what == HeldRejected {
					// Newer than the last list without the resource, so that only a newer one may remove it again.
					since := max(w.Version.Until, floors[w.SetID]) + 1
					w.State, w.Version, w.Generation = store.WantPresent,
						store.Version{From: since, Until: since, Ordinal: merge.ByOperator}, 0
					if have.State != store.HaveNone {
						have.Version = w.Version
					}
				}
				work := merge.WorkForAll(r.Wants, &have, v.Now)
				v.Change(store.ResourceChange{ID: r.ID, Want: w, Have: &have, Work: &work})
				v.Event(r, what, w.Version)
			}
			v.Count(before, r.Have, r)
		}
		return nil
	})
	return n, err
}
