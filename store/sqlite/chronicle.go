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
