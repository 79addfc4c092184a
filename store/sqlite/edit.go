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
	r := s.db.Read(ctx, "read the edits of records")
	out := make([][]store.Edit, len(uris))
	at := positions(uris)
	for chunk := range slices.Chunk(slices.Sorted(maps.Keys(at)), chunkSize) {
		for _, e := range anyOf(r, editFields, "SELECT "+editColumns+" FROM edit WHERE source_id = ? AND uri IN ",
			sourceID, chunk) {
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
	return out, r.Err()
}

func (p *commit) edits() {
	writeRows(p.tx, "INTO edit", editColumns, " ON CONFLICT (source_id, uri, digest) DO NOTHING", p.c.Edits,
		func(args []any, e store.Edit) []any {
			p.checkSource(e.SourceID)
			e.SourceID, e.Body = p.source, column.NotNil(e.Body)
			return append(args, editFields(&e)...)
		})
}

// Content implements store.Contents.
func (s *Store) Content(ctx context.Context, resourceID int64) ([]byte, error) {
	r := s.db.Read(ctx, fmt.Sprintf("read the content kept for resource %d", resourceID))
	return dbfile.One(r, func(body *[]byte) []any { return []any{body} },
		"SELECT body FROM content WHERE resource_id = ?", resourceID), r.Err()
}

// contents keeps and drops content, in the order of the commit. resources has checked the owner.
func (p *commit) contents() {
	for i := range p.c.Resources {
		switch r := &p.c.Resources[i]; {
		case r.Content != nil:
			p.tx.Exec(`INSERT INTO content (resource_id, body) VALUES (?, ?)
				ON CONFLICT (resource_id) DO UPDATE SET body = excluded.body`, p.ids[i], r.Content)
		case r.DropContent:
			p.tx.Exec("DELETE FROM content WHERE resource_id = ?", p.ids[i])
		}
	}
}
