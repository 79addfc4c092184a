package pull

import (
	"context"
	"iter"

	"resyncd/store"
	"resyncd/sync/merge"
	"resyncd/sync/transfer"
)

// SweepPage is how many resources are judged and committed at once.
const SweepPage = 1000

// EndOfTime is later than every planned time.
const EndOfTime = store.Micros(1) << 62

// Pages reads the rows behind an id, none at the end.
type Pages func(ctx context.Context, after int64) ([]*store.Resource, error)

// Scan pages over the rows of a query.
func (s *Source) Scan(q store.ScanQuery) Pages {
	return func(ctx context.Context, after int64) ([]*store.Resource, error) {
		q.SourceID, q.After, q.Limit = s.SourceID, after, SweepPage
		return s.Store.Scan(ctx, q)
	}
}

// Owed pages over the rows with work, due or not: first fetches, then removals.
func (s *Source) Owed(actions ...store.Action) Pages {
	return func(ctx context.Context, after int64) ([]*store.Resource, error) {
		for {
			rs, err := s.Store.Due(ctx, store.DueQuery{
				SourceID: s.SourceID, Action: actions[0], Now: EndOfTime, After: after, Limit: SweepPage,
			})
			if err != nil || len(rs) > 0 || len(actions) == 1 {
				return rs, err
			}
			actions, after = actions[1:], 0
		}
	}
}

// All returns the rows of all pages.
func (read Pages) All(ctx context.Context) iter.Seq2[*store.Resource, error] {
	return func(yield func(*store.Resource, error) bool) {
		for after := int64(0); ; {
			rs, err := read(ctx, after)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, r := range rs {
				if after = r.ID; !yield(r, nil) {
					return
				}
			}
			if len(rs) == 0 {
				return
			}
		}
	}
}

// Revision is one commit that changes rows. The row lock is held from their reading to Write, or a want that changes in
// between would be lost.
type Revision struct {
	store.Commit
	Now  store.Micros
	s    *Source
	sums map[int64]*store.SetChange
}

// NewRevision returns an empty revision.
func (s *Source) NewRevision() *Revision {
	return &Revision{
		Commit: store.Commit{Claim: s.Claim}, Now: s.LocalNow(), s: s, sums: map[int64]*store.SetChange{},
	}
}

// Change adds the change of a row.
func (v *Revision) Change(rc store.ResourceChange) {
	v.s.Touch(&rc, v.Now)
	v.Resources = append(v.Resources, rc)
}

// Count adds the difference between a row as it was and is to the totals of its sets.
func (v *Revision) Count(wants []store.Want, have store.Have, r *store.Resource) {
	merge.Total(v.sums, wants, &have, r.Wants, &r.Have)
}

// Event adds a line to the history of a row.
func (v *Revision) Event(r *store.Resource, what string, at store.Version) {
	v.Events = append(v.Events, store.Event{SourceID: v.s.SourceID, URI: r.URI, At: v.Now, What: what, Version: at})
}

// Write commits the changes, and returns the rows that have work then.
func (v *Revision) Write(ctx context.Context) ([]int64, error) {
	if len(v.Resources) == 0 {
		return nil, nil
	}
	for _, sum := range v.sums {
		v.Sets = append(v.Sets, *sum)
	}
	if err := v.s.Store.Commit(ctx, &v.Commit); err != nil {
		return nil, err
	}
	return transfer.Due(&v.Commit), nil
}

// Revise writes what change makes of each page of rows, and names the rows that have work then.
func (s *Source) Revise(
	ctx context.Context, read Pages, name func([]int64), change func(*Revision, []*store.Resource) error,
) error {
	after := int64(0)
	page := func() (more bool, err error) {
		s.Rows.Lock()
		defer s.Rows.Unlock()
		rs, err := read(ctx, after)
		if err != nil || len(rs) == 0 {
			return false, err
		}
		after = rs[len(rs)-1].ID
		v := s.NewRevision()
		if err := change(v, rs); err != nil {
			return false, err
		}
		ids, err := v.Write(ctx)
		if len(ids) > 0 && name != nil {
			name(ids)
		}
		return true, err
	}
	for more := true; more; {
		var err error
		if more, err = page(); err != nil {
			return err
		}
	}
	return nil
}
