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
	// probeSize is how many URIs are looked up one by one to learn whether they are in id order;
	// chunkSize is how many where they are not.
	probeSize, chunkSize = 8, 100
	// rangeSlack is how many unwanted rows a range read may cross.
	rangeSlack = 64
)

const lookupRows = "SELECT " + resourceColumns + ", " + wantColumns +
	" FROM resource r LEFT JOIN want w ON w.set_id = ? AND w.resource_id = r.id WHERE "

// Lookup implements store.Resources. A list is usually read in the order in which its rows were
// inserted, so their ids follow one another: after a probe one ordered read of the table answers
// the rest, which is cheaper than lookups.
func (s *Store) Lookup(ctx context.Context, sourceID, setID int64, uris []string) ([]*store.Resource, error) {
	l := &lookup{sourceID: sourceID, setID: setID, uris: uris, at: make(map[string]int, len(uris))}
	l.found = make([]*store.Resource, len(uris))
	l.asked = make([]bool, len(uris))
	for i, u := range uris {
		if _, again := l.at[u]; !again {
			l.at[u] = i
		}
	}
	if err := s.db.ReadFew(ctx, "look resources up", len(uris) <= probeSize, l.run); err != nil {
		return nil, err
	}
	for i, u := range uris {
		l.found[i] = l.found[l.at[u]] // a URI may occur twice
	}
	return l.found, nil
}

type lookup struct {
	r               *dbfile.Session
	sourceID, setID int64
	uris            []string
	at              map[string]int // first index of each URI
	found           []*store.Resource
	asked           []bool // known to be found or not

	row resourceRow
}

func (l *lookup) run(r *dbfile.Session) {
	l.r = r
	// Range reads go on while they pay; a re-ordered or new list ends that after one probe.
	for next, ordered := 0, true; ordered; {
		probe := l.unanswered(&next, probeSize)
		if len(probe) == 0 {
			return
		}
		last := l.byURI(probe)
		ordered = last > 0 && l.byRange(last, len(l.uris)-next)
	}
	next := 0
	rest := l.unanswered(&next, len(l.uris))
	// In the order of the index, so that neighbours share its pages.
	slices.SortFunc(rest, func(a, b int) int { return strings.Compare(l.uris[a], l.uris[b]) })
	for chunk := range slices.Chunk(rest, chunkSize) {
		if anyIn(r, anyURI, l.sourceID, len(chunk), l.uris[chunk[0]], l.uris[chunk[len(chunk)-1]]) {
			l.byURI(chunk)
		}
	}
}

const anyURI = "SELECT 1 FROM resource WHERE source_id = ? AND uri BETWEEN ? AND ? LIMIT 1"

// anyIn reports whether there may be rows in the range of n strings, from first to last. A new list
// in the order of its URIs meets an empty range in each chunk, which saves all look-ups.
func anyIn(r *dbfile.Session, query string, sourceID int64, n int, first, last string) bool {
	return n < chunkSize || r.Has(query, sourceID, first, last)
}

// unanswered returns up to n URIs from next on that were not looked up yet.
func (l *lookup) unanswered(next *int, n int) []int {
	var out []int
	for ; *next < len(l.uris) && len(out) < n; *next++ {
		if i := *next; !l.asked[i] && l.at[l.uris[i]] == i {
			out = append(out, i)
		}
	}
	return out
}

// byURI looks these up, and returns the id of the last of them, 0 if the ids of those found do not
// rise with the list.
func (l *lookup) byURI(which []int) (last int64) {
	size := chunkSize
	if len(which) <= probeSize {
		size = probeSize
	}
	args := make([]any, 0, 2+size)
	args = append(args, l.setID, l.sourceID)
	for _, i := range which {
		args = append(args, l.uris[i])
		l.asked[i] = true
	}
	for len(args) < 2+size { // one statement for all lengths
		args = append(args, l.uris[which[0]])
	}
	l.take(lookupRows+"r.source_id = ? AND r.uri IN ("+placeholders(size)+")", args...)
	for _, i := range which {
		if r := l.found[i]; r != nil {
			if r.ID < last {
				return 0
			}
			last = r.ID
		}
	}
	return last
}

