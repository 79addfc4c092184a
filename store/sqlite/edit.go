package sqlite

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"resyncd/store"
)

const (
	editColumns = "source_id, uri, digest, observed, author, received, evidence, body"
	editRow     = "(?, ?, ?, ?, ?, ?, ?, ?)"
	editHead    = "INSERT INTO edit (" + editColumns + ") VALUES "
	editTail    = " ON CONFLICT (source_id, uri, digest) DO NOTHING"
)

func scanEdit(row rowScanner) (e store.Edit, err error) {
	var sum []byte
	err = row.Scan(&e.SourceID, &e.URI, &sum, (*micros)(&e.Observed), &e.Author, (*micros)(&e.Received), &e.Evidence,
		&e.Body)
	if err == nil && copy(e.Digest[:], sum) != len(e.Digest) {
		err = fmt.Errorf("%w: a digest of %d bytes", errPayload, len(sum))
	}
	return e, err
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
		size := chunkSize
		if len(chunk) == 1 {
			size = 1
		}
		rows, err := s.r.query(ctx, "SELECT "+editColumns+" FROM edit WHERE source_id = ? AND uri IN ("+
			placeholders(size)+")",
			listArgs(sourceID, chunk)[:1+size]...)
		if err != nil {
			return nil, s.fail(what, err)
		}
		found, err := collect(rows, scanEdit)
		if err != nil {
			return nil, s.fail(what, err)
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

// edits adds the new ones, rowsAtOnce with a statement.
func (p *commit) edits(ctx context.Context, w *writer) error {
	for rest := p.c.Edits; len(rest) > 0; {
		n := rowsAtOnce
		if len(rest) < n {
			n = 1
		}
		p.args = p.args[:0]
		for i := range rest[:n] {
			e := &rest[i]
			if err := p.checkSource(e.SourceID); err != nil {
				return err
			}
			p.args = append(p.args, p.source, e.URI, e.Digest[:], ms(e.Observed), e.Author, ms(e.Received), e.Evidence,
				bytesOf(e.Body))
		}
		if _, err := w.exec(ctx, editHead+rowsOf(editRow, n)+editTail, p.args...); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}
