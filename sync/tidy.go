package sync

import (
	"context"
	"errors"

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
