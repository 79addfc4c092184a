package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"resyncd/store"
	"resyncd/store/sqlite/column"
	"resyncd/store/sqlite/dbfile"
)

// dropTombstones applies store.DropTombstones, through the index of absent wants.
func (p *commit) dropTombstones(ctx context.Context, w *dbfile.Writer) error {
	d := p.c.DropTombstones
	if d == nil {
		return nil
	}
	for after := int64(-1); ; {
		ids, err := dbfile.All(ctx, w, idField, `SELECT w.resource_id FROM want w INDEXED BY want_absent
			WHERE w.set_id = ? AND w.state = 2 AND w.resource_id > ? AND w.held = 0
				AND (w.v_until IS NULL OR w.v_until <= ?)
				AND EXISTS (SELECT 1 FROM resource r WHERE r.id = w.resource_id AND r.have = 0 AND r.action = 0)
				AND NOT EXISTS (SELECT 1 FROM sets t CROSS JOIN want o ON o.set_id = t.id
					AND o.resource_id = w.resource_id WHERE t.source_id = ? AND o.state IN (1, 3))
			ORDER BY w.resource_id LIMIT ?`, d.SetID, after, int64(d.At), p.source, wantStep)
		if err != nil || len(ids) == 0 {
			return err
		}
		after = ids[len(ids)-1]
		if ids = slices.DeleteFunc(ids,
			func(id int64) bool { _, busy := slices.BinarySearch(d.Except, id); return busy }); len(ids) == 0 {
			continue
		}
		list := column.IDs(ids)
		const drop = "DELETE FROM want WHERE set_id = ? AND resource_id IN (SELECT value FROM json_each(?))"
		if _, err := w.Exec(ctx, drop, d.SetID, list); err != nil {
			return err
		}
		_, err = w.Exec(ctx, `DELETE FROM resource WHERE id IN (SELECT value FROM json_each(?1)) AND NOT EXISTS
			(SELECT 1 FROM sets t CROSS JOIN want o ON o.set_id = t.id AND o.resource_id = resource.id
			WHERE t.source_id = ?2)`, list, p.source)
		if err != nil {
			return err
		}
		_, err = w.Exec(ctx, `DELETE FROM content WHERE resource_id IN (SELECT value FROM json_each(?)) AND NOT EXISTS
			(SELECT 1 FROM resource r WHERE r.id = content.resource_id)`, list)
		if err != nil {
			return err
		}
	}
}

func (p *commit) gaps(ctx context.Context, w *dbfile.Writer) error {
	p.gapIDs = make([]int64, len(p.c.Gaps))
	for i, g := range p.c.Gaps {
		values := append(gapFields(g)[1:], !g.State.Open())
		var err error
		if p.gapIDs[i], err = put(ctx, w, "gap", gapColumns+", ended_yet", g.ID, g.SetID, values); err != nil {
			return err
		}
	}
	return nil
}

// put adds a row of a set, or changes the one with that id, and returns its id.
func put(ctx context.Context, w *dbfile.Writer, table, columns string, id, setID int64, values []any) (int64, error) {
	if id == 0 {
		return w.Insert(ctx, insertInto(table, columns), values...)
	}
	err := metRow(w.Exec(ctx, update(table, columns)+"id = ? AND set_id = ?", append(values, id, setID)...))
	if err != nil {
		return 0, fmt.Errorf("%s %d: %w", table, id, err)
	}
	return id, nil
}

func (p *commit) dropGaps(ctx context.Context, w *dbfile.Writer) error {
	for _, id := range p.c.DropGaps {
		var set int64
		err := w.Get(ctx, "SELECT set_id FROM gap WHERE id = ?", []any{id}, &set)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err == nil {
			err = p.s.owned(ctx, w, p.c.Claim, set)
		}
		if err == nil {
			_, err = w.Exec(ctx, "DELETE FROM gap WHERE id = ?", id)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *commit) documents(ctx context.Context, w *dbfile.Writer) error {
	for i := range p.c.Documents {
		d := &p.c.Documents[i]
		if err := p.checkSource(d.SourceID); err != nil {
			return err
		}
		if err := putDocument(ctx, w, p.source, d); err != nil {
			return err
		}
	}
	return nil
}

func (p *commit) trash(ctx context.Context, w *dbfile.Writer) error {
	for i := range p.c.Trash {
		t := p.c.Trash[i]
		if err := p.checkSource(t.SourceID); err != nil {
			return err
		}
		t.SourceID = p.source
		_, err := w.Exec(ctx, "INSERT OR REPLACE INTO trash ("+trashColumns+") VALUES "+parametersFor(trashColumns),
			trashFields(&t)...)
		if err != nil {
			return err
		}
	}
	for _, id := range p.c.DropTrash {
		if _, err := w.Exec(ctx, "DELETE FROM trash WHERE source_id = ? AND id = ?", p.source, id); err != nil {
			return err
		}
	}
	return nil
}

func (p *commit) events(ctx context.Context, w *dbfile.Writer) error {
	if len(p.c.Events) == 0 {
		return nil
	}
	for i := range p.c.Events {
		if err := p.checkSource(p.c.Events[i].SourceID); err != nil {
			return err
		}
	}
	var id int64
	err := w.Get(ctx, "UPDATE source SET next_event = next_event + ?1 WHERE id = ?2 RETURNING next_event - ?1",
		[]any{len(p.c.Events), p.source}, &id)
	if err != nil {
		return err
	}
	id--
	return writeRows(ctx, w, "INSERT INTO event ("+eventColumns+", id) VALUES ", "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", "",
		p.c.Events, func(args []any, e store.Event) []any {
			id++
			return append(args, p.source, e.URI, column.Instant(e.At), e.What, column.Instant(e.Version.From),
				column.Instant(e.Version.Until), e.Version.Ordinal, e.Version.Document, e.Detail, id)
		})
}

func (p *commit) runs(ctx context.Context, w *dbfile.Writer) error {
	for i := range p.c.Runs {
		r := &p.c.Runs[i]
		if _, err := put(ctx, w, "run", runColumns, r.ID, r.SetID, runFields(r)[1:]); err != nil {
			return err
		}
	}
	return nil
}
