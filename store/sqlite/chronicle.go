package sqlite

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"resyncd/store"
	"resyncd/store/sqlite/column"
	"resyncd/store/sqlite/dbfile"
)

const pointColumns = "at, source_id, changes, failed, bytes, pushes, latency, latency_most, misses"

func pointFields(p *store.Point) []any {
	return []any{column.InstantAt(&p.At), &p.SourceID, &p.Changes, &p.Failed, &p.Bytes, &p.Pushes, &p.Latency,
		&p.LatencyMost, &p.Misses}
}

const pointsAdd = ` ON CONFLICT (width, at, source_id) DO UPDATE SET changes = changes + excluded.changes,
	failed = failed + excluded.failed, bytes = bytes + excluded.bytes, pushes = pushes + excluded.pushes,
	latency = latency + excluded.latency, latency_most = max(latency_most, excluded.latency_most),
	misses = misses + excluded.misses`

// widths are those of points, each with how long its points are kept.
func widths() map[store.Width]time.Duration {
	return map[store.Width]time.Duration{store.Minute: 2 * day, store.Hour: 100 * day, store.Day: 6 * 366 * day}
}

type bucket struct {
	width  store.Width
	at     store.Micros
	source int64
}

func bucketStart(at store.Micros, w store.Width) store.Micros {
	size := store.Micros(w) * 1e6
	into := at % size
	if into < 0 {
		into += size
	}
	return at - into
}

// AddPoints implements store.Chronicle.
func (s *Store) AddPoints(ctx context.Context, points []store.Point) error {
	sums, all := map[bucket]*store.Point{}, widths()
	for i := range points {
		p := &points[i]
		switch {
		case !p.At.Known():
			return fmt.Errorf("add to the history: a point of source %d has no instant", p.SourceID)
		case *p == store.Point{SourceID: p.SourceID, At: p.At}: // nothing happened, and a year of that must not be rows
			continue
		}
		for w := range all {
			at := bucket{w, bucketStart(p.At, w), p.SourceID}
			if sums[at] == nil {
				sums[at] = &store.Point{}
			}
			sums[at].Add(p)
		}
	}
	if len(sums) == 0 && s.db.Writable() {
		return nil
	}
	places := slices.SortedFunc(maps.Keys(sums), func(a, b bucket) int { // the order of the table
		return cmp.Or(cmp.Compare(a.width, b.width), cmp.Compare(a.at, b.at), cmp.Compare(a.source, b.source))
	})
	return s.db.Write(ctx, "add to the history", func(tx *dbfile.Session) {
		known := dbfile.All(tx, idField, "SELECT id FROM source WHERE name IS NOT NULL")
		places = slices.DeleteFunc(places, func(at bucket) bool { return !slices.Contains(known, at.source) })
		writeRows(tx, "INTO series", "width, "+pointColumns, pointsAdd, places, func(args []any, at bucket) []any {
			p := sums[at]
			p.At, p.SourceID = at.at, at.source
			return append(append(args, int64(at.width)), pointFields(p)...)
		})
	})
}

// Points implements store.Chronicle.
func (s *Store) Points(ctx context.Context, sourceID int64, w store.Width, from,
	until store.Micros) ([]store.Point, error) {
	r := s.db.Read(ctx, "read the history")
	query, args := "SELECT "+pointColumns+" FROM series WHERE width = ? AND at >= ? AND at < ?", []any{int64(w),
		int64(from), int64(until)}
	if sourceID != 0 { // from each instant with a point to the next
		query = `WITH RECURSIVE t (begun) AS (SELECT (SELECT at FROM series WHERE width = ?1 AND at >= ?2 AND at < ?3
				ORDER BY at LIMIT 1) UNION ALL SELECT (SELECT at FROM series WHERE width = ?1 AND at > t.begun
				AND at < ?3 ORDER BY at LIMIT 1) FROM t WHERE t.begun IS NOT NULL)
			SELECT ` + pointColumns + " FROM t CROSS JOIN series ON width = ?1 AND at = t.begun AND source_id = ?4"
		args = append(args, sourceID)
	}
	points := dbfile.All(r, pointFields, query, args...)
	slices.SortFunc(points, func(a, b store.Point) int {
		return cmp.Or(cmp.Compare(a.SourceID, b.SourceID), cmp.Compare(a.At, b.At))
	})
	return points, r.Err()
}

