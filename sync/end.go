package sync

import (
	"context"
	"math/rand/v2"

	"resyncd/destination"
	"resyncd/store"
)

// tidySlices bounds the housekeeping that one run does; what is left over waits for the next.
const tidySlices = 20

// end marks the run as orderly, so that the next one need not look at the disk, and empties old trash.
func (s *session) end(ctx context.Context, offer *destination.Offer) error {
	if s.o.Plan != nil {
		return nil
	}
	if s.look {
		if err := s.claimTrash(ctx); err != nil {
			return err
		}
	}
	if err := s.emptyTrash(ctx); err != nil {
		return err
	}
	if err := s.missing(ctx, offer); err != nil {
		return err
	}
	if err := s.tidyState(ctx); err != nil {
		return err
	}
	// After a failure of the disk a file may be newer than its row, so the next run looks.
	unclean, policy := s.halted || s.doubts.any(), s.t.policyDigest()
	if !unclean {
		var err error
		if unclean, err = s.uncertain(ctx); err != nil {
			return err
		}
	}
	c := &store.SourceChange{Unclean: &unclean, Policy: &policy}
	switch {
	case s.sweep:
		policy = policySweep
	case len(s.t.Sets) > 0:
		c.Policy = nil // the sets left out were not judged by what may be new in it
	}
	if !s.underway.told() && !unclean && (c.Policy == nil || policy == s.src.Policy) {
		return nil // it stands there already
	}
	return s.Store.Commit(ctx, &store.Commit{Claim: s.claim, Source: c})
}

// tidyIdle is of how many runs that changed no file one keeps house: it takes a tenth of the time of such a run, which
// leaves little behind.
const tidyIdle = 16

// tidyState drops what the state keeps no longer.
func (s *session) tidyState(ctx context.Context) error {
	if !s.underway.told() && rand.N(tidyIdle) > 0 {
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
