package pull

import (
	"context"

	"resyncd/store"
	"resyncd/sync/merge"
)

// The ends of a hold, in the words of the history.
const (
	HeldApproved = "approved"
	HeldRejected = "rejected"
	heldUnlisted = "unlisted"
)

// DecideHeld ends the hold of the removals of a set, 0 for all sets. done hears of each page.
func (s *Source) DecideHeld(ctx context.Context, set int64, what string, done func(n int, c *store.Commit)) error {
	sets, err := s.Store.Sets(ctx, s.SourceID)
	if err != nil {
		return err
	}
	floors := map[int64]store.Micros{}
	for i := range sets {
		floors[sets[i].ID] = sets[i].Floor
	}
	for after, more := int64(0), true; more; {
		if after, more, err = s.decidePage(ctx, set, after, what, floors, done); err != nil {
			return err
		}
	}
	return nil
}

// decidePage holds the row lock, because rows that it read are written back while another set's want may be fetched.
func (s *Source) decidePage(ctx context.Context, set, after int64, what string, floors map[int64]store.Micros,
	done func(int, *store.Commit),
) (last int64, more bool, err error) {
	s.Rows.Lock()
	defer s.Rows.Unlock()
	rs, err := s.Store.Scan(ctx, store.ScanQuery{
		SourceID: s.SourceID, SetID: set, Filter: store.FilterHeld, After: after, Limit: SweepPage,
	})
	if err != nil || len(rs) == 0 {
		return after, false, err
	}
	c := &store.Commit{Claim: s.Claim}
	sums := map[int64]*store.SetChange{}
	now := s.LocalNow()
	for _, r := range rs {
		wants := append([]store.Want(nil), r.Wants...)
		have := r.Have
		for i := range wants {
			w := &wants[i]
			if !w.Held || set != 0 && w.SetID != set {
				continue
			}
			w.Held = false
			if what == HeldRejected {
				// The instant must be newer than the last list without the resource, of which the floor tells: the same
				// list must not remove it again, but a newer list may.
				since := max(w.Version.Until, floors[w.SetID]) + 1
				w.State, w.Version, w.Generation = store.WantPresent,
					store.Version{From: since, Until: since, Ordinal: merge.ByOperator}, 0
				if have.State != store.HaveNone {
					have.Version = w.Version
				}
			}
			work := merge.WorkForAll(wants, &have, now)
			rc := store.ResourceChange{ID: r.ID, Want: w, Have: &have, Work: &work}
			s.Touch(&rc, now)
			c.Resources = append(c.Resources, rc)
			c.Events = append(c.Events,
				store.Event{SourceID: s.SourceID, URI: r.URI, At: now, What: what, Version: w.Version})
		}
		merge.Total(sums, r.Wants, &r.Have, wants, &r.Have)
	}
	for _, sc := range sums {
		c.Sets = append(c.Sets, *sc)
	}
	if err := s.Store.Commit(ctx, c); err != nil {
		return after, false, err
	}
	done(len(rs), c)
	return rs[len(rs)-1].ID, true, nil
}
