package sqlite

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
	r := s.db.Read(ctx, "look for resources")
	if limit <= 0 {
		return nil, false, nil
	}
	limit = min(limit, findRows)
	f := &finder{r, sourceID, limit + 1, findRows, s.limits.page, map[int64]int{}}
	complete := f.run(text)
	found := byIDs(r, slices.Collect(maps.Keys(f.place)))
	slices.SortFunc(found, func(a, b *store.Resource) int { return f.place[a.ID] - f.place[b.ID] })
	return found[:min(len(found), limit)], complete, r.Err()
}

type finder struct {
	r      *dbfile.Session
	source int64
	most   int           // ids to find: one more than asked for shows whether that was all
	rows   int           // URIs to read
	page   int           // of those with one statement
	place  map[int64]int // of what was found, in the answer
}

func (f *finder) add(query string, args ...any) (enough bool) {
	for _, id := range dbfile.All(f.r, idField, query, args...) {
		if _, again := f.place[id]; !again && len(f.place) < f.most {
			f.place[id] = len(f.place)
		}
	}
	return f.r.Failed() || len(f.place) >= f.most
}

// run reports whether all rows were read.
func (f *finder) run(text string) (complete bool) {
	// The text itself is the first with it as prefix.
	enough := f.add("SELECT id FROM resource WHERE source_id = ? AND uri >= ? AND uri < ? ORDER BY uri LIMIT ?",
		f.source, text, prefixEnd(text), f.most)
	switch {
	case enough:
		return false
	case text == "" || strings.ContainsRune(text, 0): // every URI has the first as prefix, none contains NUL
		return true
	case len(text) > findText:
		return false
	}
	return f.inside(likeAny(text))
}

// inside searches the URIs, page by page in their order.
func (f *finder) inside(pattern string) (complete bool) {
	for after, seen := "", 0; seen < f.rows; seen += f.page {
		var to string
		more := f.r.Get("SELECT uri FROM resource WHERE source_id = ? AND uri > ? ORDER BY uri LIMIT 1 OFFSET ?",
			[]any{f.source, after, f.page - 1}, &to)
		end := any(to)
		if !more {
			end = afterAllText()
		}
		enough := f.add(`SELECT id FROM resource WHERE source_id = ? AND uri > ? AND uri <= ? AND uri LIKE ? ESCAPE '\'
			ORDER BY uri LIMIT ?`, f.source, after, end, pattern, f.most)
		if enough || !more {
			return !enough
		}
		after = to
	}
	return false
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
	r := s.db.Read(ctx, "list resources")
	from, to := idRange(q.SourceID)
	after := max(q.After, from-1)
	filter := ""
	switch q.Filter {
	case store.FilterMirrored:
		filter = " AND r.have <> 0"
		fallthrough
	case store.FilterAll:
		if q.SetID == 0 {
			return resources(r, q.SourceID, "resource r", "r.id > ? AND r.id < ?"+filter+" ORDER BY r.id", q.Limit,
				after, to), r.Err()
		}
		return resources(r, q.SourceID, "want x CROSS JOIN resource r ON r.id = x.resource_id",
			"x.set_id = ? AND x.resource_id > ? AND x.resource_id < ?"+filter+" ORDER BY x.resource_id", q.Limit,
			q.SetID, after, to), r.Err()
	case store.FilterOwed:
		return byIDs(r, owedIDs(r, q, after, to)), r.Err()
	case store.FilterPushed:
		if q.SetID == 0 {
			r.Fail(errors.New("pushed wants are those of a set, and none is given"))
		}
		filter = "want_pushed WHERE pushed <> 0"
	case store.FilterHeld:
		filter = "want_held WHERE held <> 0"
	case store.FilterRefused:
		filter = "want_refused WHERE refused IS NOT NULL"
	case store.FilterAbsent:
		filter = "want_absent WHERE state = 2"
	default:
		r.Fail(fmt.Errorf("unknown filter %d", q.Filter))
	}
	// Few wants match, each filter with a partial index of only those.
	var ids []int64
	for _, set := range setIDs(r, q) {
		ids = append(ids, dbfile.All(r, idField, "SELECT resource_id FROM want INDEXED BY "+filter+
			" AND set_id = ? AND resource_id > ? AND resource_id < ? ORDER BY resource_id LIMIT ?", set, after, to,
			q.Limit)...)
	}
	return byIDs(r, firstIDs(ids, q.Limit)), r.Err()
}

// owedIDs finds the next of work, as Counts counts it.
func owedIDs(r *dbfile.Session, q store.ScanQuery, after, to int64) (ids []int64) {
	for _, a := range []struct {
		action store.Action
		states string
	}{{store.ActionFetch, "(1, 3)"}, {store.ActionRemove, "(2)"}} {
		for _, owed := range []string{neverFailed, failedBefore} {
			query := "SELECT r.id FROM resource r WHERE " + owed + "?4"
			if q.SetID != 0 {
				query = `SELECT r.id FROM resource r CROSS JOIN want w ON w.set_id = ?1 AND w.resource_id = r.id
					WHERE ` + owed + "?4 AND w.state IN " + a.states
			}
			ids = append(ids, dbfile.All(r, idField, query+" ORDER BY r.id LIMIT ?5", q.SetID, after, to,
				int64(a.action), q.Limit)...)
		}
	}
	return firstIDs(ids, q.Limit)
}

func firstIDs(ids []int64, limit int) []int64 {
	slices.Sort(ids)
	ids = slices.Compact(ids)
	return ids[:min(len(ids), max(limit, 0))]
}

func setIDs(r *dbfile.Session, q store.ScanQuery) []int64 {
	if q.SetID != 0 {
		return []int64{q.SetID}
	}
	return dbfile.All(r, idField, "SELECT id FROM sets WHERE source_id = ?", q.SourceID)
}
