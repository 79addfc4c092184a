package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"resyncd/store"
	"resyncd/store/sqlite/dbfile"
)

const (
	// findRows is how many URIs one search reads at most, findPage how many a statement: a long
	// read keeps the log from being folded in.
	findRows, findPage = 200_000, 20_000
	// findText is the longest text searched inside URIs; SQLite takes patterns of 50,000 bytes.
	findText = 10_000
)

// Find implements store.Chronicle. Equal URIs and prefixes are found by an index, so in a Source of any size.
func (s *Store) Find(ctx context.Context, sourceID int64, text string, limit int) ([]*store.Resource, bool, error) {
	const what = "look for resources"
	if limit <= 0 {
		return nil, false, nil
	}
	limit = min(limit, findRows)
	f := &finder{s: s, source: sourceID, most: limit + 1, rows: findRows} // one more shows whether that was all
	complete, err := f.run(ctx, text)
	if err != nil {
		return nil, false, s.db.Fail(what, err)
	}
	if len(f.ids) > limit {
		f.ids, complete = f.ids[:limit], false
	}
	found, err := s.ByIDs(ctx, f.ids)
	if err != nil {
		return nil, false, err
	}
	place := make(map[int64]int, len(f.ids))
	for i, id := range f.ids {
		place[id] = i
	}
	slices.SortFunc(found, func(a, b *store.Resource) int { return place[a.ID] - place[b.ID] })
	return found, complete, nil
}

type finder struct {
	s      *Store
	source int64
	most   int     // ids to find
	rows   int     // URIs to read
	ids    []int64 // in the order of the answer
	found  map[int64]bool
}

func (f *finder) add(ctx context.Context, query string, args ...any) (enough bool, err error) {
	ids, err := dbfile.All(ctx, f.s.db, idField, query, args...)
	if err != nil {
		return false, err
	}
	if f.found == nil {
		f.found = make(map[int64]bool, len(ids))
	}
	for _, id := range ids {
		if len(f.ids) < f.most && !f.found[id] {
			f.ids, f.found[id] = append(f.ids, id), true
		}
	}
	return len(f.ids) >= f.most, nil
}

// run reports whether all rows were read.
func (f *finder) run(ctx context.Context, text string) (complete bool, err error) {
	// The text itself is the first with it as prefix.
	enough, err := f.add(ctx, `SELECT id FROM resource WHERE source_id = ? AND uri >= ? AND uri < ?
		ORDER BY uri LIMIT ?`,
		f.source, text, prefixEnd(text), f.most)
	switch {
	case err != nil || enough:
		return false, err
	case text == "" || strings.ContainsRune(text, 0): // every URI has the first as prefix, none contains NUL
		return true, nil
	case len(text) > findText:
		return false, nil
	}
	return f.inside(ctx, likeAny(text))
}

// inside searches the URIs, page by page in their order.
func (f *finder) inside(ctx context.Context, pattern string) (complete bool, err error) {
	for after, seen := "", 0; seen < f.rows && !complete; seen += f.s.limits.page {
		var to string
		var end any
		err := f.s.db.Get(ctx, "SELECT uri FROM resource WHERE source_id = ? AND uri > ? ORDER BY uri LIMIT 1 OFFSET ?",
			[]any{f.source, after, f.s.limits.page - 1}, &to)
		end = to
		if errors.Is(err, sql.ErrNoRows) {
			complete, end, err = true, afterAllText(), nil
		}
		if err != nil {
			return false, err
		}
		enough, err := f.add(ctx,
			`SELECT id FROM resource WHERE source_id = ? AND uri > ? AND uri <= ? AND uri LIKE ? ESCAPE '\'
				ORDER BY uri LIMIT ?`,
			f.source, after, end, pattern, f.most)
		if err != nil || enough {
			return false, err
		}
		after = to
	}
	return complete, nil
}

// afterAllText is an argument that sorts behind all texts: SQLite sorts any blob there.
func afterAllText() any { return []byte{0xff} }

// prefixEnd is the first text behind all with that prefix.
func prefixEnd(prefix string) any {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] < 0xff {
			return prefix[:i] + string([]byte{prefix[i] + 1})
		}
	}
	return afterAllText()
}

