package sync

import (
	"context"
	"errors"

	"math/rand/v2"

	"resyncd/store"
	"resyncd/store/blob"
)

func (s *session) emptyTrash(ctx context.Context) error {
	before := store.MicrosOf(s.Now().Add(-s.Target.TrashFor))
	for after := ""; ; {
		ts, err := s.Store.Trash(ctx, s.SourceID, before, after, 1000)
		if err != nil || len(ts) == 0 {
			return err
		}
		c := &store.Commit{Claim: s.Claim}
		for _, t := range ts {
			after = t.ID
			if err := s.Target.Mirror.DropTrash(ctx, t.ID); err != nil && !errors.Is(err, blob.ErrNotFound) {
				s.Log.Warn("could not drop a file from the trash; it is tried again with the next run",
					"key", t.Key, "err", err)
				continue
			}
			c.DropTrash = append(c.DropTrash, t.ID)
		}
		if err := s.Store.Commit(ctx, c); err != nil {
			return err
		}
	}
}

// claimTrash gives rows to trashed files without one, after a kill between the move and its commit. Without a row no
// such file could be restored or dropped (P8).
func (s *session) claimTrash(ctx context.Context) error {
	var lost []store.Trashed
	err := s.Target.Mirror.ListTrash(ctx, func(i blob.TrashInfo) error {
		if i.Trashed.IsZero() {
			return nil
		}
		// The prefix matches ids that differ in the last digit.
		near, err := s.Store.Trash(ctx, s.SourceID, store.NoTime, i.ID[:len(i.ID)-1], 16)
		for _, t := range near {
			if t.ID == i.ID {
				return err
			}
		}
		if err == nil {
			lost = append(lost, store.Trashed{
				ID: i.ID, SourceID: s.SourceID, Length: -1, Reason: "left by a run that was cut", At: s.LocalNow(),
			})
		}
		return err
	})
	for start := 0; start < len(lost) && err == nil; start += 1000 {
		err = s.Store.Commit(ctx, &store.Commit{Claim: s.Claim, Trash: lost[start:min(start+1000, len(lost))]})
	}
	return err
}

const tidySlices = 20

// end marks the run as orderly, so that the next run need not look at the disk.
func (f *Follower) end(ctx context.Context) error {
	s := f.s
	// After a disk failure a file may be newer than its row, so the next run looks.
	unclean := f.rec.IsHalted() || s.Look && !f.looked
	if !unclean {
		var err error
		if unclean, err = s.uncertain(ctx); err != nil {
			return err
		}
	}
	return s.leave(ctx, unclean)
}

// leave records whether the next run has to look at the disk.
func (s *session) leave(ctx context.Context, unclean bool) error {
	if unclean = unclean || s.AnyDoubt(); !unclean && !s.Unclean.Load() {
		return nil
	}
	return s.Store.Commit(ctx, &store.Commit{Claim: s.Claim, Source: &store.SourceChange{Unclean: &unclean}})
}

// tidyUp is leave for what an operator asked for.
func (s *session) tidyUp(ctx context.Context) error {
	if s.Follows {
		return nil // the run of a Follower goes on
	}
	return s.leave(ctx, s.Look) // uncertain until a run has looked
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
	for r, err := range s.Owed(store.ActionFetch, store.ActionRemove).All(ctx) {
		if looked++; err != nil || looked > lookMost || s.Differs(ctx, r) {
			return err == nil, err
		}
	}
	return false, nil
}
