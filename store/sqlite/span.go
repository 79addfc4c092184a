package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"

	"resyncd/store"
	"resyncd/store/sqlite/column"
	"resyncd/store/sqlite/dbfile"
)

const spanColumns = "id, set_id, kind, v_from, v_until, first, last, count, entries, document"

func spanFields(s *store.Span) []any {
	return []any{&s.ID, &s.SetID, &s.Kind, column.InstantAt(&s.From), column.InstantAt(&s.Until),
		column.InstantAt(&s.First), column.InstantAt(&s.Last), &s.Count, &s.Entries, &s.Document}
}

// Spans implements store.Chronicle.
func (s *Store) Spans(ctx context.Context, setID int64, from, until store.Micros, limit int) ([]store.Span, error) {
	if s.lacks(schemaChronicle) {
		return nil, nil
	}
	spans, err := dbfile.All(ctx, s.db, spanFields, "SELECT "+spanColumns+` FROM span WHERE set_id = ?
		AND v_until >= ? AND coalesce(v_from, v_until) <= ? ORDER BY v_until DESC, v_from DESC, id DESC LIMIT ?`, setID,
		int64(from), int64(until), max(limit, 0))
	slices.SortFunc(spans, func(a, b store.Span) int { // store.NoTime is the lowest instant
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Until, b.Until), cmp.Compare(a.ID, b.ID))
	})
	return spans, s.db.Fail("read the evidence of a set", err)
}

// spans merges evidence with the stored one (store.Span).
func (p *commit) spans(ctx context.Context, w *dbfile.Writer) error {
	for i := range p.c.Spans {
		n := p.c.Spans[i]
		if !n.Until.Known() {
			continue
		}
		n.Count = max(n.Count, 1)
		was, err := spanBefore(ctx, w, &n)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			err = addSpan(ctx, w, &n)
		case err == nil:
			err = growSpan(ctx, w, &was, &n)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isStream reports a kind with many small pieces.
func isStream(k store.SpanKind) bool { return k == store.SpanNotification || k == store.SpanFeed }

// spanBefore finds the span that n belongs to; sql.ErrNoRows if there is none.
func spanBefore(ctx context.Context, w *dbfile.Writer, n *store.Span) (store.Span, error) {
	const of = "SELECT " + spanColumns + " FROM span WHERE set_id = ? AND kind = ?"
	query, args := of+" AND v_from = ? AND document = ? LIMIT 1", []any{n.SetID, string(n.Kind), int64(n.From),
		n.Document}
	switch {
	case !n.From.Known():
		query, args[2] = of+" AND v_from IS NULL AND v_until = ? AND document = ? LIMIT 1", int64(n.Until)
	case isStream(n.Kind):
		query = of + " AND v_from IS NOT NULL AND document = ? ORDER BY v_from DESC, v_until DESC, id DESC LIMIT 1"
		args = append(args[:2], n.Document)
	}
	was, err := dbfile.One(ctx, w, spanFields, query, args...)
	if err == nil && n.From.Known() && isStream(n.Kind) && !continues(&was, n) {
		err = sql.ErrNoRows
	}
	return was, err
}

// continues reports whether a piece of a stream is counted with the one before it.
func continues(was, n *store.Span) bool {
	return bucketStart(was.From, store.Hour) == bucketStart(n.From, store.Hour) &&
		n.From <= was.Until && n.Until >= was.From
}

func addSpan(ctx context.Context, w *dbfile.Writer, n *store.Span) error {
	from, to := idRange(n.SetID)
	values := spanFields(n)
	values[0] = from
	_, err := w.Exec(ctx, "INSERT INTO span ("+spanColumns+`) VALUES (1 + coalesce((SELECT id FROM span WHERE id >= ?1
		AND id < ?11 ORDER BY id DESC LIMIT 1), ?1), ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)`, append(values, to)...)
	return err
}

// growSpan counts n with the span it belongs to. A document that is read again is still one piece,
// with its present entries.
func growSpan(ctx context.Context, w *dbfile.Writer, was, n *store.Span) error {
	now := *was
	now.Until = max(was.Until, n.Until)
	now.Last = max(was.Last, n.Last)
	if now.Entries = n.Entries; isStream(n.Kind) {
		now.From, now.Count, now.Entries = min(was.From, n.From), was.Count+n.Count, was.Entries+n.Entries
	}
	if !was.First.Known() || n.First.Known() && n.First < was.First {
		now.First = n.First
	}
	if now == *was {
		return nil
	}
	_, err := w.Exec(ctx, update("span", "v_from, v_until, first, last, count, entries")+"id = ?",
		append(spanFields(&now)[3:9], was.ID)...)
	return err
}
