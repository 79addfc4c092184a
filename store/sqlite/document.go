package sqlite

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"resyncd/store"
	"resyncd/store/sqlite/column"
	"resyncd/store/sqlite/dbfile"
)

// documentColumns are those of documentFields, which begin with saidColumns: what reading a document changes.
const (
	documentColumns = saidColumns + ", id, source_id, url"
	saidColumns     = "set_id, kind, etag, last_modified, at, v_from, v_until, last_entry, entries, complete, body, " +
		"read"
	saidFields = 12
)

func documentFields(d *store.Document) []any {
	return []any{&d.SetID, &d.Kind, &d.ETag, &d.LastModified, column.InstantAt(&d.At), column.InstantAt(&d.From),
		column.InstantAt(&d.Until), column.InstantAt(&d.LastEntry), &d.Entries, &d.Complete, &d.Body,
		column.InstantAt(&d.Read), &d.ID, &d.SourceID, &d.URL}
}

// EnsureDocument implements store.Documents.
func (s *Store) EnsureDocument(ctx context.Context, c store.Claim, setID int64, url,
	kind string) (id int64, err error) {
	const (
		what = "record a document"
		find = "SELECT id FROM document WHERE source_id = ? AND url = ?"
	)
	if s.db.Writable() && s.held(c) { // the usual case writes nothing; the next commit finds a lost claim
		if s.db.Read(ctx, what).Get(find, []any{c.SourceID, url}, &id) {
			return id, nil
		}
	}
	err = s.fenced(ctx, what, c, func(tx *dbfile.Session) {
		tx.Repeatable()
		if setID != 0 {
			owned(tx, c, setID)
		}
		tx.Exec(`INSERT INTO document (source_id, set_id, url, kind) VALUES (?, ?, ?, ?)
			ON CONFLICT (source_id, url) DO NOTHING`, c.SourceID, setID, url, kind)
		id = dbfile.One(tx, idField, find, c.SourceID, url)
	})
	return id, err
}

// Document implements store.Documents.
func (s *Store) Document(ctx context.Context, sourceID int64, url string) (store.Document, error) {
	return s.document(ctx, "source_id = ? AND url = ?", sourceID, url)
}

// DocumentByID implements store.Documents.
func (s *Store) DocumentByID(ctx context.Context, id int64) (store.Document, error) {
	return s.document(ctx, "id = ?", id)
}

func (s *Store) document(ctx context.Context, where string, args ...any) (store.Document, error) {
	r := s.db.Read(ctx, "read a document's record")
	return dbfile.One(r, documentFields, "SELECT "+documentColumns+" FROM document WHERE "+where, args...), r.Err()
}

// putDocument records a document, found by its id or its URL.
func putDocument(tx *dbfile.Session, sourceID int64, d *store.Document) {
	values := documentFields(d)[:saidFields]
	if len(d.Body) == 0 {
		values[10] = nil
	}
	if d.ID == 0 {
		tx.Exec(insertInto("document", saidColumns+", source_id, url")+
			" ON CONFLICT (source_id, url) DO UPDATE SET ("+saidColumns+") = (excluded."+
			strings.ReplaceAll(saidColumns, ", ", ", excluded.")+")", append(values, sourceID, d.URL)...)
		return
	}
	if tx.Exec(update("document", saidColumns)+"source_id = ? AND id = ?", append(values, sourceID, d.ID)...) == 0 {
		tx.Fail(fmt.Errorf("document %d: %w", d.ID, store.ErrNotFound))
	}
}

// withDocuments are the Sources with more than so many documents.
const withDocuments = `SELECT c.id FROM source c WHERE
	(SELECT d.source_id FROM document d WHERE d.source_id = c.id LIMIT 1 OFFSET ?) IS NOT NULL`

const unusedMost = 20_000

// unusedDocuments finds records of documents beyond the newest of a Source that nothing refers to: a Source could
// make them without end by renaming its lists. The search reads everything that could refer to one, so it waits until
// there are twice as many as are kept, or as the last search left.
func (s *Store) unusedDocuments(r *dbfile.Session) (ids []int64) {
	for _, source := range dbfile.All(r, idField, withDocuments, 2*keepDocuments) {
		n := dbfile.One(r, idField, "SELECT count(*) FROM document WHERE source_id = ?", source)
		if above, searched := s.searchAbove.Load(source); searched && n < above.(int64) {
			continue
		}
		ids = unreferenced(r, source)
		if r.Failed() {
			return nil
		}
		if len(ids) > unusedMost {
			return ids[:unusedMost]
		}
		s.searchAbove.Store(source, 2*(n-int64(len(ids))))
		if len(ids) > 0 {
			return ids
		}
	}
	return nil
}

// unreferenced lists the documents of a Source that no want, file, event or span refers to, except
// the newest and those of its sets.
func unreferenced(r *dbfile.Session, source int64) []int64 {
	found := dbfile.All(r, idField, `SELECT id FROM document d WHERE source_id = ?1 AND set_id <> 0
		AND id < (SELECT id FROM document WHERE source_id = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)
		AND coalesce(read, 0) <
			(SELECT coalesce(read, 0) FROM document WHERE source_id = ?1 ORDER BY 1 DESC LIMIT 1 OFFSET ?2)
		AND NOT EXISTS (SELECT 1 FROM sets t WHERE t.source_id = ?1 AND t.capability_list = d.url)
		AND url NOT IN (SELECT p.document FROM sets t CROSS JOIN span p ON p.set_id = t.id WHERE t.source_id = ?1)
		AND id NOT IN (SELECT document FROM event WHERE source_id = ?1) ORDER BY id`, source, keepDocuments-1)
	if len(found) == 0 {
		return nil
	}
	referred := map[int64]bool{}
	from, to := idRange(source)
	var x resourceRow
	for rows := range r.Rows("SELECT "+resourceColumns+", "+wantColumns+" FROM resource r"+allWants+
		" WHERE r.id >= ?2 AND r.id < ?3", source, from, to) {
		r.Fail(x.scan(rows))
		for w := &x.want; w != nil; w = w.Listed {
			referred[w.Version.Document] = true
		}
		referred[x.res.Have.Version.Document] = true
	}
	return slices.DeleteFunc(found, func(id int64) bool { return referred[id] })
}

const editColumns = "source_id, uri, digest, observed, author, received, evidence, body"

func editFields(e *store.Edit) []any {
	return []any{&e.SourceID, &e.URI, column.DigestAt(&e.Digest), column.InstantAt(&e.Observed), &e.Author,
		column.InstantAt(&e.Received), &e.Evidence, &e.Body}
}

// Edits implements store.Ledger.
func (s *Store) Edits(ctx context.Context, sourceID int64, uri string) ([]store.Edit, error) {
	found, err := s.EditsOf(ctx, sourceID, []string{uri})
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

// EditsOf implements store.Ledger.
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

// Content implements store.Resources.
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
