package sqlite

import (
	"context"
	"fmt"

	"resyncd/store"
	"resyncd/store/sqlite/column"
	"resyncd/store/sqlite/dbfile"
)

const documentColumns = `id, source_id, set_id, url, kind, etag, last_modified, at, v_from, v_until, last_entry,
	entries, complete, body, read`

func scanDocument(row rowScanner) (d store.Document, err error) {
	err = row.Scan(&d.ID, &d.SourceID, &d.SetID, &d.URL, &d.Kind, &d.ETag, &d.LastModified, column.IntoInstant(&d.At),
		column.IntoInstant(&d.From), column.IntoInstant(&d.Until), column.IntoInstant(&d.LastEntry), &d.Entries,
		&d.Complete, &d.Body, column.IntoInstant(&d.Read))
	return d, err
}

// EnsureDocument implements store.Documents.
func (s *Store) EnsureDocument(ctx context.Context, c store.Claim, setID int64, url, kind string) (int64, error) {
	var id int64
	const find = "SELECT id FROM document WHERE source_id = ? AND url = ?"
	if s.db.Writable() && s.held(c) { // the usual case writes nothing; the next commit finds a lost claim
		if err := s.db.Get(ctx, find, []any{c.SourceID, url}, &id); err == nil {
			return id, nil
		}
	}
	err := s.fencedBy(ctx, s.db.WriteAsync, "record a document", c, func(ctx context.Context, w *dbfile.Writer) error {
		if setID != 0 {
			if err := s.owned(ctx, w, c, setID); err != nil {
				return err
			}
		}
		_, err := w.Exec(ctx, `INSERT INTO document (source_id, set_id, url, kind) VALUES (?, ?, ?, ?)
			ON CONFLICT (source_id, url) DO NOTHING`, c.SourceID, setID, url, kind)
		if err != nil {
			return err
		}
		return w.Get(ctx, find, []any{c.SourceID, url}, &id)
	})
	return id, err
}

// Document implements store.Documents.
func (s *Store) Document(ctx context.Context, sourceID int64, url string) (store.Document, error) {
	return s.document(ctx, "SELECT "+documentColumns+" FROM document WHERE source_id = ? AND url = ?", sourceID, url)
}

// DocumentByID implements store.Documents.
func (s *Store) DocumentByID(ctx context.Context, id int64) (store.Document, error) {
	return s.document(ctx, "SELECT "+documentColumns+" FROM document WHERE id = ?", id)
}

func (s *Store) document(ctx context.Context, query string, args ...any) (store.Document, error) {
	const what = "read a document's record"
	rows, err := s.db.Query(ctx, query, args...)
	if err != nil {
		return store.Document{}, s.db.Fail(what, err)
	}
	found, err := collect(rows, scanDocument)
	if err != nil {
		return store.Document{}, s.db.Fail(what, err)
	}
	if len(found) == 0 {
		return store.Document{}, fmt.Errorf("%s: %w", what, store.ErrNotFound)
	}
	return found[0], nil
}

// putDocument records a document, found by its id or its URL.
func putDocument(ctx context.Context, w *dbfile.Writer, sourceID int64, d *store.Document) error {
	var body any
	if len(d.Body) > 0 {
		body = d.Body
	}
	args := []any{d.SetID, d.Kind, d.ETag, d.LastModified, column.Instant(d.At), column.Instant(d.From),
		column.Instant(d.Until), column.Instant(d.LastEntry), d.Entries,
		column.Flag(d.Complete), body, column.Instant(d.Read), sourceID}
	if d.ID == 0 {
		_, err := w.Exec(ctx, `INSERT INTO document (set_id, kind, etag, last_modified, at, v_from, v_until, last_entry,
				entries, complete, body, read, source_id, url) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (source_id, url) DO UPDATE SET set_id = excluded.set_id, kind = excluded.kind,
				etag = excluded.etag, last_modified = excluded.last_modified, at = excluded.at,
				v_from = excluded.v_from, v_until = excluded.v_until, last_entry = excluded.last_entry,
				entries = excluded.entries, complete = excluded.complete, body = excluded.body, read = excluded.read`,
			append(args, d.URL)...)
		return err
	}
	n, err := w.Exec(ctx, `UPDATE document SET set_id = ?, kind = ?, etag = ?, last_modified = ?, at = ?, v_from = ?,
		v_until = ?, last_entry = ?, entries = ?, complete = ?, body = ?, read = ? WHERE source_id = ? AND id = ?`,
		append(args, d.ID)...)
	if err == nil && n == 0 {
		return fmt.Errorf("document %d: %w", d.ID, store.ErrNotFound)
	}
	return err
}

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
		AND coalesce(read, 0) <
			(SELECT coalesce(read, 0) FROM document WHERE source_id = ?1 ORDER BY 1 DESC LIMIT 1 OFFSET ?2)
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
