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
	s, err := e.begin(ctx, t, RunOptions{}, Observer{})
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
	name := s.Name // owed again
	if !reject {
		name = nil // RemoveAll finds removals
	}
	var err error
	if done.Resources, err = s.DecideHeld(ctx, 0, what, name); err != nil {
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

// policyAdopting stands in Source.Policy until a whole run has ended. Without it a kill in between would make the
// foreign files of the folder ours.
const policyAdopting = "adopting"

// Adopt records a Source whose mirror will be a folder that existed before. Without that record LostState would take
// the folder for one whose state was lost.
func (e *Engine) Adopt(ctx context.Context, name, url string) (src store.Source, err error) {
	src, err = e.Store.EnsureSource(ctx, name, url)
	if err != nil || src.Policy == policyAdopting {
		return src, err
	}
	claim, release, err := e.claim(ctx, src.ID)
	if err != nil {
		return src, err
	}
	policy := policyAdopting
	err = e.Store.Commit(ctx, &store.Commit{Claim: claim, Source: &store.SourceChange{Policy: &policy}})
	if err = errors.Join(err, release()); err != nil {
		return src, err
	}
	return e.Store.Source(ctx, name)
}

// LostState reports whether the state of a mirror with a root marker was lost: the Source is unknown (nil), or somebody
// has only just begun it anew. Files that no list names are ours then.
func LostState(src *store.Source) bool {
	return src == nil || src.RootID == "" && src.Policy != policyAdopting
}
