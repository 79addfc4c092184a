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

// tidyEvents is how many events one slice reads, tidyRows how many rows of other history it drops.
const tidyEvents, tidyRows = 20_000, 1000

// How much of the chronicle is kept (store.Width, store.Store), and of what push leaves: a
// request for so long after its last sign of life, because an old one would surprise the operator who
// starts a daemon, and tombstones to answer hubs.
const (
	keepSpans    = 10_000
	keepSteps    = 500
	day          = 24 * time.Hour
	keepRequests = day
	keepGone     = 90 * day
)

// Tidy implements store.Store.
func (s *Store) Tidy(ctx context.Context) (more bool, err error) {
	if !s.db.Writable() {
		return false, fmt.Errorf("tidy the state database: %w", store.ErrReadOnly)
	}
	r := s.db.Read(ctx, "look for what nobody needs")
	var forgotten int64
	if r.Get("SELECT id FROM source WHERE name IS NULL LIMIT 1", nil, &forgotten) {
		_, err := s.dropRows(ctx, forgotten)
		return true, err
	}
	spare := s.unusedDocuments(r)
	if err := r.Err(); err != nil {
		return false, err
	}
	err = s.db.Write(ctx, "tidy the state database", func(tx *dbfile.Session) {
		rows, documents, events := runSteps(tx, s.tidySteps()...), tidyDocuments(tx), tidyHistory(tx)
		for _, id := range spare {
			tx.Exec("DELETE FROM document WHERE id = ?", id)
		}
		more = rows || documents || events || len(spare) > 0
	})
	return more, err
}

// step is a statement that drops rows, up to tidyRows in Tidy.
type step struct {
	query string
	args  []any
}

// runSteps reports whether a step may have left rows.
func runSteps(tx *dbfile.Session, steps ...step) (more bool) {
	for _, step := range steps {
		more = tx.Exec(step.query, step.args...) == tidyRows || more
	}
	return more
}

// tidySteps drop what is too old or too much in the tables of history and push.
func (s *Store) tidySteps() []step {
	now := time.Now()
	ago := func(d time.Duration) int64 { return int64(store.MicrosOf(now.Add(-d))) }
	steps := []step{
		{`DELETE FROM gap WHERE id IN (SELECT g.id FROM sets t CROSS JOIN gap g ON g.set_id = t.id
			AND g.ended_yet = 1 WHERE g.id < (SELECT o.id FROM gap o WHERE o.set_id = t.id AND o.ended_yet = 1
			ORDER BY o.id DESC LIMIT 1 OFFSET ?) LIMIT ?)`, []any{keepGaps - 1, tidyRows}},
		{`DELETE FROM run WHERE id IN (SELECT g.id FROM sets t CROSS JOIN run g ON g.set_id = t.id
			WHERE g.id < (SELECT o.id FROM run o WHERE o.set_id = t.id ORDER BY o.id DESC LIMIT 1 OFFSET ?)
			LIMIT ?)`, []any{keepRuns - 1, tidyRows}},
		// The oldest requests come first. One that is worked on for longer than a day stays.
		{`DELETE FROM request WHERE id IN (SELECT id FROM request ORDER BY id LIMIT ?1)
			AND max(coalesce(created, 0), coalesce(beat, 0)) < ?2`, []any{tidyRows, ago(keepRequests)}},
		{`UPDATE subscription SET ended = ? WHERE id IN (SELECT id FROM subscription WHERE state = 'gone'
			AND ended IS NULL LIMIT ?)`, []any{int64(store.MicrosOf(now)), tidyRows}},
		{`DELETE FROM subscription WHERE id IN (SELECT id FROM subscription WHERE state = 'gone' AND ended < ?
			LIMIT ?)`, []any{ago(keepGone), tidyRows}},
		tidyMarks(ago(day), s.limits.marks),
		// Ids count up within a set, and within a Source, so the newest one shows which are too many.
		{`DELETE FROM span WHERE id IN (SELECT s.id FROM sets t CROSS JOIN span s ON s.id > t.id << ?1
			AND s.id <= (SELECT o.id FROM span o WHERE o.id < (t.id + 1) << ?1 ORDER BY o.id DESC LIMIT 1) - ?2
			LIMIT ?3)`, []any{idBits, keepSpans, tidyRows}},
		{`DELETE FROM subscription_event WHERE id IN (SELECT e.id FROM source c CROSS JOIN subscription_event e
			ON e.id > c.id << ?1 AND e.id <= (SELECT o.id FROM subscription_event o WHERE o.id < (c.id + 1) << ?1
			ORDER BY o.id DESC LIMIT 1) - ?2 LIMIT ?3)`, []any{idBits, keepSteps, tidyRows}},
	}
	for width, keep := range widths() {
		steps = append(steps, step{`DELETE FROM series WHERE (width, at, source_id) IN (SELECT width, at, source_id
			FROM series WHERE width = ? AND at < ? ORDER BY at LIMIT ?)`,
			[]any{int64(width), ago(keep), tidyRows}})
	}
	return steps
}

// tidyDocuments strips the documents beyond the newest of each Source. The rows stay while something refers to them.
func tidyDocuments(tx *dbfile.Session) (more bool) {
	for _, source := range dbfile.All(tx, idField, withDocuments, keepDocuments) {
		n := tx.Exec(`UPDATE document SET body = NULL, etag = '', last_modified = '' WHERE id IN (SELECT id
			FROM document WHERE source_id = ?1 AND coalesce(read, 0) < (SELECT coalesce(read, 0) FROM document
				WHERE source_id = ?1 ORDER BY 1 DESC LIMIT 1 OFFSET ?2)
			AND (body IS NOT NULL OR etag <> '' OR last_modified <> '') LIMIT ?3)`, source, keepDocuments-1, tidyRows)
		more = more || n == tidyRows
	}
	return more
}

// tidyHistory walks over the events, a slice a call, and drops all but the newest of each URI.
// After the last slice it begins again with the next call.
func tidyHistory(tx *dbfile.Session) (more bool) {
	type long struct {
		sourceID int64
		uri      string
		n        int64
	}
	var at long
	tx.Get("SELECT source_id, uri FROM tidy", nil, &at.sourceID, &at.uri)
	found := dbfile.All(tx, func(l *long) []any { return []any{&l.sourceID, &l.uri, &l.n} },
		`SELECT source_id, uri, count(*) FROM (SELECT source_id, uri FROM event WHERE (source_id, uri) > (?, ?)
			ORDER BY source_id, uri LIMIT ?) GROUP BY source_id, uri ORDER BY source_id, uri`,
		at.sourceID, at.uri, tidyEvents)
	seen := int64(0)
	for _, l := range found {
		seen += l.n
	}
	next := long{}
	if more = seen >= tidyEvents; more {
		next = found[len(found)-1] // may be cut by the slice's end; it is trimmed below all the same
	}
	for _, l := range found {
		if l.n > keepEvents || l == next {
			tx.Exec(`DELETE FROM event WHERE source_id = ?1 AND uri = ?2 AND id <
				(SELECT id FROM event WHERE source_id = ?1 AND uri = ?2 ORDER BY id DESC LIMIT 1 OFFSET ?3)`,
				l.sourceID, l.uri, keepEvents-1)
		}
	}
	tx.Exec("UPDATE tidy SET source_id = ?, uri = ?", next.sourceID, next.uri)
	return more
}

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
		for width := range widths() {
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
