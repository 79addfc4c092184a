package sqlite

import (
	"context"
	"math/rand/v2"

	"resyncd/store"
	"resyncd/store/sqlite/column"
)

// Sample implements store.Resources. It draws random ids of the range, so a row behind a wide hole
// is drawn more often.
func (s *Store) Sample(ctx context.Context, sourceID int64, n int) ([]*store.Resource, error) {
	const what = "sample resources"
	from, to := idRange(sourceID)
	var first, beyond, last int64 // beyond: there are more than n
	err := s.db.Get(ctx, `SELECT coalesce((SELECT id FROM resource WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT 1), 0),
			coalesce((SELECT id FROM resource WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT 1 OFFSET ?3), 0),
			coalesce((SELECT max(id) FROM resource WHERE id >= ?1 AND id < ?2), 0)`,
		[]any{from, to, n}, &first, &beyond, &last)
	if err != nil {
		return nil, s.db.Fail(what, err)
	}
	if beyond == 0 {
		return s.resources(ctx, what, sourceID, "resource r", "r.id >= ? AND r.id < ? ORDER BY r.id", n, from, to)
	}
	at := make([]int64, n)
	for i := range at {
		at[i] = first + rand.Int64N(last-first+1)
	}
	rows, err := s.db.Query(ctx, `SELECT coalesce((SELECT r.id FROM resource r WHERE r.id >= j.value AND r.id < ?2 ORDER BY r.id LIMIT 1), 0)
		FROM json_each(?1) j`, column.IDs(at), to)
	if err != nil {
		return nil, s.db.Fail(what, err)
	}
	ids, err := collect(rows, scanID)
	if err != nil {
		return nil, s.db.Fail(what, err)
	}
	return s.ByIDs(ctx, ids)
}
