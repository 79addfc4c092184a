package sqlite

import (
	"context"
	"maps"
	"slices"
	"strings"

	"resyncd/store"
	"resyncd/store/sqlite/dbfile"
)

// byName selects by a resource's name; it has the form of the index resource_name.
const byName = "r.source_id = ? AND r.key <> '' AND coalesce(r.name, r.key) "

const (
	anyFile   = "SELECT 1 FROM resource r WHERE " + byName + "BETWEEN ? AND ? LIMIT 1"
	anyFolder = "SELECT 1 FROM folder WHERE source_id = ? AND name BETWEEN ? AND ? LIMIT 1"
)

// Names implements store.Resources. Names are looked up as folders first, because a folder is no file.
func (s *Store) Names(ctx context.Context, sourceID int64, names []string) ([]store.NameUse, error) {
	sorted := slices.Compact(slices.Sorted(slices.Values(names)))
	known := map[string]store.NameUse{}
	err := s.addNames(ctx, sourceID, sorted, known, store.NameFolder, anyFolder,
		"SELECT name FROM folder WHERE source_id = ? AND name IN ")
	if err == nil {
		rest := slices.DeleteFunc(sorted, func(name string) bool { return known[name] == store.NameFolder })
		err = s.addNames(ctx, sourceID, rest, known, store.NameFile, anyFile,
			"SELECT coalesce(r.name, r.key) FROM resource r WHERE "+byName+"IN ")
	}
	if err != nil {
		return nil, s.db.Fail("look names up", err)
	}
	uses := make([]store.NameUse, len(names))
	for i, name := range names {
		uses[i] = known[name]
	}
	return uses, nil
}

// addNames adds to known those of the sorted names that the query finds; the query some reports
// whether there are any in a range.
func (s *Store) addNames(ctx context.Context, sourceID int64, sorted []string,
	known map[string]store.NameUse, use store.NameUse, some, query string) error {
	for chunk := range slices.Chunk(sorted, chunkSize) {
		may, err := anyIn(ctx, s.db, some, sourceID, len(chunk), chunk[0], chunk[len(chunk)-1])
		if err != nil {
			return err
		}
		if !may {
			continue
		}
		found, err := anyOf(ctx, s.db, textField, query, sourceID, chunk)
		if err != nil {
			return err
		}
		for _, name := range found {
			known[name] = use
		}
	}
	return nil
}

// ByKeys implements store.Resources.
func (s *Store) ByKeys(ctx context.Context, sourceID int64, names []string) ([]*store.Resource, error) {
	const what = "look files up"
	out := make([]*store.Resource, len(names))
	at := positions(names)
	byID := make(map[int64]string, len(names))
	type named struct {
		id   int64
		name string
	}
	for chunk := range slices.Chunk(slices.Sorted(maps.Keys(at)), chunkSize) {
		found, err := anyOf(ctx, s.db, func(r *named) []any { return []any{&r.id, &r.name} },
			"SELECT r.id, coalesce(r.name, r.key) FROM resource r WHERE "+byName+"IN ", sourceID, chunk)
		if err != nil {
			return nil, s.db.Fail(what, err)
		}
		for _, r := range found {
			byID[r.id] = r.name
		}
	}
	resources, err := s.ByIDs(ctx, slices.Collect(maps.Keys(byID)))
	if err != nil {
		return nil, err
	}
	for _, r := range resources {
		for _, i := range at[byID[r.ID]] {
			out[i] = r
		}
	}
	return out, nil
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
func anyOf[T any](ctx context.Context, from dbfile.Querier, fields func(*T) []any, query string, sourceID int64,
	chunk []string) ([]T, error) {
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
	return dbfile.All(ctx, from, fields, query+"("+placeholders(size)+")", args...)
}

func textField(text *string) []any { return []any{text} }

func parent(name string) string {
	return name[:max(strings.LastIndexByte(name, '/'), 0)]
}
