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

func parent(name string) string {
	return name[:max(strings.LastIndexByte(name, '/'), 0)]
}