const spanColumns = "id, set_id, kind, v_from, v_until, first, last, count, entries, document"

func spanFields(s *store.Span) []any {
	return []any{&s.ID, &s.SetID, &s.Kind, column.InstantAt(&s.From), column.InstantAt(&s.Until),
		column.InstantAt(&s.First), column.InstantAt(&s.Last), &s.Count, &s.Entries, &s.Document}
}

// Spans implements store.Chronicle.
func (s *Store) Spans(ctx context.Context, setID int64, from, until store.Micros, limit int) ([]store.Span, error) {
	r := s.db.Read(ctx, "read the evidence of a set")
	spans := dbfile.All(r, spanFields, "SELECT "+spanColumns+` FROM span WHERE set_id = ?
		AND v_until >= ? AND coalesce(v_from, v_until) <= ? ORDER BY v_until DESC, v_from DESC, id DESC LIMIT ?`, setID,
		int64(from), int64(until), max(limit, 0))
	slices.SortFunc(spans, func(a, b store.Span) int { // store.NoTime is the lowest instant
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Until, b.Until), cmp.Compare(a.ID, b.ID))
	})
	return spans, r.Err()
}

// spans merges evidence with the stored one (store.Span).
func (p *commit) spans() {
	for _, n := range p.c.Spans {
		p.checkSet(n.SetID)
		if !n.Until.Known() {
			continue
		}
		n.Count = max(n.Count, 1)
		if was := spanBefore(p.tx, &n); was != nil {
			growSpan(p.tx, was, &n)
		} else {
			addSpan(p.tx, &n)
		}
	}
}

// isStream reports a kind with many small pieces.
func isStream(k store.SpanKind) bool { return k == store.SpanNotification || k == store.SpanFeed }

// spanBefore finds the span that n belongs to, nil if there is none.
func spanBefore(tx *dbfile.Session, n *store.Span) *store.Span {
	const of = "SELECT " + spanColumns + " FROM span WHERE set_id = ? AND kind = ?"
	stream := n.From.Known() && isStream(n.Kind)
	query, args := of+" AND v_from = ? AND document = ? LIMIT 1", []any{n.SetID, string(n.Kind), int64(n.From),
		n.Document}
	switch {
	case stream:
		query = of + " AND v_from IS NOT NULL AND document = ? ORDER BY v_from DESC, v_until DESC, id DESC LIMIT 1"
		args = append(args[:2], n.Document)
	case !n.From.Known():
		query, args[2] = of+" AND v_from IS NULL AND v_until = ? AND document = ? LIMIT 1", int64(n.Until)
	}
	var was store.Span
	if !tx.Get(query, args, spanFields(&was)...) || stream && !continues(&was, n) {
		return nil
	}
	return &was
}

// continues reports whether a piece of a stream is counted with the one before it.
func continues(was, n *store.Span) bool {
	return bucketStart(was.From, store.Hour) == bucketStart(n.From, store.Hour) &&
		n.From <= was.Until && n.Until >= was.From
}

func addSpan(tx *dbfile.Session, n *store.Span) {
	from, to := idRange(n.SetID)
	values := spanFields(n)
	values[0] = from
	tx.Exec("INSERT INTO span ("+spanColumns+`) VALUES (1 + coalesce((SELECT id FROM span WHERE id >= ?1
		AND id < ?11 ORDER BY id DESC LIMIT 1), ?1), ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)`, append(values, to)...)
}

// growSpan counts n with the span it belongs to. A document that is read again is still one piece,
// with its present entries.
func growSpan(tx *dbfile.Session, was, n *store.Span) {
	now := *was
	now.Until = max(was.Until, n.Until)
	now.Last = max(was.Last, n.Last)
	if now.Entries = n.Entries; isStream(n.Kind) {
		now.From, now.Count, now.Entries = min(was.From, n.From), was.Count+n.Count, was.Entries+n.Entries
	}
	if !was.First.Known() || n.First.Known() && n.First < was.First {
		now.First = n.First
	}
	if now != *was {
		tx.Exec(update("span", "v_from, v_until, first, last, count, entries")+"id = ?",
			append(spanFields(&now)[3:9], was.ID)...)
	}
}

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
