package sync

import (
	"context"
	"errors"
	"fmt"

	"resyncd/destination"
	"resyncd/store"
	"resyncd/store/blob"
	"resyncd/sync/report"
	"resyncd/sync/transfer"
)

func (f *Follower) housekeeping(ctx context.Context, offer *destination.Offer) error {
	s := f.s
	if s.o.Plan != nil {
		return nil
	}
	if s.Look && !f.looked {
		if err := s.claimTrash(ctx); err != nil {
			return err
		}
		f.looked = true
	}
	if err := errors.Join(s.emptyTrash(ctx), s.missing(ctx, offer)); err != nil {
		return err
	}
	s.Recheck = false
	policy := s.Target.PolicyDigest()
	if s.sweep {
		policy = policySweep
	}
	// Sets outside the selection were not judged by the new policy.
	if len(s.Target.Sets) > 0 || policy == s.src.Policy {
		return nil
	}
	s.src.Policy = policy
	return s.Store.Commit(ctx, &store.Commit{Claim: s.Claim, Source: &store.SourceChange{Policy: &policy}})
}

// noteUnread records for `status` why a Source without known sets could not be read.
func (s *session) noteUnread(ctx context.Context, problem error) error {
	text, cause := transfer.Clip(problem.Error(), 500), causeOf(problem)
	said, why, err := report.Unread(ctx, s.Store, s.SourceID)
	if err != nil || said == text && why == cause {
		return err
	}
	d := s.NewDocument(report.UnreadDocument, report.UnreadDocument)
	d.Body = []byte(store.WithCause(text, cause))
	err = s.Store.Commit(ctx, &store.Commit{Claim: s.Claim, Repeatable: true, Documents: []store.Document{d}})
	if err != nil {
		return fmt.Errorf("record why nothing was found: %w", err)
	}
	return nil
}

const scrubPage = 200

// scrub re-hashes a few files and fetches damaged ones anew (F13).
func (f *Follower) scrub(ctx context.Context) error {
	s := f.s
	if f.rec.IsHalted() || s.Target.Mirror.Check(ctx) != nil { // a missing disk is no damage
		return nil
	}
	rs, err := s.Store.Scan(ctx, store.ScanQuery{
		SourceID: s.SourceID, Filter: store.FilterMirrored, After: f.scrubbed, Limit: scrubPage,
	})
	if err != nil {
		return err
	}
	if len(rs) == 0 {
		f.scrubbed = 0
		return nil
	}
	f.scrubbed = rs[len(rs)-1].ID
	var found []problem
	for _, r := range rs {
		p, err := check(ctx, s.Target.Mirror, r)
		if err != nil && ctx.Err() == nil { // of the machine, not of the file
			s.Log.Warn("the mirror cannot be looked at; it is tried again later", "err", err)
			return nil
		}
		if err != nil {
			return err
		}
		if p != nil {
			found = append(found, *p)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return s.renew(ctx, found)
}

func (s *session) emptyTrash(ctx context.Context) error {
	before := store.MicrosOf(s.Now().Add(-s.Target.TrashFor))
	for after := ""; ; {
		ts, err := s.Store.Trash(ctx, s.SourceID, before, after, 1000)
		if err != nil || len(ts) == 0 {
			return err
		}
		if err := s.Begun(ctx, nil); err != nil {
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

// claimTrash gives rows to trashed files that a kill left without one, so that they can be dropped (P8).
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

const lookMost = 10_000

// uncertain reports whether files of owed resources may still differ from their rows (F1).
func (s *session) uncertain(ctx context.Context) (bool, error) {
	if !s.Look {
		return false, nil
	}
	looked := 0
	for r, err := range s.Owed().All(ctx) {
		if looked++; err != nil || looked > lookMost || s.Differs(ctx, r) {
			return err == nil, err
		}
	}
	return false, nil
}
