package sqlite

import (
	"context"
	"resyncd/store/sqlite/dbfile"
)

// unusedMost is how many records of documents one call of Tidy drops.
const unusedMost = 20_000

// unusedDocuments finds records of documents beyond the newest of a Source that nothing refers to:
// a Source could make them without end by renaming its lists. The search reads everything that
// could refer to one, so it waits until there are twice as many as are kept, or as the last search
// left.
func (s *Store) unusedDocuments(ctx context.Context) (ids []int64, err error) {
	rows, err := s.db.Query(ctx, `SELECT c.id FROM source c WHERE
		(SELECT d.source_id FROM document d WHERE d.source_id = c.id LIMIT 1 OFFSET ?) IS NOT NULL`, 2*keepDocuments)
	if err != nil {
		return nil, err
	}
	sources, err := collect(rows, scanID)
	if err != nil {
		return nil, err
	}
	for _, source := range sources {
		var n int64
		if err := s.db.Get(ctx, "SELECT count(*) FROM document WHERE source_id = ?", []any{source}, &n); err != nil {
			return nil, err
		}
		s.mu.Lock()
		wait := n < s.searchAbove[source]
		s.mu.Unlock()
		if wait {
			continue
		}
		if ids, err = s.unreferenced(ctx, source); err != nil {
			return nil, err
		}
		if len(ids) > unusedMost {
			return ids[:unusedMost], nil
		}
		s.mu.Lock()
		s.searchAbove[source] = 2 * (n - int64(len(ids)))
		s.mu.Unlock()
		if len(ids) > 0 {
			return ids, nil
		}
	}
	return nil, nil
}

// unreferenced lists the documents of a Source that no want, file, event or span refers to, except
// the newest and those of its sets.
func (s *Store) unreferenced(ctx context.Context, source int64) ([]int64, error) {
	rows, err := s.db.Query(ctx, `SELECT id FROM document d WHERE source_id = ?1 AND set_id <> 0
		AND id < (SELECT id FROM document WHERE source_id = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)
		AND coalesce(read, 0) < (SELECT coalesce(read, 0) FROM document WHERE source_id = ?1 ORDER BY 1 DESC LIMIT 1 OFFSET ?2)
		AND NOT EXISTS (SELECT 1 FROM sets t WHERE t.source_id = ?1 AND t.capability_list = d.url)
		AND url NOT IN (SELECT p.document FROM sets t CROSS JOIN span p ON p.set_id = t.id WHERE t.source_id = ?1)
		AND id NOT IN (SELECT document FROM event WHERE source_id = ?1) ORDER BY id`, source, keepDocuments-1)
	if err != nil {
		return nil, err
	}
	found, err := collect(rows, scanID)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	referred := map[int64]bool{}
	from, to := idRange(source)
	if rows, err = s.db.Query(ctx, "SELECT "+resourceColumns+", "+wantColumns+" FROM resource r"+allWants+
		" WHERE r.id >= ?2 AND r.id < ?3",
		source, from, to); err != nil {
		return nil, err
	}
	defer rows.Close()
	var x resourceRow
	for rows.Next() {
		if err := x.scan(rows); err != nil {
			return nil, err
		}
		for w := &x.want; w != nil; w = w.Listed {
			referred[w.Version.Document] = true
		}
		referred[x.res.Have.Version.Document] = true
	}
	free := found[:0]
	for _, id := range found {
		if !referred[id] {
			free = append(free, id)
		}
	}
	return free, rows.Err()
}

// dropDocuments drops records of documents.
func dropDocuments(ctx context.Context, w *dbfile.Writer, ids []int64) error {
	for _, id := range ids {
		if _, err := w.Exec(ctx, "DELETE FROM document WHERE id = ?", id); err != nil {
			return err
		}
	}
	return nil
}
