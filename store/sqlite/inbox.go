package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"resyncd/store"
	"resyncd/store/sqlite/column"
	"resyncd/store/sqlite/dbfile"
)

// Deliver implements store.Inbox.
func (s *Store) Deliver(ctx context.Context, ds []*store.Delivery, readable func()) error {
	const what = "keep deliveries"
	if len(ds) == 0 && s.db.Writable() {
		return nil
	}
	g := &group{ds: ds, ids: make([]int64, len(ds)), repeated: make([]bool, len(ds)), recent: &s.recent}
	return s.db.WriteReadable(ctx, what, func() {
		for i, d := range ds { // only after the commit succeeded
			d.ID, d.Duplicate = g.ids[i], g.repeated[i]
		}
		if readable != nil {
			readable()
		}
	}, g.apply)
}

// Durable implements store.Inbox.
func (s *Store) Durable(context.Context) error { return s.db.Durable() }

func resize(ctx context.Context, w *dbfile.Writer, source int64, by store.InboxSize) error {
	if by == (store.InboxSize{}) {
		return nil
	}
	_, err := w.Exec(ctx, `INSERT INTO inbox_share (source_id, deliveries, bytes) VALUES (?, ?, ?)
		ON CONFLICT (source_id) DO UPDATE SET deliveries = deliveries + excluded.deliveries,
		bytes = bytes + excluded.bytes`, source, by.Deliveries, by.Bytes)
	return err
}

// Inbox implements store.Inbox.
func (s *Store) Inbox(ctx context.Context) (store.InboxSize, error) {
	var sum store.InboxSize
	shares, err := s.InboxShares(ctx)
	for _, share := range shares {
		sum.Deliveries += share.Deliveries
		sum.Bytes += share.Bytes
	}
	return sum, err
}

// InboxShares implements store.Inbox.
func (s *Store) InboxShares(ctx context.Context) (map[int64]store.InboxSize, error) {
	query := "SELECT source_id, deliveries, bytes FROM inbox_share WHERE deliveries <> 0"
	switch {
	case s.lacks(schemaPush):
		return nil, nil
	case s.lacks(schemaFeed): // the old schema has only the sum
		query = "SELECT source_id, count(*), sum(length(body)) FROM inbox WHERE kept = 0 GROUP BY source_id"
	}
	type share struct {
		source int64
		size   store.InboxSize
	}
	found, err := dbfile.All(ctx, s.db,
		func(of *share) []any { return []any{&of.source, &of.size.Deliveries, &of.size.Bytes} }, query)
	shares := make(map[int64]store.InboxSize, len(found))
	for _, of := range found {
		shares[of.source] = of.size
	}
	return shares, s.db.Fail("size up the inbox", err)
}

// Deliveries implements store.Inbox.
func (s *Store) Deliveries(ctx context.Context, q store.InboxQuery) ([]store.Delivery, error) {
	const what = "read the inbox"
	if s.lacks(schemaPush) {
		return nil, nil
	}
	var out []store.Delivery
	err := s.db.ReadOnWriter(ctx, true, func(ctx context.Context, from dbfile.Querier) error {
		// Not a bare parameter: SQLite plans by its value, so it would compile the statement anew for each push.
		rows, err := from.Query(ctx, `SELECT id, subscription_id, source_id, set_id, kind, received, signed, digest,
			type, v_from, v_until, kept, body FROM inbox WHERE source_id = ? AND kept = ? AND id > ? ORDER BY id
			LIMIT ? + 0`, q.SourceID, column.Flag(q.Kept), q.After, max(q.Limit, 0))
		if err != nil {
			return err
		}
		out, err = upTo(rows, q.MaxBytes)
		return err
	})
	return out, s.db.Fail(what, err)
}

// upTo reads deliveries until their bodies exceed limit (0: all); at least one.
func upTo(rows *sql.Rows, limit int64) ([]store.Delivery, error) {
	defer rows.Close()
	var out []store.Delivery
	for size := int64(0); rows.Next(); {
		var d store.Delivery
		err := rows.Scan(&d.ID, &d.SubscriptionID, &d.SourceID, &d.SetID, &d.Kind, column.InstantAt(&d.Received),
			&d.Signed, column.DigestAt(&d.Digest), &d.Type, column.InstantAt(&d.From), column.InstantAt(&d.Until),
			&d.Kept, &d.Body)
		if err != nil {
			return nil, err
		}
		if size += int64(len(d.Body)); limit > 0 && size > limit && len(out) > 0 {
			break
		}
		out = append(out, d)
	}
	return out, rows.Err()
}

func (p *commit) inbox(ctx context.Context, w *dbfile.Writer) error {
	var size store.InboxSize
	for _, ch := range p.c.Inbox {
		var source, bytes int64
		var kept bool
		err := w.Get(ctx, "SELECT source_id, kept, length(body) FROM inbox WHERE id = ?", []any{ch.ID}, &source, &kept,
			&bytes)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			continue
		case err != nil:
			return err
		case source != p.source:
			return fmt.Errorf("delivery %d is not of the claimed source", ch.ID)
		case kept && ch.Keep:
			continue
		}
		if !kept {
			size.Deliveries--
			size.Bytes -= bytes
		}
		query := "DELETE FROM inbox WHERE id = ?"
		if ch.Keep {
			query = "UPDATE inbox SET kept = 1 WHERE id = ?"
		}
		if _, err := w.Exec(ctx, query, ch.ID); err != nil {
			return err
		}
	}
	return resize(ctx, w, p.source, size)
}
