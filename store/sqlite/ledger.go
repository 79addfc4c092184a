package sqlite

import (
	"context"
	"fmt"

	"resyncd/store"
	"resyncd/store/sqlite/column"
)

// How much history is kept (store.Maintainer) and shown.
const (
	keepGaps      = 100
	keepRuns      = 200
	keepEvents    = 100
	keepDocuments = 10_000
)

// Gaps implements store.Ledger.
func (s *Store) Gaps(ctx context.Context, setID int64) ([]store.Gap, error) {
	const what, columns = "list gaps", "id, set_id, v_from, v_until, state, closed_by, found, ended"
	rows, err := s.db.Query(ctx, "SELECT "+columns+
		" FROM gap WHERE set_id = ?1 AND ended_yet = 0 UNION ALL SELECT * FROM (SELECT "+
		columns+" FROM gap WHERE set_id = ?1 AND ended_yet = 1 ORDER BY id DESC LIMIT ?2) ORDER BY id", setID, keepGaps)
	if err != nil {
		return nil, s.db.Fail(what, err)
	}
	gaps, err := collect(rows, func(row rowScanner) (g store.Gap, err error) {
		err = row.Scan(&g.ID, &g.SetID, column.IntoInstant(&g.From), column.IntoInstant(&g.Until), &g.State,
			&g.ClosedBy, column.IntoInstant(&g.Found), column.IntoInstant(&g.Ended))
		return g, err
	})
	return gaps, s.db.Fail(what, err)
}

// Runs implements store.Ledger.
func (s *Store) Runs(ctx context.Context, setID int64, limit int) ([]store.Run, error) {
	const what = "list runs"
	rows, err := s.db.Query(ctx, `SELECT id, set_id, kind, started, ended, fetched, deleted, unchanged, failed, bytes,
		requests, problem FROM run WHERE set_id = ? ORDER BY id DESC LIMIT ?`, setID, max(limit, 0))
	if err != nil {
		return nil, s.db.Fail(what, err)
	}
	runs, err := collect(rows, func(row rowScanner) (r store.Run, err error) {
		err = row.Scan(&r.ID, &r.SetID, &r.Kind, column.IntoInstant(&r.Started), column.IntoInstant(&r.Ended),
			&r.Fetched, &r.Deleted, &r.Unchanged, &r.Failed, &r.Bytes, &r.Requests, &r.Problem)
		return r, err
	})
	return runs, s.db.Fail(what, err)
}

const trashColumns = "source_id, id, uri, key, sha256, length, reason, at"

func scanTrashed(row rowScanner) (t store.Trashed, err error) {
	err = row.Scan(&t.SourceID, &t.ID, &t.URI, &t.Key, column.IntoDigest(&t.SHA256), &t.Length, &t.Reason,
		column.IntoInstant(&t.At))
	return t, err
}

// Trash implements store.Ledger.
func (s *Store) Trash(ctx context.Context, sourceID int64, before store.Micros, after string,
	limit int) ([]store.Trashed, error) {
	const what = "list the trash"
	rows, err := s.db.Query(ctx, "SELECT "+trashColumns+` FROM trash WHERE source_id = ?1 AND id > ?2
		AND (?3 IS NULL OR at < ?3) ORDER BY id LIMIT ?4`, sourceID, after, column.Instant(before), max(limit, 0))
	if err != nil {
		return nil, s.db.Fail(what, err)
	}
	found, err := collect(rows, scanTrashed)
	return found, s.db.Fail(what, err)
}

// TrashedOf implements store.Ledger.
func (s *Store) TrashedOf(ctx context.Context, sourceID int64, uri string) (store.Trashed, error) {
	const what = "look into the trash"
	rows, err := s.db.Query(ctx, "SELECT "+trashColumns+
		" FROM trash WHERE source_id = ? AND uri = ? ORDER BY id DESC LIMIT 1", sourceID, uri)
	if err != nil {
		return store.Trashed{}, s.db.Fail(what, err)
	}
	found, err := collect(rows, scanTrashed)
	if err != nil {
		return store.Trashed{}, s.db.Fail(what, err)
	}
	if len(found) == 0 {
		return store.Trashed{}, fmt.Errorf("%s: %w", what, store.ErrNotFound)
	}
	return found[0], nil
}

// History implements store.Ledger. A negative document is a notification, which has no record of
// its own.
func (s *Store) History(ctx context.Context, sourceID int64, uri string) ([]store.Event, error) {
	const what = "read a resource's history"
	rows, err := s.db.Query(ctx, `SELECT e.source_id, e.uri, e.at, e.what, e.v_from, e.v_until, e.ordinal, e.document,
			e.detail, CASE WHEN e.document < 0 THEN 'notification' ELSE coalesce(d.url, '') END
		FROM event e LEFT JOIN document d ON d.id = e.document AND d.source_id = e.source_id
		WHERE e.source_id = ? AND e.uri = ? ORDER BY e.id`, sourceID, uri)
	if err != nil {
		return nil, s.db.Fail(what, err)
	}
	events, err := collect(rows, func(row rowScanner) (e store.Event, err error) {
		err = row.Scan(&e.SourceID, &e.URI, column.IntoInstant(&e.At), &e.What, column.IntoInstant(&e.Version.From),
			column.IntoInstant(&e.Version.Until),
			&e.Version.Ordinal, &e.Version.Document, &e.Detail, &e.Document)
		return e, err
	})
	return events, s.db.Fail(what, err)
}
