package sync

import (
	"context"
	"math/rand/v2"

	"resyncd/store"
	"resyncd/sync/pull"
)

// tidySlices bounds the housekeeping that one run does; what is left over waits for the next.
const tidySlices = 20

// end marks the run as orderly, so that the next one need not look at the disk.
func (f *Follower) end(ctx context.Context) error {
	s := f.s
	// After a failure of the disk a file may be newer than its row, so the next run looks.
	unclean := f.rec.IsHalted() || s.Site.AnyDoubt() || s.Site.Look && !f.looked
	if !unclean {
		var err error
		if unclean, err = s.uncertain(ctx); err != nil {
			return err
		}
	}
	if !unclean && !s.Site.Unclean.Load() {
		return nil // it stands there already
	}
	return s.Store.Commit(ctx, &store.Commit{Claim: s.claim, Source: &store.SourceChange{Unclean: &unclean}})
}

// tidyIdle is of how many runs that changed no file one keeps house: it takes a tenth of the time of such a run, which
// leaves little behind.
const tidyIdle = 16

// tidyState drops what the state keeps no longer.
func (s *session) tidyState(ctx context.Context) error {
	if !s.Site.Unclean.Load() && rand.N(tidyIdle) > 0 {
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

// lookMost is how many rows uncertain looks at: a second's work where each is on a slow disk.
const lookMost = 10_000

// uncertain tells whether the disk may still hold something else for a resource that is owed than its row says, so that the
// next run has to look too: one that could not be fetched was looked at in vain, one that was not due never (F1). Where
// more are owed than it looks at, some may.
func (s *session) uncertain(ctx context.Context) (bool, error) {
	if !s.Site.Look {
		return false, nil
	}
	looked := 0
	for _, action := range []store.Action{store.ActionFetch, store.ActionRemove} {
		for after := int64(0); ; {
			rs, err := s.Store.Due(ctx, store.DueQuery{SourceID: s.src.ID, Action: action, Now: pull.EndOfTime, After: after, Limit: pull.SweepPage})
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
				if s.Site.Differs(ctx, r) {
					return true, nil
				}
			}
		}
	}
	return false, nil
}
