package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"resyncd/store"
	"resyncd/store/sqlite/column"
	"resyncd/store/sqlite/dbfile"
)

// Commit implements store.Store.
func (s *Store) Commit(ctx context.Context, c *store.Commit) error {
	p := &commit{s: s, c: c, source: c.Claim.SourceID, checked: map[int64]bool{},
		folders: map[string]struct{}{}}
	if err := s.fenced(ctx, "record a step", c.Claim, p.apply); err != nil {
		return err
	}
	// The ids are set only after the commit succeeded.
	for i, id := range p.ids {
		if r := &c.Resources[i]; r.ID == 0 {
			r.ID = id
		}
	}
	for i, id := range p.gapIDs {
		c.Gaps[i].ID = id
	}
	return nil
}

type commit struct {
	s       *Store
	tx      *dbfile.Session
	c       *store.Commit
	source  int64
	checked map[int64]bool      // sets
	ids     []int64             // of c.Resources
	gapIDs  []int64             // of c.Gaps
	folders map[string]struct{} // those above new files
	args    []any               // reused
}

func (p *commit) apply(tx *dbfile.Session) {
	p.tx = tx
	if p.c.Repeatable {
		tx.Repeatable()
	}
	for _, step := range []func(){
		p.resources, p.writeFolders, p.contents, p.wants, p.dropTombstones, p.sets, p.gaps, p.dropGaps,
		p.inbox, p.documents, p.trash, p.events, p.spans, p.edits, p.runs, p.sourceChange,
	} {
		step()
	}
}

// checkSet fails if a part of the commit is of another Source's set: it would be written without a claim.
func (p *commit) checkSet(id int64) {
	if !p.checked[id] {
		owned(p.tx, p.c.Claim, id)
		p.checked[id] = true
	}
}

func (p *commit) sets() {
	for i := range p.c.Sets {
		change := &p.c.Sets[i]
		p.checkSet(change.ID)
		if st := change.State; st != nil {
			p.tx.Exec(update("sets", stateColumns)+"id = ?", append(stateFields(st), change.ID)...)
		}
		if change.Resources == 0 && change.Bytes == 0 {
			continue
		}
		var wrong bool
		p.tx.Get(`UPDATE sets SET resources = resources + ?, bytes = bytes + ? WHERE id = ?
			RETURNING resources < 0 OR bytes < 0`, []any{change.Resources, change.Bytes, change.ID}, &wrong)
		if wrong {
			p.s.log.Warn("the counters of a set were wrong; counted anew", "set", change.ID)
			p.tx.Exec(`UPDATE sets SET (resources, bytes) =
				(SELECT count(*), coalesce(sum(r.length), 0) FROM want w CROSS JOIN resource r ON r.id = w.resource_id
					WHERE w.set_id = sets.id AND (w.state IN (1, 3) OR w.held <> 0) AND r.have <> 0)
				WHERE id = ?`, change.ID)
		}
	}
}

func (p *commit) sourceChange() {
	if ch := p.c.Source; ch != nil { // what is nil in it is NULL
		p.tx.Exec(`UPDATE source SET root_id = coalesce(?, root_id), unclean = coalesce(?, unclean),
			policy = coalesce(?, policy) WHERE id = ?`, ch.RootID, ch.Unclean, ch.Policy, p.source)
	}
}

func (p *commit) checkSource(sourceID int64) {
	if sourceID != 0 && sourceID != p.source {
		p.tx.Fail(fmt.Errorf("a record of source %d in a commit of source %d", sourceID, p.source))
	}
}

