package sqlite

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"resyncd/store"
	"resyncd/store/sqlite/column"
	"resyncd/store/sqlite/dbfile"
)

const editColumns = "source_id, uri, digest, observed, author, received, evidence, body"

func editFields(e *store.Edit) []any {
	return []any{&e.SourceID, &e.URI, column.DigestAt(&e.Digest), column.InstantAt(&e.Observed), &e.Author,
		column.InstantAt(&e.Received), &e.Evidence, &e.Body}
}

// Edits implements store.Edits.
func (s *Store) Edits(ctx context.Context, sourceID int64, uri string) ([]store.Edit, error) {
	found, err := s.EditsOf(ctx, sourceID, []string{uri})
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

// EditsOf implements store.Edits.
func (s *Store) EditsOf(ctx context.Context, sourceID int64, uris []string) ([][]store.Edit, error) {
	const what = "read the edits of records"
	out := make([][]store.Edit, len(uris))
	if s.lacks(schemaFeed) {
		return out, nil
	}
	at := positions(uris)
	for chunk := range slices.Chunk(slices.Sorted(maps.Keys(at)), chunkSize) {
		found, err := anyOf(ctx, s.db, editFields, "SELECT "+editColumns+" FROM edit WHERE source_id = ? AND uri IN ",
			sourceID, chunk)
		if err != nil {
			return nil, s.db.Fail(what, err)
		}
		for _, e := range found {
			for _, i := range at[e.URI] {
				out[i] = append(out[i], e)
			}
		}
	}
	for _, es := range out {
		slices.SortFunc(es, func(a, b store.Edit) int { // store.NoTime is the lowest instant
			return cmp.Or(cmp.Compare(a.Observed, b.Observed), bytes.Compare(a.Digest[:], b.Digest[:]))
		})
	}
	return out, nil
}

func (p *commit) edits(ctx context.Context, w *dbfile.Writer) error {
	for i := range p.c.Edits {
		if err := p.checkSource(p.c.Edits[i].SourceID); err != nil {
			return err
		}
	}
	return writeRows(ctx, w, "INSERT INTO edit ("+editColumns+") VALUES ", "(?, ?, ?, ?, ?, ?, ?, ?)",
		" ON CONFLICT (source_id, uri, digest) DO NOTHING", p.c.Edits, func(args []any, e store.Edit) []any {
			return append(args, p.source, e.URI, e.Digest[:], column.Instant(e.Observed), e.Author,
				column.Instant(e.Received), e.Evidence, column.NotNil(e.Body))
		})
}

// Content implements store.Contents.
func (s *Store) Content(ctx context.Context, resourceID int64) ([]byte, error) {
	what := fmt.Sprintf("read the content kept for resource %d", resourceID)
	if s.lacks(schemaFeed) {
		return nil, fmt.Errorf("%s: %w", what, store.ErrNotFound)
	}
	var body []byte
	err := s.db.Get(ctx, "SELECT body FROM content WHERE resource_id = ?", []any{resourceID}, &body)
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
