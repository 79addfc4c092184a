package sync

import (
	"context"
	"errors"
	"fmt"

	"resyncd/destination"
	"resyncd/store"
)

// ErrNothingYet says that a Source was asked and nothing of it is known yet: no set, hence no place to say why.
var ErrNothingYet = errors.New("nothing usable of the Source was found so far")

// unreadName is where the state keeps why nothing was found, among the documents of the Source; none of these has such a URL.
const unreadName = "unread"

// nothingFound notes for `status` why a Source of which no set is known could not be read, and returns the cause: beside the
// process that asked nobody else would know. What the Source's sets say goes before it, once there are any.
func (s *session) nothingFound(ctx context.Context, cause error) error {
	var own *destination.Error
	if ctx.Err() != nil || s.o.Plan != nil || !errors.As(cause, &own) && !errors.Is(cause, errSource) {
		return cause
	}
	sets, err := s.Store.Sets(ctx, s.src.ID)
	if err == nil && len(sets) == 0 {
		err = s.noteUnread(ctx, clip(cause.Error(), 500))
	}
	if err != nil {
		return errors.Join(cause, err)
	}
	return cause
}

func (s *session) noteUnread(ctx context.Context, cause string) error {
	before, err := unread(ctx, s.Store, s.src.ID)
	if err != nil || before == cause { // it is asked again and again
		return err
	}
	err = s.Store.Commit(ctx, &store.Commit{Claim: s.claim, Repeatable: true, Documents: []store.Document{{
		SourceID: s.src.ID, URL: unreadName, Kind: unreadName, At: store.NoTime, From: store.NoTime, Until: store.NoTime,
		LastEntry: store.NoTime, Body: []byte(cause), Read: s.localNow(),
	}}})
	if err != nil {
		return fmt.Errorf("record why nothing was found: %w", err)
	}
	return nil
}

// unread is what nothingFound noted, "" for nothing.
func unread(ctx context.Context, st store.Documents, source int64) (string, error) {
	doc, err := st.Document(ctx, source, unreadName)
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	return string(doc.Body), err
}
