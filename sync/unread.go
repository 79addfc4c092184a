package sync

import (
	"context"
	"fmt"

	"resyncd/store"
	"resyncd/sync/report"
)

// noteUnread notes for `status` why a Source of which no set is known could not be read: beside the process that asked nobody
// else would know. What the Source's sets say goes before it, once there are any.
func (s *session) noteUnread(ctx context.Context, cause string) error {
	before, err := report.Unread(ctx, s.Store, s.src.ID)
	if err != nil || before == cause { // it is asked again and again
		return err
	}
	err = s.Store.Commit(ctx, &store.Commit{Claim: s.claim, Repeatable: true, Documents: []store.Document{{
		SourceID: s.src.ID, URL: report.UnreadDocument, Kind: report.UnreadDocument, At: store.NoTime, From: store.NoTime, Until: store.NoTime,
		LastEntry: store.NoTime, Body: []byte(cause), Read: s.Site.LocalNow(),
	}}})
	if err != nil {
		return fmt.Errorf("record why nothing was found: %w", err)
	}
	return nil
}
