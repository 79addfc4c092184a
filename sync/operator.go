package sync

import (
	"context"
	"errors"

	"resyncd/store"
	"resyncd/store/blob"
	"resyncd/sync/pull"
	"resyncd/sync/transfer"
)

// Approved is the result of `approve`.
type Approved struct {
	Resources int64 `json:"resources"`
	Rejected  bool  `json:"rejected"`
}

// Approve carries out every held removal of a Source, or drops it with reject: the files then stay wanted until their
// list changes.
func (e *Engine) Approve(ctx context.Context, t Target, reject bool) (Approved, error) {
	s, err := e.begin(ctx, t, RunOptions{})
	if err != nil {
		return Approved{Rejected: reject}, err
	}
	defer s.release()
	return s.approve(ctx, reject)
}

func (s *session) approve(ctx context.Context, reject bool) (Approved, error) {
	done, what := Approved{Rejected: reject}, pull.HeldApproved
	if reject {
		what = pull.HeldRejected
	}
	err := s.DecideHeld(ctx, 0, what, func(n int, c *store.Commit) {
		if done.Resources += int64(n); reject {
			s.Name(transfer.Due(c)) // owed again; RemoveAll finds removals
		}
	})
	if err != nil {
		return done, err
	}
	rec := transfer.New(s.Site, transfer.Options{Workers: 1, Scope: noScope})
	if err := rec.RemoveAll(ctx, func() store.Micros { return pull.EndOfTime }); err != nil {
		return done, err
	}
	return done, errors.Join(rec.ErrHalted(), s.tidyUp(ctx))
}

// Forget drops all state of a Source; withMirror also drops its files and trash. Foreign files stay.
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

func (e *Engine) dropFiles(ctx context.Context, source int64, m blob.Mirror) error {
	for after := int64(0); ; {
		rs, err := e.Store.Scan(ctx, store.ScanQuery{
			SourceID: source, Filter: store.FilterMirrored, After: after, Limit: pull.SweepPage,
		})
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