// byRange reads the rows behind an id and reports whether enough of them were wanted to do so again.
func (l *lookup) byRange(after int64, open int) bool {
	if open == 0 {
		return true
	}
	_, to := idRange(l.sourceID)
	hits := l.take(lookupRows+"r.id > ? AND r.id < ? ORDER BY r.id LIMIT ?", l.setID, after, to, open+rangeSlack)
	return !l.r.Failed() && hits >= open/2
}

// take keeps the wanted rows and returns their number.
func (l *lookup) take(query string, args ...any) (hits int) {
	for rows := range l.r.Rows(query, args...) {
		l.r.Fail(l.row.scan(rows))
		i, wanted := l.at[l.row.res.URI]
		if !wanted {
			continue
		}
		hits++
		l.asked[i] = true
		if l.found[i] != nil {
			continue
		}
		r := l.row.res
		r.URI = l.uris[i] // the caller's copy, so that the row's can be freed
		if l.row.setID.Valid {
			l.row.want.SetID = l.setID
			r.Wants = []store.Want{l.row.want}
		}
		l.found[i] = &r
	}
	return hits
}

// byName selects by a resource's name; it has the form of the index resource_name.
const byName = "r.source_id = ? AND r.key <> '' AND coalesce(r.name, r.key) "

const (
	anyFile   = "SELECT 1 FROM resource r WHERE " + byName + "BETWEEN ? AND ? LIMIT 1"
	anyFolder = "SELECT 1 FROM folder WHERE source_id = ? AND name BETWEEN ? AND ? LIMIT 1"
)

// Names implements store.Resources. Names are looked up as folders first, because a folder is no file.
func (s *Store) Names(ctx context.Context, sourceID int64, names []string) ([]store.NameUse, error) {
	r := s.db.Read(ctx, "look names up")
	sorted := slices.Compact(slices.Sorted(slices.Values(names)))
	known := map[string]store.NameUse{}
	add := func(use store.NameUse, some, query string) {
		for chunk := range slices.Chunk(sorted, chunkSize) {
			if !anyIn(r, some, sourceID, len(chunk), chunk[0], chunk[len(chunk)-1]) {
				continue
			}
			for _, name := range anyOf(r, textField, query, sourceID, chunk) {
				known[name] = use
			}
		}
	}
	add(store.NameFolder, anyFolder, "SELECT name FROM folder WHERE source_id = ? AND name IN ")
	sorted = slices.DeleteFunc(sorted, func(name string) bool { return known[name] == store.NameFolder })
	add(store.NameFile, anyFile, "SELECT coalesce(r.name, r.key) FROM resource r WHERE "+byName+"IN ")
	uses := make([]store.NameUse, len(names))
	for i, name := range names {
		uses[i] = known[name]
	}
	return uses, r.Err()
}

// ByKeys implements store.Resources.
func (s *Store) ByKeys(ctx context.Context, sourceID int64, names []string) ([]*store.Resource, error) {
	r := s.db.Read(ctx, "look files up")
	out := make([]*store.Resource, len(names))
	at := positions(names)
	type named struct {
		id   int64
		name string
	}
	byID := make(map[int64]string, len(names))
	for chunk := range slices.Chunk(slices.Sorted(maps.Keys(at)), chunkSize) {
		for _, n := range anyOf(r, func(n *named) []any { return []any{&n.id, &n.name} },
			"SELECT r.id, coalesce(r.name, r.key) FROM resource r WHERE "+byName+"IN ", sourceID, chunk) {
			byID[n.id] = n.name
		}
	}
	for _, found := range byIDs(r, slices.Collect(maps.Keys(byID))) {
		for _, i := range at[byID[found.ID]] {
			out[i] = found
		}
	}
	return out, r.Err()
}

func positions(list []string) map[string][]int {
	at := make(map[string][]int, len(list))
	for i, v := range list {
		at[v] = append(at[v], i)
	}
	return at
}

// anyOf reads the rows of a query for a Source and up to chunkSize strings, whose list ends it. The list is filled up,
// so that few statements serve all lengths.
func anyOf[T any](r *dbfile.Session, fields func(*T) []any, query string, sourceID int64, chunk []string) []T {
	size := chunkSize
	if len(chunk) == 1 {
		size = 1
	}
	args := make([]any, 1+size)
	args[0] = sourceID
	for i := range size {
		args[1+i] = chunk[0]
		if i < len(chunk) {
			args[1+i] = chunk[i]
		}
	}
	return dbfile.All(r, fields, query+"("+placeholders(size)+")", args...)
}

func textField(text *string) []any { return []any{text} }

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
