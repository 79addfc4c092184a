package sync

import (
	"context"
	"errors"
	"fmt"

	"resyncd/destination"
	"resyncd/store"
	"resyncd/sync/report"
	"resyncd/sync/transfer"
)

// nothingFound notes for `status` why a Source of which no set is known could not be read, and returns the cause: beside the
// process that asked nobody else would know. What the Source's sets say goes before it, once there are any.
func (s *session) nothingFound(ctx context.Context, cause error) error {
	var own *destination.Error
	if ctx.Err() != nil || s.o.Plan != nil || !errors.As(cause, &own) && !errors.Is(cause, errSource) {
		return cause
	}
	sets, err := s.Store.Sets(ctx, s.src.ID)
	if err == nil && len(sets) == 0 {
		err = s.noteUnread(ctx, transfer.Clip(cause.Error(), 500))
	}
	if err != nil {
		return errors.Join(cause, err)
	}
	return cause
}

func (s *session) noteUnread(ctx context.Context, cause string) error {
	before, err := report.Unread(ctx, s.Store, s.src.ID)
	if err != nil || before == cause { // it is asked again and again
		return err
	}
	err = s.Store.Commit(ctx, &store.Commit{Claim: s.claim, Repeatable: true, Documents: []store.Document{{
		SourceID: s.src.ID, URL: report.UnreadDocument, Kind: report.UnreadDocument, At: store.NoTime, From: store.NoTime, Until: store.NoTime,
		LastEntry: store.NoTime, Body: []byte(cause), Read: s.site.LocalNow(),
	}}})
	if err != nil {
		return fmt.Errorf("record why nothing was found: %w", err)
	}
	return nil
}
