package sqlite

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"resyncd/store"
	"resyncd/store/sqlite/column"
	"resyncd/store/sqlite/dbfile"
)

const (
	pointRow  = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
	pointHead = `INSERT INTO series
		(width, at, source_id, changes, failed, bytes, pushes, latency, latency_most, misses) VALUES `
	pointTail = ` ON CONFLICT (width, at, source_id) DO UPDATE SET changes = changes + excluded.changes,
		failed = failed + excluded.failed, bytes = bytes + excluded.bytes, pushes = pushes + excluded.pushes,
		latency = latency + excluded.latency, latency_most = max(latency_most, excluded.latency_most),
		misses = misses + excluded.misses`
)

// widths are the widths that are kept.
func widths() [3]store.Width { return [...]store.Width{store.Minute, store.Hour, store.Day} }

type bucket struct {
	width  store.Width
	at     store.Micros
	source int64
}

// bucketStart is the begin of the bucket that holds at.
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
	places := make([]bucket, 0, len(sums))
	for at := range sums {
		places = append(places, at)
	}
	slices.SortFunc(places, func(a, b bucket) int { // the order of the table
		return cmp.Or(cmp.Compare(a.width, b.width), cmp.Compare(a.at, b.at), cmp.Compare(a.source, b.source))
	})
	return s.db.Write(ctx, "add to the history", func(ctx context.Context, w *dbfile.Writer) error {
		return putPoints(ctx, w, places, sums)
	})
}

// putPoints writes the sums of the existing Sources, rowsAtOnce with a statement.
func putPoints(ctx context.Context, w *dbfile.Writer, places []bucket, sums map[bucket]*store.Point) error {
	rows, err := w.Query(ctx, "SELECT id FROM source WHERE name IS NOT NULL")
	if err != nil {
		return err
	}
	there, err := collect(rows, scanID)
	if err != nil {
		return err
	}
	known := make(map[int64]bool, len(there))
	for _, id := range there {
		known[id] = true
	}
	places = slices.DeleteFunc(places, func(at bucket) bool { return !known[at.source] })
	args := make([]any, 0, 10*rowsAtOnce)
	for rest := places; len(rest) > 0; {
		n := rowsAtOnce
		if len(rest) < n {
			n = 1
		}
		args = args[:0]
		for _, at := range rest[:n] {
			p := sums[at]
			args = append(args, int64(at.width), int64(at.at), at.source, p.Changes, p.Failed, p.Bytes, p.Pushes,
				p.Latency,
				p.LatencyMost, p.Misses)
		}
		if _, err := w.Exec(ctx, pointHead+rowsOf(pointRow, n)+pointTail, args...); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

// Points implements store.Chronicle.
func (s *Store) Points(ctx context.Context, sourceID int64, w store.Width, from,
	until store.Micros) ([]store.Point, error) {
	const what = "read the history"
	const columns = "at, source_id, changes, failed, bytes, pushes, latency, latency_most, misses"
	if s.lacks(schemaChronicle) {
		return nil, nil
	}
	query, args := "SELECT "+columns+" FROM series WHERE width = ? AND at >= ? AND at < ?", []any{int64(w),
		int64(from), int64(until)}
	if sourceID != 0 { // from each instant with a point to the next
		query = `WITH RECURSIVE t (begun) AS (SELECT (SELECT at FROM series WHERE width = ?1 AND at >= ?2 AND at < ?3
				ORDER BY at LIMIT 1) UNION ALL SELECT (SELECT at FROM series WHERE width = ?1 AND at > t.begun
				AND at < ?3 ORDER BY at LIMIT 1) FROM t WHERE t.begun IS NOT NULL)
			SELECT ` + columns + " FROM t CROSS JOIN series ON width = ?1 AND at = t.begun AND source_id = ?4"
		args = append(args, sourceID)
	}
	rows, err := s.db.Query(ctx, query, args...)
	if err != nil {
		return nil, s.db.Fail(what, err)
	}
	points, err := collect(rows, func(row rowScanner) (p store.Point, err error) {
		err = row.Scan(column.IntoInstant(&p.At), &p.SourceID, &p.Changes, &p.Failed, &p.Bytes, &p.Pushes, &p.Latency,
			&p.LatencyMost, &p.Misses)
		return p, err
	})
	slices.SortFunc(points, func(a, b store.Point) int {
		return cmp.Or(cmp.Compare(a.SourceID, b.SourceID), cmp.Compare(a.At, b.At))
	})
	return points, s.db.Fail(what, err)
}