// likeAny is a LIKE pattern for text anywhere, in any ASCII letter case.
func likeAny(text string) string {
	return "%" + strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(text) + "%"
}

// Scan implements store.Resources.
func (s *Store) Scan(ctx context.Context, q store.ScanQuery) ([]*store.Resource, error) {
	const what = "list resources"
	switch q.Filter {
	case store.FilterAll:
		return s.scanRows(ctx, what, q, "")
	case store.FilterMirrored:
		return s.scanRows(ctx, what, q, " AND r.have <> 0")
	case store.FilterPushed:
		if q.SetID == 0 {
			return nil, fmt.Errorf("%s: pushed wants are those of a set, and none is given", what)
		}
		if s.lacks(schemaPush) {
			return nil, nil
		}
		fallthrough
	case store.FilterOwed, store.FilterHeld, store.FilterRefused, store.FilterAbsent:
		ids, err := s.scanIDs(ctx, q)
		if err != nil {
			return nil, s.db.Fail(what, err)
		}
		return s.ByIDs(ctx, ids)
	}
	return nil, fmt.Errorf("%s: unknown filter %d", what, q.Filter)
}

// scanRows reads the filters that most resources match.
func (s *Store) scanRows(ctx context.Context, what string, q store.ScanQuery,
	filter string) ([]*store.Resource, error) {
	from, to := idRange(q.SourceID)
	after := max(q.After, from-1)
	if q.SetID == 0 {
		return s.resources(ctx, what, q.SourceID, "resource r", "r.id > ? AND r.id < ?"+filter+" ORDER BY r.id",
			q.Limit, after, to)
	}
	return s.resources(ctx, what, q.SourceID, "want x CROSS JOIN resource r ON r.id = x.resource_id",
		"x.set_id = ? AND x.resource_id > ? AND x.resource_id < ?"+filter+" ORDER BY x.resource_id", q.Limit, q.SetID,
		after, to)
}

// scanIDs finds the next rows of the filters that few resources match, each in a partial index of only those.
func (s *Store) scanIDs(ctx context.Context, q store.ScanQuery) ([]int64, error) {
	from, to := idRange(q.SourceID)
	after := max(q.After, from-1)
	var ids []int64
	add := func(query string, args ...any) error {
		more, err := dbfile.All(ctx, s.db, idField, query, args...)
		ids = append(ids, more...)
		return err
	}
	if q.Filter == store.FilterOwed {
		for _, a := range []struct {
			action store.Action
			states string
		}{{store.ActionFetch, "(1, 3)"}, {store.ActionRemove, "(2)"}} {
			for _, owed := range []string{neverFailed, failedBefore} {
				query := "SELECT r.id FROM resource r WHERE " + owed + "?4"
				if q.SetID != 0 {
					query = `SELECT r.id FROM resource r
						CROSS JOIN want w ON w.set_id = ?1 AND w.resource_id = r.id WHERE ` + owed +
						"?4 AND w.state IN " + a.states
				}
				if err := add(query+" ORDER BY r.id LIMIT ?5", q.SetID, after, to, int64(a.action),
					q.Limit); err != nil {
					return nil, err
				}
			}
		}
	} else {
		table, filter := "want INDEXED BY want_held", "held <> 0"
		switch q.Filter {
		case store.FilterRefused:
			table, filter = "want INDEXED BY want_refused", "refused IS NOT NULL"
		case store.FilterPushed:
			table, filter = "want INDEXED BY want_pushed", "pushed <> 0"
		case store.FilterAbsent:
			table, filter = "want INDEXED BY want_absent", "state = 2"
		}
		sets, err := s.setIDs(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, set := range sets {
			err := add("SELECT resource_id FROM "+table+
				" WHERE set_id = ? AND resource_id > ? AND resource_id < ? AND "+filter+
				" ORDER BY resource_id LIMIT ?", set, after, to, q.Limit)
			if err != nil {
				return nil, err
			}
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	return ids[:min(len(ids), max(q.Limit, 0))], nil
}

func (s *Store) setIDs(ctx context.Context, q store.ScanQuery) ([]int64, error) {
	if q.SetID != 0 {
		return []int64{q.SetID}, nil
	}
	return dbfile.All(ctx, s.db, idField, "SELECT id FROM sets WHERE source_id = ?", q.SourceID)
}
