package sqlite

import (
	"context"

	"resyncd/store"
	"resyncd/store/sqlite/column"
	"resyncd/store/sqlite/dbfile"
)

// How much history is kept (store.Store) and shown.
const (
	keepGaps      = 100
	keepRuns      = 200
	keepEvents    = 100
	keepDocuments = 10_000
)

const (
	gapColumns   = "set_id, v_from, v_until, state, closed_by, found, ended"
	runColumns   = "set_id, kind, started, ended, fetched, deleted, unchanged, failed, bytes, requests, problem"
	trashColumns = "source_id, id, uri, key, sha256, length, reason, at"
	eventColumns = "source_id, uri, at, what, v_from, v_until, ordinal, document, detail"
)

func gapFields(g *store.Gap) []any {
	return []any{&g.ID, &g.SetID, column.InstantAt(&g.From), column.InstantAt(&g.Until), &g.State, &g.ClosedBy,
		column.InstantAt(&g.Found), column.InstantAt(&g.Ended)}
}

func runFields(r *store.Run) []any {
	return []any{&r.ID, &r.SetID, &r.Kind, column.InstantAt(&r.Started), column.InstantAt(&r.Ended), &r.Fetched,
		&r.Deleted, &r.Unchanged, &r.Failed, &r.Bytes, &r.Requests, &r.Problem}
}

func trashFields(t *store.Trashed) []any {
	return []any{&t.SourceID, &t.ID, &t.URI, &t.Key, column.DigestAt(&t.SHA256), &t.Length, &t.Reason,
		column.InstantAt(&t.At)}
}

func eventFields(e *store.Event) []any {
	return []any{&e.SourceID, &e.URI, column.InstantAt(&e.At), &e.What, column.InstantAt(&e.Version.From),
		column.InstantAt(&e.Version.Until), &e.Version.Ordinal, &e.Version.Document, &e.Detail, &e.Document}
}

// Gaps implements store.Ledger.
func (s *Store) Gaps(ctx context.Context, setID int64) ([]store.Gap, error) {
	const of = "SELECT id, " + gapColumns + " FROM gap WHERE set_id = ?1 AND ended_yet = "
	r := s.db.Read(ctx, "list gaps")
	return dbfile.All(r, gapFields, of+"0 UNION ALL SELECT * FROM ("+of+"1 ORDER BY id DESC LIMIT ?2) ORDER BY id",
		setID, keepGaps), r.Err()
}

// Runs implements store.Ledger.
func (s *Store) Runs(ctx context.Context, setID int64, limit int) ([]store.Run, error) {
	r := s.db.Read(ctx, "list runs")
	return dbfile.All(r, runFields, "SELECT id, "+runColumns+" FROM run WHERE set_id = ? ORDER BY id DESC LIMIT ?",
		setID, max(limit, 0)), r.Err()
}

// Trash implements store.Ledger.
func (s *Store) Trash(ctx context.Context, sourceID int64, before store.Micros, after string,
	limit int) ([]store.Trashed, error) {
	r := s.db.Read(ctx, "list the trash")
	return dbfile.All(r, trashFields, "SELECT "+trashColumns+` FROM trash WHERE source_id = ?1 AND id > ?2
		AND (?3 IS NULL OR at < ?3) ORDER BY id LIMIT ?4`, sourceID, after, column.Instant(before),
		max(limit, 0)), r.Err()
}

// TrashedOf implements store.Ledger.
func (s *Store) TrashedOf(ctx context.Context, sourceID int64, uri string) (store.Trashed, error) {
	r := s.db.Read(ctx, "look into the trash")
	return dbfile.One(r, trashFields, "SELECT "+trashColumns+
		" FROM trash WHERE source_id = ? AND uri = ? ORDER BY id DESC LIMIT 1", sourceID, uri), r.Err()
}

// History implements store.Ledger. A negative document is a notification, which has no record of its own.
func (s *Store) History(ctx context.Context, sourceID int64, uri string) ([]store.Event, error) {
	r := s.db.Read(ctx, "read a resource's history")
	return dbfile.All(r, eventFields, `SELECT e.source_id, e.uri, e.at, e.what, e.v_from, e.v_until,
			e.ordinal, e.document, e.detail,
			CASE WHEN e.document < 0 THEN 'notification' ELSE coalesce(d.url, '') END
		FROM event e LEFT JOIN document d ON d.id = e.document AND d.source_id = e.source_id
		WHERE e.source_id = ? AND e.uri = ? ORDER BY e.id`, sourceID, uri), r.Err()
}
