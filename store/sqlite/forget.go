package sqlite

import (
	"context"
	"fmt"
	"os"
	"time"

	"resyncd/store"
	"resyncd/store/sqlite/column"
	"resyncd/store/sqlite/dbfile"
)

// forgetSlice is how many rows one transaction drops while forgetting, bodySlice how many of those with a large body.
const forgetSlice, bodySlice = 5000, 500

// ForgetSource implements store.Sources.
func (s *Store) ForgetSource(ctx context.Context, c store.Claim) error {
	// The name goes first, so that nobody finds the Source any more: an interruption leaves rows to
	// drop, never a Source whose coverage promises rows that are gone.
	err := s.fenced(ctx, s.db.Write, "forget a source", c, func(tx *dbfile.Session) {
		tx.Exec("UPDATE source SET name = NULL, epoch = epoch + 1 WHERE id = ?", c.SourceID)
		// Tombstones of its subscriptions stay: hubs that keep sending are told that they have ended (S-68, S-92).
		tx.Exec(`UPDATE subscription SET state = 'gone', reason = 'the source was forgotten', secret = '',
			next = NULL, ended = ? WHERE source_id = ? AND state <> 'gone'`,
			column.Instant(store.MicrosOf(time.Now())), c.SourceID)
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	h := s.claims[c.SourceID]
	s.mu.Unlock()
	if h != nil {
		if err := s.unclaim(c.SourceID, h); err != nil {
			return err
		}
	}
	for {
		more, err := s.dropRows(ctx, c.SourceID)
		if err != nil || !more {
			return err
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("forget a source: the rest goes with the next maintenance: %w", err)
		}
	}
}

func dropInbox(tx *dbfile.Session, sourceID int64) (more bool) {
	type delivery struct {
		kept  bool
		bytes int64
	}
	gone := dbfile.All(tx, func(d *delivery) []any { return []any{&d.kept, &d.bytes} },
		`DELETE FROM inbox WHERE id IN (SELECT id FROM inbox WHERE source_id = ? LIMIT ?)
		RETURNING kept, length(body)`, sourceID, bodySlice)
	var size store.InboxSize
	for _, d := range gone {
		if !d.kept {
			size.Deliveries--
			size.Bytes -= d.bytes
		}
	}
	resize(tx, sourceID, size)
	return len(gone) > 0
}

// dropPoints drops a slice of a Source's points of one width, found as Points finds them.
const dropPoints = `WITH RECURSIVE t (begun) AS (SELECT (SELECT at FROM series WHERE width = ?1 ORDER BY at LIMIT 1)
		UNION ALL SELECT (SELECT at FROM series WHERE width = ?1 AND at > t.begun ORDER BY at LIMIT 1) FROM t
		WHERE t.begun IS NOT NULL)
	DELETE FROM series WHERE width = ?1 AND source_id = ?2 AND at IN (SELECT t.begun FROM t CROSS JOIN series o
		ON o.width = ?1 AND o.at = t.begun AND o.source_id = ?2 LIMIT ?3)`

// dropRows drops a slice of a forgotten Source's rows, the Source itself last.
func (s *Store) dropRows(ctx context.Context, sourceID int64) (more bool, err error) {
	from, to := idRange(sourceID)
	slice := s.limits.forget
	steps := []step{
		{`DELETE FROM content WHERE resource_id IN (SELECT resource_id FROM content WHERE resource_id >= ?
			AND resource_id < ? LIMIT ?)`, []any{from, to, bodySlice}},
	}
	add := func(query string, args ...any) { steps = append(steps, step{query, append(args, slice)}) }
	add("DELETE FROM edit WHERE id IN (SELECT id FROM edit WHERE source_id = ? LIMIT ?)", sourceID)
	add("DELETE FROM resource WHERE id IN (SELECT id FROM resource WHERE id >= ? AND id < ? LIMIT ?)", from, to)
	add(`DELETE FROM want WHERE (set_id, resource_id) IN (SELECT w.set_id, w.resource_id FROM sets t
		CROSS JOIN want w ON w.set_id = t.id WHERE t.source_id = ? LIMIT ?)`, sourceID)
	for _, t := range [][2]string{{"folder", "name"}, {"event", "uri, id"}, {"trash", "id"}} {
		table, key := t[0], t[1]
		add("DELETE FROM "+table+" WHERE source_id = ?1 AND ("+key+") IN (SELECT "+key+" FROM "+table+
			" WHERE source_id = ?1 LIMIT ?2)", sourceID)
	}
	add("DELETE FROM document WHERE id IN (SELECT id FROM document WHERE source_id = ? LIMIT ?)", sourceID)
	for _, table := range []string{"gap", "span", "run"} {
		add("DELETE FROM "+table+" WHERE id IN (SELECT x.id FROM sets t CROSS JOIN "+table+
			" x ON x.set_id = t.id WHERE t.source_id = ? LIMIT ?)", sourceID)
	}
	add(`DELETE FROM subscription_event WHERE id IN (SELECT id FROM subscription_event WHERE id >= ? AND id < ?
		LIMIT ?)`, from, to)
	for _, width := range widths() {
		add(dropPoints, int64(width), sourceID)
	}
	err = s.db.Write(ctx, "drop the rows of a forgotten source", func(tx *dbfile.Session) {
		if more = dropInbox(tx, sourceID); more {
			return
		}
		for _, step := range steps {
			if more = tx.Exec(step.query, step.args...) > 0; more {
				return // one slice a transaction
			}
		}
		tx.Exec("DELETE FROM inbox_share WHERE source_id = ?", sourceID)
		tx.Exec("DELETE FROM sets WHERE source_id = ?", sourceID)
		tx.Exec("DELETE FROM source WHERE id = ? AND name IS NULL", sourceID)
	})
	if err == nil && !more {
		_ = os.Remove(s.lockPath(sourceID)) // the id is never given again; an empty file that remains does no harm
	}
	return more, err
}
