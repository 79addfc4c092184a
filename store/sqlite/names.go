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

// Names implements store.Resources. The folders above a used name are recorded (commit.addFolders),
// so nothing is below an unknown folder: names are looked up from the top of the tree down, and
// only below folders. Callers pass files of a deep tree with all their folders, most of which are
// new.
func (s *Store) Names(ctx context.Context, sourceID int64, names []string) ([]store.NameUse, error) {
	l := nameLookup{s: s, source: sourceID, sorted: slices.Clone(names), files: map[string]struct{}{},
		folders: map[string]struct{}{}}
	slices.Sort(l.sorted)
	l.sorted = slices.Compact(l.sorted)
	if err := l.run(ctx); err != nil {
		return nil, s.db.Fail("look names up", err)
	}
	uses := make([]store.NameUse, len(names))
	if len(l.files)+len(l.folders) == 0 {
		return uses, nil
	}
	for i, name := range names {
		if _, is := l.folders[name]; is {
			uses[i] = store.NameFolder
		} else if _, is := l.files[name]; is {
			uses[i] = store.NameFile
		}
	}
	return uses, nil
}

type nameLookup struct {
	s              *Store
	source         int64
	sorted         []string // all names
	files, folders map[string]struct{}
}

func (l *nameLookup) run(ctx context.Context) error {
	var levels [][]string // the names by their depth, sorted
	for _, name := range l.sorted {
		depth := strings.Count(name, "/")
		for len(levels) <= depth {
			levels = append(levels, nil)
		}
		levels[depth] = append(levels[depth], name)
	}
	var pending, above []string // what is to be looked up, and the part one level up
	for _, level := range levels {
		folder, open := "", true
		first := len(pending)
		for _, name := range level {
			if up := parent(name); up != folder {
				folder, open = up, l.mayBeFolder(up, above)
			}
			if open {
				pending = append(pending, name)
			}
		}
		above = pending[first:]
		if len(pending) >= chunkSize { // as many as one statement looks up
			if err := l.ask(ctx, pending); err != nil {
				return err
			}
			pending, above = nil, nil
		}
	}
	return l.ask(ctx, pending)
}

// mayBeFolder reports whether a folder is one, or is not known yet.
func (l *nameLookup) mayBeFolder(folder string, above []string) bool {
	if _, is := l.folders[folder]; is {
		return true
	}
	if _, waits := slices.BinarySearch(above, folder); waits {
		return true
	}
	_, asked := slices.BinarySearch(l.sorted, folder)
	return !asked
}

// ask looks names up, as folders first, because a folder is no file.
func (l *nameLookup) ask(ctx context.Context, names []string) error {
	slices.Sort(names)
	err := l.s.byName(ctx, l.source, names, l.folders, anyFolder,
		"SELECT name FROM folder WHERE source_id = ? AND name IN ")
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool { _, is := l.folders[name]; return is })
	return l.s.byName(ctx, l.source, names, l.files, anyFile, "SELECT coalesce(r.name, r.key) FROM resource r WHERE "+
		named+"IN ")
}

// byName adds to known those of the sorted names that the query finds; the query some reports
// whether there are any in a range.
func (s *Store) byName(ctx context.Context, sourceID int64, sorted []string, known map[string]struct{}, some,
	query string) error {
	query += "(" + placeholders(chunkSize) + ")"
	for chunk := range slices.Chunk(sorted, chunkSize) {
		may, err := anyIn(ctx, s.db, some, sourceID, len(chunk), chunk[0], chunk[len(chunk)-1])
		if err != nil {
			return err
		}
		if !may {
			continue
		}
		rows, err := s.db.Query(ctx, query, listArgs(sourceID, chunk)...)
		if err != nil {
			return err
		}
		found, err := collect(rows, func(row rowScanner) (name string, err error) { return name, row.Scan(&name) })
		if err != nil {
			return err
		}
		for _, name := range found {
			known[name] = struct{}{}
		}
	}
	return nil
}

// ByKeys implements store.Resources.
func (s *Store) ByKeys(ctx context.Context, sourceID int64, names []string) ([]*store.Resource, error) {
	const what = "look files up"
	out := make([]*store.Resource, len(names))
	ids := make([]int64, 0, len(names))
	at := positions(names)
	byID := make(map[int64]string, len(names))
	for chunk := range slices.Chunk(slices.Sorted(maps.Keys(at)), chunkSize) {
		rows, err := s.db.Query(ctx, "SELECT r.id, coalesce(r.name, r.key) FROM resource r WHERE "+named+"IN ("+
			placeholders(chunkSize)+")",
			listArgs(sourceID, chunk)...)
		if err != nil {
			return nil, s.db.Fail(what, err)
		}
		found, err := collect(rows, func(row rowScanner) (id int64, err error) {
			var name string
			err = row.Scan(&id, &name)
			byID[id] = name
			return id, err
		})
		if err != nil {
			return nil, s.db.Fail(what, err)
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

func positions(list []string) map[string][]int {
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

// folderCache remembers recorded folders, so that the next file in one costs nothing. It holds the
// last few thousand: when one half is full, the other is forgotten.
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
