package sqlite

import (
	"context"
	"fmt"

	"resyncd/store"
	"resyncd/store/sqlite/dbfile"
)

// Content implements store.Contents.
func (s *Store) Content(ctx context.Context, resourceID int64) ([]byte, error) {
	what := fmt.Sprintf("read the content kept for resource %d", resourceID)
	if s.lacks(schemaFeed) {
		return nil, fmt.Errorf("%s: %w", what, store.ErrNotFound)
	}
	rows, err := s.db.Query(ctx, "SELECT body FROM content WHERE resource_id = ?", resourceID)
	if err != nil {
		return nil, s.db.Fail(what, err)
	}
	body, err := single(collect(rows, func(row rowScanner) (body []byte, err error) { return body, row.Scan(&body) }))
	return body, s.db.Fail(what, err)
}

// contents keeps and drops content, in the order of the commit. resources has checked the owner.
func (p *commit) contents(ctx context.Context, w *dbfile.Writer) error {
	for i := range p.c.Resources {
		var err error
		switch r := &p.c.Resources[i]; {
		case r.Content != nil:
			_, err = w.Exec(ctx, `INSERT INTO content (resource_id, body) VALUES (?, ?)
				ON CONFLICT (resource_id) DO UPDATE SET body = excluded.body`, p.ids[i], r.Content)
		case r.DropContent:
			_, err = w.Exec(ctx, "DELETE FROM content WHERE resource_id = ?", p.ids[i])
		}
		if err != nil {
			return err
		}
	}
	return nil
}
