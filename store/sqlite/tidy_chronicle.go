package sqlite

import (
	"context"
	"time"

	"resyncd/store"
	"resyncd/store/sqlite/dbfile"
)

// How much of the chronicle is kept (store.Width, store.Maintainer).
const (
	keepSpans = 10_000
	keepSteps = 500
)

// keepPoints is how long points of a width are kept.
func keepPoints(w store.Width) time.Duration {
	switch w {
	case store.Minute:
		return 2 * day
	case store.Hour:
		return 100 * day
	default:
		return 6 * 366 * day
	}
}

// tidyChronicle drops a slice of what is too old or too much.
func tidyChronicle(ctx context.Context, w *dbfile.Writer) (more bool, err error) {
	drop := func(query string, args ...any) error {
		n, err := w.Exec(ctx, query, args...)
		more = more || n == tidyRows
		return err
	}
	now := time.Now()
	for _, width := range widths() {
		err := drop(`DELETE FROM series WHERE (width, at, source_id) IN (SELECT width, at, source_id FROM series
			WHERE width = ? AND at < ? ORDER BY at LIMIT ?)`, int64(width), int64(store.MicrosOf(now.Add(-keepPoints(width)))), tidyRows)
		if err != nil {
			return false, err
		}
	}
	// Ids count up within a set, and within a Source, so the newest one shows which are too many.
	err = drop(`DELETE FROM span WHERE id IN (SELECT s.id FROM sets t CROSS JOIN span s ON s.id > t.id << ?1
		AND s.id <= (SELECT o.id FROM span o WHERE o.id < (t.id + 1) << ?1 ORDER BY o.id DESC LIMIT 1) - ?2 LIMIT ?3)`,
		idBits, keepSpans, tidyRows)
	if err != nil {
		return false, err
	}
	err = drop(`DELETE FROM subscription_event WHERE id IN (SELECT e.id FROM source c CROSS JOIN subscription_event e ON e.id > c.id << ?1
		AND e.id <= (SELECT o.id FROM subscription_event o WHERE o.id < (c.id + 1) << ?1 ORDER BY o.id DESC LIMIT 1) - ?2 LIMIT ?3)`,
		idBits, keepSteps, tidyRows)
	return more, err
}
