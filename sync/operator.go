package sync

import (
	"context"
	"errors"

	"resyncd/store"
	"resyncd/store/blob"
	"resyncd/sync/merge"
	"resyncd/sync/transfer"
)

// Approved is what `approve` did.
type Approved struct {
	Resources int64 `json:"resources"`
	Rejected  bool  `json:"rejected"`
}

// Approve carries out every held removal of a Source, or with reject drops it: the files stay wanted as they are until
// their list changes.
func (e *Engine) Approve(ctx context.Context, t Target, reject bool) (Approved, error) {
	s, err := e.begin(ctx, t, RunOptions{})
	if err != nil {
		return Approved{Rejected: reject}, err
	}
	defer s.release()
	return s.approve(ctx, reject)
}

func (s *session) approve(ctx context.Context, reject bool) (Approved, error) {
	done, what := Approved{Rejected: reject}, heldApproved
	if reject {
		what = heldRejected
	}
	err := s.decideHeld(ctx, 0, what, func(n int, c *store.Commit) {
		if done.Resources += int64(n); reject {
			s.site.Name(transfer.Due(c)) // what is owed again; what is removed, removeAll finds
		}
	})
	if err != nil {
		return done, err
	}
	rec := transfer.New(s.site, transfer.Options{Workers: 1, Scope: noScope})
	if err := rec.RemoveAll(ctx, func() store.Micros { return endOfTime }); err != nil {
		return done, err
	}
	return done, errors.Join(rec.ErrHalted(), s.tidyUp(ctx))
}

// What becomes of held removals, in the words of the history: the operator decides, or a list that removes little enough.
const (
	heldApproved = "approved"
	heldRejected = "rejected"
	heldUnlisted = "unlisted"
)

// decideHeld ends the hold of the removals of a set, 0 for all sets of the Source. done is told of each page of resources.
func (s *session) decideHeld(ctx context.Context, set int64, what string, done func(n int, c *store.Commit)) error {
	sets, err := s.Store.Sets(ctx, s.src.ID)
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

// decidePage holds the lock of the rows, because rows read here are written back while another set's want may be fetched.
func (s *session) decidePage(ctx context.Context, set, after int64, what string, floors map[int64]store.Micros, done func(int, *store.Commit),
) (last int64, more bool, err error) {
	s.site.Rows.Lock()
	defer s.site.Rows.Unlock()
	rs, err := s.Store.Scan(ctx, store.ScanQuery{
		SourceID: s.src.ID, SetID: set, Filter: store.FilterHeld, After: after, Limit: sweepPage,
	})
	if err != nil || len(rs) == 0 {
		return after, false, err
	}
	c := &store.Commit{Claim: s.claim}
	sums := map[int64]*store.SetChange{}
	now := s.site.LocalNow()
	for _, r := range rs {
		wants := append([]store.Want(nil), r.Wants...)
		have := r.Have
		for i := range wants {
			w := &wants[i]
			if !w.Held || set != 0 && w.SetID != set {
				continue
			}
			w.Held = false
			if what == heldRejected {
				// An instant newer than the last list that left it out, of which the floor tells, as a removal keeps the instant of
				// the first: read again, the list says nothing; a newer one does.
				since := max(w.Version.Until, floors[w.SetID]) + 1
				w.State, w.Version, w.Generation = store.WantPresent, store.Version{From: since, Until: since, Ordinal: merge.ByOperator}, 0
				if have.State != store.HaveNone {
					have.Version = w.Version
				}
			}
			work := merge.WorkForAll(wants, &have, now) // another set may owe something, and the file may be lost
			rc := store.ResourceChange{ID: r.ID, Want: w, Have: &have, Work: &work}
			s.site.Touch(&rc, now)
			c.Resources = append(c.Resources, rc)
			c.Events = append(c.Events, store.Event{SourceID: s.src.ID, URI: r.URI, At: now, What: what, Version: w.Version})
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

// Forget drops everything known of a Source; withMirror drops its files and its trash too. Files that are not the
// Source's stay.
func (e *Engine) Forget(ctx context.Context, t Target, withMirror bool) error {
	src, err := e.Store.Source(ctx, t.Name)
	if err != nil {
		return err
	}
	claim, release, err := e.claim(ctx, src.ID)
	if err != nil {
		return err
	}
	defer release()
	if withMirror && t.Mirror != nil {
		if err := e.dropFiles(ctx, src.ID, t.Mirror); err != nil {
			return err
		}
	}
	return e.Store.ForgetSource(ctx, claim)
}

// dropFiles removes the Source's files. A kill in between is mended by doing it again: what is gone is gone.
func (e *Engine) dropFiles(ctx context.Context, source int64, m blob.Mirror) error {
	for after := int64(0); ; {
		rs, err := e.Store.Scan(ctx, store.ScanQuery{SourceID: source, Filter: store.FilterMirrored, After: after, Limit: sweepPage})
		if err != nil {
			return err
		}
		if len(rs) == 0 {
			break
		}
		after = rs[len(rs)-1].ID
		keys := make([]string, 0, len(rs))
		for _, r := range rs {
			if !foreign(r) {
				keys = append(keys, r.Key)
			}
		}
		for _, err := range m.Remove(ctx, keys) {
			if err != nil && !blob.Missing(err) {
				return err
			}
		}
	}
	return m.ListTrash(ctx, func(t blob.TrashInfo) error {
		if err := m.DropTrash(ctx, t.ID); err != nil && !blob.Missing(err) {
			return err
		}
		return nil
	})
}
