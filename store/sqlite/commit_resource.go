package sqlite

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"resyncd/store"
	"resyncd/store/sqlite/column"
	"resyncd/store/sqlite/dbfile"
)

// These statements are OR FAIL: by default SQLite copies each page that a statement changes, to undo its first rows
// if a later one fails, which costs much with URIs in random order. Here a failure ends the transaction anyway.
const (
	insertColumns = "id, source_id, uri, key, name, have, length, file, action, due, failure"
	insertTail    = " ON CONFLICT (source_id, uri) DO NOTHING"

	updateRow  = "(?, ?, ?, ?, ?, ?, ?)"
	updateHead = `UPDATE OR FAIL resource SET have = coalesce(v.column2, have), length = coalesce(v.column3, length),
		file = iif(v.column2 IS NULL, file, v.column4), action = coalesce(v.column5, action),
		due = iif(v.column5 IS NULL, due, v.column6), failure = iif(v.column5 IS NULL, failure, v.column7)
		FROM (VALUES `
	updateTail = ") v WHERE resource.id = v.column1"

	putColumns = "set_id, resource_id, state, v_from, v_until, generation, held, refused, said, pushed"
	putTail    = ` ON CONFLICT (set_id, resource_id) DO UPDATE SET state = excluded.state, v_from = excluded.v_from,
		v_until = excluded.v_until, generation = excluded.generation, held = excluded.held, refused = excluded.refused,
		said = excluded.said, pushed = excluded.pushed`
)

// resources inserts and updates resources. It fills p.ids.
func (p *commit) resources() {
	p.ids = make([]int64, len(p.c.Resources))
	var inserts []int
	for i := range p.c.Resources {
		r := &p.c.Resources[i]
		if p.ids[i] = r.ID; r.ID == 0 {
			if r.URI == "" {
				p.tx.Fail(errors.New("a new resource without a URI"))
			}
			inserts = append(inserts, i)
		}
	}
	known := p.insert(inserts)
	from, to := idRange(p.source)
	changed := map[int64]int{}
	var unchanged []int64
	for i := range p.c.Resources {
		r, id := &p.c.Resources[i], p.ids[i]
		if r.ID == 0 && !known[i] {
			p.addFolders(r)
			continue
		}
		if id < from || id >= to {
			p.tx.Fail(fmt.Errorf("resource %d is not of the claimed source: %w", id, store.ErrNotFound))
		}
		if r.Have == nil && r.Work == nil {
			unchanged = append(unchanged, id)
		} else {
			if _, again := changed[id]; again {
				p.update(changed)
			}
			changed[id] = i
		}
		if r.Key != "" && p.tx.Exec("UPDATE resource SET key = ?, name = ? WHERE id = ? AND key = ''", r.Key,
			nameArg(r), id) > 0 {
			p.addFolders(r)
		}
	}
	p.update(changed)
	p.mustExist(unchanged)
}

// update writes the changes of some resources, in the order of their rows, and forgets them.
func (p *commit) update(changed map[int64]int) {
	for ids := range batches(slices.Sorted(maps.Keys(changed))) {
		p.args = p.args[:0]
		for _, id := range ids {
			r := &p.c.Resources[changed[id]]
			p.args = appendWork(appendHave(append(p.args, id), r.Have, nil), r.Work, nil)
		}
		if p.tx.Exec(updateHead+rowsOf(updateRow, len(ids))+updateTail, p.args...) < int64(len(ids)) {
			p.mustExist(ids)
		}
	}
	clear(changed)
}

// mustExist fails unless all of these resources exist: a want must keep its resource.
func (p *commit) mustExist(ids []int64) {
	if len(ids) == 0 {
		return
	}
	missing := dbfile.All(p.tx, idField, `SELECT j.value FROM json_each(?) j
		WHERE NOT EXISTS (SELECT 1 FROM resource r WHERE r.id = j.value)`, column.IDs(ids))
	if len(missing) > 0 {
		p.tx.Fail(fmt.Errorf("resources %d: %w", missing, store.ErrNotFound))
	}
}

