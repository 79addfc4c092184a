package sync

import (
	"context"
	"errors"
	"fmt"

	"resyncd/destination"
	"resyncd/destination/fetch"
	"resyncd/destination/rsdoc"
	"resyncd/store"
	"resyncd/store/blob"
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
		err = s.noteUnread(ctx, cause)
	}
	if err != nil {
		return errors.Join(cause, err)
	}
	return cause
}

func (s *session) noteUnread(ctx context.Context, problem error) error {
	text, cause := transfer.Clip(problem.Error(), 500), causeOf(problem)
	said, why, err := report.Unread(ctx, s.Store, s.src.ID)
	if err != nil || said == text && why == cause { // it is asked again and again
		return err
	}
	err = s.Store.Commit(ctx, &store.Commit{Claim: s.claim, Repeatable: true, Documents: []store.Document{{
		SourceID: s.src.ID, URL: report.UnreadDocument, Kind: report.UnreadDocument, At: store.NoTime, From: store.NoTime, Until: store.NoTime,
		LastEntry: store.NoTime, Body: []byte(store.WithCause(text, cause)), Read: s.site.LocalNow(),
	}}})
	if err != nil {
		return fmt.Errorf("record why nothing was found: %w", err)
	}
	return nil
}

// causeOf is why something failed in the stable word that is kept beside its text.
func causeOf(err error) string {
	if blob.Systemic(err) {
		return report.CauseDisk
	}
	return fetch.CauseOf(err)
}

// aheadError is of a document whose interval has not begun by the Source's own clock.
type aheadError struct {
	url  string
	from rsdoc.Micros
}

func (e *aheadError) Error() string {
	return fmt.Sprintf("%s: its from, %s, lies in the future by the Source's own clock: nobody can tell what changed before it", e.url, e.from)
}

// Cause is what fetch.CauseOf finds.
func (e *aheadError) Cause() string { return report.CauseClock }
