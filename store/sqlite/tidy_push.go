package sqlite

import (
	"context"
	"time"

	"resyncd/store"
)

const (
	day = 24 * time.Hour
	// keepRequests is how long a request is kept after its last sign of life: then nobody waits for its answer, and one that
	// no daemon ever took would surprise who starts one. keepGone is how long tombstones answer hubs.
	keepRequests = day
	keepGone     = 90 * day
)

// tidyPush drops a slice of what push and requests left behind, and the marks of a set beyond so many.
func tidyPush(ctx context.Context, w *writer, keep int) (more bool, err error) {
	now := time.Now()
	ago := func(d time.Duration) int64 { return int64(store.MicrosOf(now.Add(-d))) }
	for _, step := range []struct {
		query string
		args  []any
	}{
		// The oldest requests stand first. One that is worked on for longer than a day stays.
		{`DELETE FROM request WHERE id IN (SELECT id FROM request ORDER BY id LIMIT ?1)
			AND max(coalesce(created, 0), coalesce(beat, 0)) < ?2`, []any{tidyRows, ago(keepRequests)}},
		{`UPDATE subscription SET ended = ? WHERE id IN (SELECT id FROM subscription WHERE state = 'gone' AND ended IS NULL LIMIT ?)`,
			[]any{int64(store.MicrosOf(now)), tidyRows}},
		{`DELETE FROM subscription WHERE id IN (SELECT id FROM subscription WHERE state = 'gone' AND ended < ? LIMIT ?)`,
			[]any{ago(keepGone), tidyRows}},
	} {
		n, err := w.exec(ctx, step.query, step.args...)
		if err != nil {
			return false, err
		}
		more = more || n == tidyRows
	}
	marks, err := tidyMarks(ctx, w, ago(day), keep)
	return more || marks, err
}

// tidyMarks drops the marks before an instant, and those beyond the newest of each set. They stand in the order in which
// they were made, so a look at the ends tells whether there are any.
func tidyMarks(ctx context.Context, w *writer, before int64, keep int) (more bool, err error) {
	rows, err := w.query(ctx, `WITH RECURSIVE t (id) AS (SELECT min(set_id) FROM mark
			UNION ALL SELECT (SELECT min(set_id) FROM mark WHERE set_id > t.id) FROM t WHERE t.id IS NOT NULL)
		SELECT id FROM t WHERE (SELECT at FROM mark WHERE set_id = t.id ORDER BY n LIMIT 1) < ?
			OR (SELECT n FROM mark WHERE set_id = t.id ORDER BY n DESC LIMIT 1) -
				(SELECT n FROM mark WHERE set_id = t.id ORDER BY n LIMIT 1) >= ?`, before, keep)
	if err != nil {
		return false, err
	}
	sets, err := collect(rows, scanID)
	if err != nil {
		return false, err
	}
	for _, set := range sets {
		n, err := w.exec(ctx, `DELETE FROM mark WHERE set_id = ?1 AND n IN (SELECT n FROM mark WHERE set_id = ?1 ORDER BY n LIMIT ?2)
			AND (at < ?3 OR n <= (SELECT n FROM mark WHERE set_id = ?1 ORDER BY n DESC LIMIT 1) - ?4)`,
			set, tidyRows, before, keep)
		if err != nil {
			return false, err
		}
		more = more || n == tidyRows
	}
	return more, nil
}
