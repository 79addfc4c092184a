package sqlite

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"resyncd/store"
)

// named selects by a resource's name; it has the form of the index resource_name.
const named = "r.source_id = ? AND r.key <> '' AND coalesce(r.name, r.key) "

const (
	anyFile   = "SELECT 1 FROM resource r WHERE " + named + "BETWEEN ? AND ? LIMIT 1"
	anyFolder = "SELECT 1 FROM folder WHERE source_id = ? AND name BETWEEN ? AND ? LIMIT 1"
)

// Names implements store.Resources.
func (s *Store) Names(ctx context.Context, sourceID int64, names []string) ([]store.NameUse, error) {
	const what = "look names up"
	sorted := slices.Clone(names)
	slices.Sort(sorted)
	sorted = slices.Compact(sorted)
	files, err := s.byName(ctx, sourceID, sorted, anyFile, "SELECT coalesce(r.name, r.key) FROM resource r WHERE "+named+"IN ")
	if err != nil {
		return nil, s.fail(what, err)
	}
	folders, err := s.byName(ctx, sourceID, sorted, anyFolder, "SELECT name FROM folder WHERE source_id = ? AND name IN ")
	if err != nil {
		return nil, s.fail(what, err)
	}
	uses := make([]store.NameUse, len(names))
	if len(files)+len(folders) == 0 {
		return uses, nil
	}
	for i, name := range names {
		if _, is := files[name]; is {
			uses[i] = store.NameFile
		}
		if _, is := folders[name]; is {
			uses[i] = store.NameFolder
		}
	}
	return uses, nil
}

// byName are those of the sorted names that the query knows; some tells whether it knows any in a range.
func (s *Store) byName(ctx context.Context, sourceID int64, sorted []string, some, query string) (map[string]struct{}, error) {
	known := map[string]struct{}{}
	query += "(" + marks(chunkSize) + ")"
	for chunk := range slices.Chunk(sorted, chunkSize) {
		may, err := anyIn(ctx, s.r, some, sourceID, len(chunk), chunk[0], chunk[len(chunk)-1])
		if err != nil {
			return nil, err
		}
		if !may {
			continue
		}
		rows, err := s.r.query(ctx, query, listArgs(sourceID, chunk)...)
		if err != nil {
			return nil, err
		}
		found, err := collect(rows, func(row rowScanner) (name string, err error) { return name, row.Scan(&name) })
		if err != nil {
			return nil, err
		}
		for _, name := range found {
			known[name] = struct{}{}
		}
	}
	return known, nil
}

// ByKeys implements store.Resources.
func (s *Store) ByKeys(ctx context.Context, sourceID int64, names []string) ([]*store.Resource, error) {
	const what = "look files up"
	out := make([]*store.Resource, len(names))
	ids := make([]int64, 0, len(names))
	at := places(names)
	byID := make(map[int64]string, len(names))
	for chunk := range slices.Chunk(slices.Sorted(maps.Keys(at)), chunkSize) {
		rows, err := s.r.query(ctx, "SELECT r.id, coalesce(r.name, r.key) FROM resource r WHERE "+named+"IN ("+marks(chunkSize)+")",
			listArgs(sourceID, chunk)...)
		if err != nil {
			return nil, s.fail(what, err)
		}
		found, err := collect(rows, func(row rowScanner) (id int64, err error) {
			var name string
			err = row.Scan(&id, &name)
			byID[id] = name
			return id, err
		})
		if err != nil {
			return nil, s.fail(what, err)
		}
		ids = append(ids, found...)
	}
	resources, err := s.ByIDs(ctx, ids)
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

// places tells where each of the strings stands in the list.
func places(list []string) map[string][]int {
	at := make(map[string][]int, len(list))
	for i, v := range list {
		at[v] = append(at[v], i)
	}
	return at
}

// listArgs are the arguments of a statement for chunkSize strings, filled up with the first.
func listArgs(sourceID int64, chunk []string) []any {
	args := make([]any, 0, 1+chunkSize)
	args = append(args, sourceID)
	for _, v := range chunk {
		args = append(args, v)
	}
	for len(args) < 1+chunkSize {
		args = append(args, chunk[0])
	}
	return args
}

// folderCache remembers folders that are recorded, so that the next file in one costs nothing. It holds the last few
// thousand: when one half is full, the other is forgotten.
type folderCache struct {
	mu       sync.Mutex
	now, old map[folderName]struct{}
}

type folderName struct {
	sourceID int64
	name     string
}

const folderCacheHalf = 2048

func (c *folderCache) has(f folderName) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.now[f]; ok {
		return true
	}
	_, ok := c.old[f]
	return ok
}

func (c *folderCache) add(fs []folderName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range fs {
		if c.now == nil || len(c.now) >= folderCacheHalf {
			c.old, c.now = c.now, make(map[folderName]struct{}, folderCacheHalf)
		}
		c.now[f] = struct{}{}
	}
}

// parent is the folder of a name, "" at the top.
func parent(name string) string {
	return name[:max(strings.LastIndexByte(name, '/'), 0)]
}
