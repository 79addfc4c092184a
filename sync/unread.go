package sync

import (
	"context"
	"fmt"

	"resyncd/destination/fetch"
	"resyncd/store"
	"resyncd/store/blob"
	"resyncd/sync/report"
	"resyncd/sync/transfer"
)

// noteUnread records for `status` why a Source without known sets could not be read. The sets' own problems replace it
// later.
func (s *session) noteUnread(ctx context.Context, problem error) error {
	text, cause := transfer.Clip(problem.Error(), 500), causeOf(problem)
	said, why, err := report.Unread(ctx, s.Store, s.SourceID)
	if err != nil || said == text && why == cause {
		return err
	}
	err = s.Store.Commit(ctx, &store.Commit{Claim: s.Claim, Repeatable: true, Documents: []store.Document{{
		SourceID: s.SourceID, URL: report.UnreadDocument, Kind: report.UnreadDocument, At: store.NoTime,
		From: store.NoTime, Until: store.NoTime,
		LastEntry: store.NoTime, Body: []byte(store.WithCause(text, cause)), Read: s.LocalNow(),
	}}})
	if err != nil {
		return fmt.Errorf("record why nothing was found: %w", err)
	}
	return nil
}

func causeOf(err error) string {
	if blob.Systemic(err) {
		return store.CauseDisk
	}
	return fetch.CauseOf(err)
}