// dropTombstones applies store.DropTombstones, through the index of absent wants.
func (p *commit) dropTombstones() {
	d := p.c.DropTombstones
	if d == nil {
		return
	}
	p.checkSet(d.SetID)
	for after := int64(-1); ; {
		ids := dbfile.All(p.tx, idField, `SELECT w.resource_id FROM want w INDEXED BY want_absent
			WHERE w.set_id = ? AND w.state = 2 AND w.resource_id > ? AND w.held = 0
				AND (w.v_until IS NULL OR w.v_until <= ?)
				AND EXISTS (SELECT 1 FROM resource r WHERE r.id = w.resource_id AND r.have = 0 AND r.action = 0)
				AND NOT EXISTS (SELECT 1 FROM sets t CROSS JOIN want o ON o.set_id = t.id
					AND o.resource_id = w.resource_id WHERE t.source_id = ? AND o.state IN (1, 3))
			ORDER BY w.resource_id LIMIT ?`, d.SetID, after, int64(d.At), p.source, wantStep)
		if len(ids) == 0 {
			return
		}
		after = ids[len(ids)-1]
		list := column.IDs(slices.DeleteFunc(ids, func(id int64) bool {
			_, busy := slices.BinarySearch(d.Except, id)
			return busy
		}))
		p.tx.Exec("DELETE FROM want WHERE set_id = ? AND resource_id IN (SELECT value FROM json_each(?))", d.SetID,
			list)
		p.tx.Exec(`DELETE FROM resource WHERE id IN (SELECT value FROM json_each(?1)) AND NOT EXISTS
			(SELECT 1 FROM sets t CROSS JOIN want o ON o.set_id = t.id AND o.resource_id = resource.id
			WHERE t.source_id = ?2)`, list, p.source)
		p.tx.Exec(`DELETE FROM content WHERE resource_id IN (SELECT value FROM json_each(?)) AND NOT EXISTS
			(SELECT 1 FROM resource r WHERE r.id = content.resource_id)`, list)
	}
}

func (p *commit) gaps() {
	p.gapIDs = make([]int64, len(p.c.Gaps))
	for i, g := range p.c.Gaps {
		p.checkSet(g.SetID)
		values := append(gapFields(g)[1:], !g.State.Open())
		p.gapIDs[i] = put(p.tx, "gap", gapColumns+", ended_yet", g.ID, g.SetID, values)
	}
}

// put adds a row of a set, or changes the one with that id, and returns its id.
func put(tx *dbfile.Session, table, columns string, id, setID int64, values []any) int64 {
	if id == 0 {
		return tx.Insert(insertInto(table, columns), values...)
	}
	if tx.Exec(update(table, columns)+"id = ? AND set_id = ?", append(values, id, setID)...) == 0 {
		tx.Fail(fmt.Errorf("%s %d: %w", table, id, store.ErrNotFound))
	}
	return id
}

func (p *commit) dropGaps() {
	for _, id := range p.c.DropGaps {
		var set int64
		if p.tx.Get("SELECT set_id FROM gap WHERE id = ?", []any{id}, &set) {
			p.checkSet(set)
			p.tx.Exec("DELETE FROM gap WHERE id = ?", id)
		}
	}
}

func (p *commit) documents() {
	for i := range p.c.Documents {
		d := &p.c.Documents[i]
		p.checkSource(d.SourceID)
		if d.SetID != 0 {
			p.checkSet(d.SetID)
		}
		putDocument(p.tx, p.source, d)
	}
}

func (p *commit) trash() {
	for _, t := range p.c.Trash {
		p.checkSource(t.SourceID)
		t.SourceID = p.source
		p.tx.Exec("INSERT OR REPLACE INTO trash ("+trashColumns+") VALUES "+parametersFor(trashColumns),
			trashFields(&t)...)
	}
	for _, id := range p.c.DropTrash {
		p.tx.Exec("DELETE FROM trash WHERE source_id = ? AND id = ?", p.source, id)
	}
}

func (p *commit) events() {
	if len(p.c.Events) == 0 {
		return
	}
	id := p.take("next_event", len(p.c.Events)) - 1
	writeRows(p.tx, "INTO event", eventColumns+", id", "", p.c.Events, func(args []any, e store.Event) []any {
		id++
		p.checkSource(e.SourceID)
		return append(args, p.source, e.URI, column.Instant(e.At), e.What, column.Instant(e.Version.From),
			column.Instant(e.Version.Until), e.Version.Ordinal, e.Version.Document, e.Detail, id)
	})
}

// take takes n numbers from a counter of the Source and returns the first.
func (p *commit) take(counter string, n int) int64 {
	return dbfile.One(p.tx, idField, "UPDATE source SET "+counter+" = "+counter+" + ?1 WHERE id = ?2 RETURNING "+
		counter+" - ?1", n, p.source)
}

func (p *commit) runs() {
	for i := range p.c.Runs {
		r := &p.c.Runs[i]
		p.checkSet(r.SetID)
		put(p.tx, "run", runColumns, r.ID, r.SetID, runFields(r)[1:])
	}
}

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
	name := cmp.Or(r.Name, r.Key)
	for i := strings.LastIndexByte(name, '/'); i > 0; i = strings.LastIndexByte(name, '/') {
		name = name[:i]
		if _, again := p.folders[name]; again {
			return
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
