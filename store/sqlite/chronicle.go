package sqlite

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

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

func widths() [3]store.Width { return [...]store.Width{store.Minute, store.Hour, store.Day} }

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
	sums := map[bucket]*store.Point{}
	for i := range points {
		p := &points[i]
		switch {
		case !p.At.Known():
			return fmt.Errorf("add to the history: a point of source %d has no instant", p.SourceID)
		case *p == store.Point{SourceID: p.SourceID, At: p.At}: // nothing happened, and a year of that must not be rows
			continue
		}
		for _, w := range widths() {
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