// insert adds new resources, with ids in the order given, and returns those that were known
// already. The rows are written in the order of their URIs, which is nearly that of their names: in
// random order each row would touch index pages of its own, and a batch each page several times.
func (p *commit) insert(inserts []int) (known map[int]bool) {
	if len(inserts) == 0 {
		return nil
	}
	from, to := idRange(p.source)
	next := from + p.take("next_resource", len(inserts))
	if next+int64(len(inserts)) > to {
		p.tx.Fail(fmt.Errorf("source %d has had too many resources", p.source))
	}
	for _, i := range inserts {
		p.ids[i] = next
		next++
	}
	slices.SortStableFunc(inserts,
		func(a, b int) int { return strings.Compare(p.c.Resources[a].URI, p.c.Resources[b].URI) })
	known = map[int]bool{}
	for part := range batches(inserts) {
		p.insertRows(part, known)
	}
	return known
}

func (p *commit) insertRows(which []int, known map[int]bool) {
	p.args = p.args[:0]
	for _, i := range which {
		r := &p.c.Resources[i]
		p.args = append(p.args, p.ids[i], p.source, r.URI, r.Key, nameArg(r))
		p.args = appendWork(appendHave(p.args, r.Have, 0), r.Work, 0)
	}
	if p.tx.Exec("INSERT OR FAIL INTO resource ("+insertColumns+") VALUES "+
		rowsOf(parametersFor(insertColumns), len(which))+insertTail, p.args...) == int64(len(which)) {
		return
	}
	for _, i := range which {
		id := dbfile.One(p.tx, idField, "SELECT id FROM resource WHERE source_id = ? AND uri = ?", p.source,
			p.c.Resources[i].URI)
		if known[i] = id != p.ids[i]; known[i] {
			p.ids[i] = id
		}
	}
}

func nameArg(r *store.ResourceChange) any {
	if r.Name == "" || r.Name == r.Key {
		return nil
	}
	return r.Name
}

// appendHave appends a Have; of none, absent as a number.
func appendHave(args []any, h *store.Have, absent any) []any {
	if h == nil {
		return append(args, absent, absent, nil)
	}
	if *h == (store.Have{}) {
		return append(args, 0, 0, nil)
	}
	return append(args, int64(h.State), h.Length, column.PackFile(h))
}

func appendWork(args []any, k *store.Work, absent any) []any {
	if k == nil {
		return append(args, absent, absent, nil)
	}
	var failure any
	if k.Attempts != 0 || k.Since != 0 || k.Class != "" || k.Reason != "" {
		failure = column.PackFailure(k)
	}
	return append(args, int64(k.Action), column.Instant(k.Due), failure)
}

func (p *commit) addFolders(r *store.ResourceChange) {
	name := r.Name
	if name == "" {
		name = r.Key
	}
	for name = parent(name); name != ""; name = parent(name) {
		if _, again := p.folders[name]; again {
			return
		}
		if p.folders == nil {
			p.folders = map[string]struct{}{}
		}
		p.folders[name] = struct{}{}
	}
}

// writeFolders records the folders, sorted: deep trees have more folders than files.
func (p *commit) writeFolders() {
	writeRows(p.tx, "OR FAIL INTO folder", "source_id, name", " ON CONFLICT DO NOTHING",
		slices.Sorted(maps.Keys(p.folders)),
		func(args []any, name string) []any { return append(args, p.source, name) })
}

// wants writes the wants, in the order of the commit.
func (p *commit) wants() {
	var which []int
	for i := range p.c.Resources {
		if p.c.Resources[i].Want != nil {
			which = append(which, i)
		}
	}
	writeRows(p.tx, "OR FAIL INTO want", putColumns, putTail, which, func(args []any, i int) []any {
		w := p.c.Resources[i].Want
		p.checkSet(w.SetID)
		return append(args, w.SetID, p.ids[i], int64(w.State), column.Instant(w.Version.From),
			column.Instant(w.Version.Until), w.Generation, column.Flag(w.Held), column.Text(w.Refused),
			column.PackWant(w), column.Flag(w.Pushed))
	})
}

// wantStep is how many wants one statement reads, because the pages it changes stay in memory until it ends.
const wantStep = 2_000
