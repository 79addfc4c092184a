package sync

import (
	"context"
	"math/rand/v2"

	"resyncd/store"
	"resyncd/sync/pull"
)

const tidySlices = 20

// end marks the run as orderly, so that the next run need not look at the disk.
func (f *Follower) end(ctx context.Context) error {
	s := f.s
	// After a disk failure a file may be newer than its row, so the next run looks.
	unclean := f.rec.IsHalted() || s.AnyDoubt() || s.Look && !f.looked
	if !unclean {
		var err error
		if unclean, err = s.uncertain(ctx); err != nil {
			return err
		}
	}
	if !unclean && !s.Unclean.Load() {
		return nil
	}
	return s.Store.Commit(ctx, &store.Commit{Claim: s.Claim, Source: &store.SourceChange{Unclean: &unclean}})
}

// tidyIdle lets only some runs without file changes keep house, because such runs leave little behind.
const tidyIdle = 16

func (s *session) tidyState(ctx context.Context) error {
	if !s.Unclean.Load() && rand.N(tidyIdle) > 0 {
		return nil
	}
	for more, slices := true, 0; more && slices < tidySlices; slices++ {
		var err error
		if more, err = s.Store.Tidy(ctx); err != nil {
			return err
		}
	}
	return nil
}

const lookMost = 10_000

// uncertain reports whether the disk may still differ from the rows of owed resources. The next run then has to look
// too, because a resource that was not due was never looked at (F1).
func (s *session) uncertain(ctx context.Context) (bool, error) {
	if !s.Look {
		return false, nil
	}
	looked := 0
	for _, action := range []store.Action{store.ActionFetch, store.ActionRemove} {
		for after := int64(0); ; {
			rs, err := s.Store.Due(ctx, store.DueQuery{
				SourceID: s.SourceID, Action: action, Now: pull.EndOfTime, After: after, Limit: pull.SweepPage,
			})
			if err != nil {
				return false, err
			}
			if len(rs) == 0 {
				break
			}
			after = rs[len(rs)-1].ID
			if looked += len(rs); looked > lookMost {
				return true, nil
			}
			for _, r := range rs {
				if s.Differs(ctx, r) {
					return true, nil
				}
			}
		}
	}
	return false, nil
}
