package sqlite

import (
	"context"
	"fmt"
	"slices"

	"resyncd/store"
	"resyncd/store/sqlite/column"
	"resyncd/store/sqlite/dbfile"
)

// Commit implements store.Store.
func (s *Store) Commit(ctx context.Context, c *store.Commit) error {
	p := &commit{s: s, c: c, source: c.Claim.SourceID, checked: map[int64]bool{}}
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
