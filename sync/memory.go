package sync

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"resyncd/destination"
	"resyncd/destination/fetch"
	"resyncd/store"
	"resyncd/store/blob"
	"resyncd/sync/parsed"
	"resyncd/sync/report"
	"resyncd/sync/transfer"
)

// memory implements destination.Memory.
type memory struct{ s *session }

// Recall implements destination.Memory.
func (m *memory) Recall(ctx context.Context, url string) (*destination.Document, error) {
	d, err := m.s.Store.Document(ctx, m.s.SourceID, url)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil || !d.Complete || len(d.Body) == 0 {
		return nil, err
	}
	var doc destination.Document
	if json.Unmarshal(d.Body, &doc) != nil || doc.URL != url {
		return nil, nil // another record or version: as if unknown
	}
	return &doc, nil
}

// Remember implements destination.Memory.
func (m *memory) Remember(ctx context.Context, d *destination.Document) error {
	known := *d
	known.ETag, known.LastModified = parsed.Lasting(d.ETag, d.LastModified, store.Micros(d.Date))
	body, err := json.Marshal(known)
	if err != nil {
		return fmt.Errorf("remember %s: %w", d.URL, err)
	}
	// Repeatable, because a power cut only costs a request without a condition. A chain of documents then waits for no
	// disk.
	return m.s.Store.Commit(ctx, &store.Commit{Claim: m.s.Claim, Repeatable: true, Documents: []store.Document{{
		SourceID: m.s.SourceID, URL: d.URL, Kind: string(d.Head.Kind), ETag: known.ETag, LastModified: known.LastModified,
		At: store.Micros(d.Head.At), From: store.Micros(d.Head.From), Until: store.Micros(d.Head.Until),
		LastEntry: store.NoTime,
		Entries:   int64(len(d.Entries)), Complete: true, Body: body, Read: m.s.LocalNow(),
	}}})
}

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
