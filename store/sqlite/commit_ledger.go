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
		rows, err := w.Query(ctx, `SELECT w.resource_id FROM want w INDEXED BY want_absent WHERE w.set_id = ?
				AND w.state = 2 AND w.resource_id > ? AND w.held = 0 AND (w.v_until IS NULL OR w.v_until <= ?)
				AND EXISTS (SELECT 1 FROM resource r WHERE r.id = w.resource_id AND r.have = 0 AND r.action = 0)
				AND NOT EXISTS (SELECT 1 FROM sets t CROSS JOIN want o ON o.set_id = t.id
					AND o.resource_id = w.resource_id WHERE t.source_id = ? AND o.state IN (1, 3))
			ORDER BY w.resource_id LIMIT ?`, d.SetID, after, int64(d.At), p.source, wantStep)
		if err != nil {
			return err
		}
		ids, err := collect(rows, scanID)
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
		args := []any{g.SetID, column.Instant(g.From), column.Instant(g.Until), string(g.State),
			column.Flag(!g.State.Open()), g.ClosedBy, column.Instant(g.Found), column.Instant(g.Ended)}
		p.gapIDs[i] = g.ID
		if g.ID == 0 {
			err := w.Get(ctx, `INSERT INTO gap (set_id, v_from, v_until, state, ended_yet, closed_by, found, ended)
				VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`, args, &p.gapIDs[i])
			if err != nil {
				return err
			}
			continue
		}
		n, err := w.Exec(ctx, `UPDATE gap SET set_id = ?1, v_from = ?2, v_until = ?3, state = ?4, ended_yet = ?5,
			closed_by = ?6, found = ?7, ended = ?8 WHERE id = ?9 AND set_id = ?1`, append(args, g.ID)...)
		if err == nil && n == 0 {
			err = fmt.Errorf("gap %d: %w", g.ID, store.ErrNotFound)
		}
		if err != nil {
			return err
		}
	}
	return nil
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
		t := &p.c.Trash[i]
		if err := p.checkSource(t.SourceID); err != nil {
			return err
		}
		_, err := w.Exec(ctx, "INSERT OR REPLACE INTO trash ("+trashColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
			p.source, t.ID, t.URI, t.Key, t.SHA256[:], t.Length, t.Reason, column.Instant(t.At))
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
	var id int64
	err := w.Get(ctx, "UPDATE source SET next_event = next_event + ?1 WHERE id = ?2 RETURNING next_event - ?1",
		[]any{len(p.c.Events), p.source}, &id)
	if err != nil {
		return err
	}
	for i := range p.c.Events {
		e := &p.c.Events[i]
		if err := p.checkSource(e.SourceID); err != nil {
			return err
		}
		_, err := w.Exec(ctx, `INSERT INTO event (source_id, uri, id, at, what, v_from, v_until, ordinal, document,
			detail) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, p.source, e.URI, id, column.Instant(e.At), e.What,
			column.Instant(e.Version.From), column.Instant(e.Version.Until), e.Version.Ordinal, e.Version.Document,
			e.Detail)
		if err != nil {
			return err
		}
		id++
	}
	return nil
}

func (p *commit) runs(ctx context.Context, w *dbfile.Writer) error {
	for i := range p.c.Runs {
		r := &p.c.Runs[i]
		args := []any{r.SetID, r.Kind, column.Instant(r.Started), column.Instant(r.Ended), r.Fetched, r.Deleted,
			r.Unchanged, r.Failed, r.Bytes, r.Requests, r.Problem}
		if r.ID == 0 {
			_, err := w.Exec(ctx, `INSERT INTO run (set_id, kind, started, ended, fetched, deleted, unchanged, failed,
				bytes, requests, problem) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, args...)
			if err != nil {
				return err
			}
			continue
		}
		n, err := w.Exec(ctx, `UPDATE run SET kind = ?2, started = ?3, ended = ?4, fetched = ?5, deleted = ?6,
			unchanged = ?7, failed = ?8, bytes = ?9, requests = ?10, problem = ?11 WHERE id = ?12 AND set_id = ?1`,
			append(args, r.ID)...)
		if err == nil && n == 0 {
			err = fmt.Errorf("run %d: %w", r.ID, store.ErrNotFound)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
