package sqlite

import (
	"context"
	"time"

	"resyncd/store"
	"resyncd/store/sqlite/dbfile"
)

const (
	day = 24 * time.Hour
	// keepRequests is how long a request is kept after its last sign of life: by then nobody waits
	// for its answer, and an old request would surprise the operator who starts a daemon. keepGone
	// is how long tombstones answer hubs.
	keepRequests = day
	keepGone     = 90 * day
)

// tidyPush drops a slice of old rows of push and requests, and the marks beyond keep.
func tidyPush(ctx context.Context, w *dbfile.Writer, keep int) (more bool, err error) {
	now := time.Now()
	ago := func(d time.Duration) int64 { return int64(store.MicrosOf(now.Add(-d))) }
	for _, step := range []struct {
		query string
		args  []any
	}{
		// The oldest requests come first. One that is worked on for longer than a day stays.
		{`DELETE FROM request WHERE id IN (SELECT id FROM request ORDER BY id LIMIT ?1)
			AND max(coalesce(created, 0), coalesce(beat, 0)) < ?2`, []any{tidyRows, ago(keepRequests)}},
		{`UPDATE subscription SET ended = ? WHERE id IN (SELECT id FROM subscription WHERE state = 'gone' AND ended IS NULL LIMIT ?)`,
			[]any{int64(store.MicrosOf(now)), tidyRows}},
		{`DELETE FROM subscription WHERE id IN (SELECT id FROM subscription WHERE state = 'gone' AND ended < ? LIMIT ?)`,
			[]any{ago(keepGone), tidyRows}},
	} {
		n, err := w.Exec(ctx, step.query, step.args...)
		if err != nil {
			return false, err
		}
		more = more || n == tidyRows
	}
	marks, err := tidyMarks(ctx, w, ago(day), keep)
	return more || marks, err
}
