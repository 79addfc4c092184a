package sqlite

import (
	"context"
	"fmt"
	"os"
	"strings"
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
	err := s.fenced(ctx, "forget a source", c, func(tx *dbfile.Session) {
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

// dropPoints drops a slice of a Source's points of one width, found as Points finds them.
const dropPoints = `WITH RECURSIVE t (begun) AS (SELECT (SELECT at FROM series WHERE width = ?1 ORDER BY at LIMIT 1)
		UNION ALL SELECT (SELECT at FROM series WHERE width = ?1 AND at > t.begun ORDER BY at LIMIT 1) FROM t
		WHERE t.begun IS NOT NULL)
	DELETE FROM series WHERE width = ?1 AND source_id = ?2 AND at IN (SELECT t.begun FROM t CROSS JOIN series o
		ON o.width = ?1 AND o.at = t.begun AND o.source_id = ?2 LIMIT ?3)`

// dropRows drops a slice of a forgotten Source's rows, the Source itself last.
func (s *Store) dropRows(ctx context.Context, sourceID int64) (more bool, err error) {
	const (
		here    = "source_id = ?1"
		inRange = "KEY >= ?2 AND KEY < ?3" // ids that begin with the Source's
		ofSets  = "set_id IN (SELECT id FROM sets WHERE source_id = ?1)"
	)
	from, to := idRange(sourceID)
	slice := s.limits.forget
	err = s.db.Write(ctx, "drop the rows of a forgotten source", func(tx *dbfile.Session) {
		tx.Exec("DELETE FROM inbox_share WHERE source_id = ?", sourceID)
		for _, t := range []struct {
			table, key, of string
			most           int
		}{
			{"inbox", "id", here, bodySlice},
			{"content", "resource_id", inRange, bodySlice},
			{"edit", "id", here, slice},
			{"resource", "id", inRange, slice},
			{"want", "set_id, resource_id", ofSets, slice},
			{"folder", "source_id, name", here, slice},
			{"event", "source_id, uri, id", here, slice},
			{"trash", "source_id, id", here, slice},
			{"document", "id", here, slice},
			{"gap", "id", ofSets, slice},
			{"span", "id", ofSets, slice},
			{"run", "id", ofSets, slice},
			{"subscription_event", "id", inRange, slice},
		} {
			more = tx.Exec("DELETE FROM "+t.table+" WHERE ("+t.key+") IN (SELECT "+t.key+" FROM "+t.table+" WHERE "+
				strings.ReplaceAll(t.of, "KEY", t.key)+" LIMIT ?4)", sourceID, from, to, t.most) > 0
			if more {
				return // one slice a transaction
			}
		}
		for _, width := range widths() {
			if more = tx.Exec(dropPoints, int64(width), sourceID, slice) > 0; more {
				return
			}
		}
		tx.Exec("DELETE FROM sets WHERE source_id = ?", sourceID)
		tx.Exec("DELETE FROM source WHERE id = ? AND name IS NULL", sourceID)
	})
	if err == nil && !more {
		_ = os.Remove(s.lockPath(sourceID)) // the id is never given again; an empty file that remains does no harm
	}
	return more, err
}
