package sqlite

import (
	"context"
	"fmt"

	"resyncd/store"
	"resyncd/store/sqlite/column"
	"resyncd/store/sqlite/dbfile"
)

// Commit implements store.Committer.
func (s *Store) Commit(ctx context.Context, c *store.Commit) error {
	p := &commit{s: s, c: c, source: c.Claim.SourceID}
	write := s.db.Write
	if c.Repeatable {
		write = s.db.WriteAsync
	}
	if err := s.fencedBy(ctx, write, "record a step", c.Claim, p.apply); err != nil {
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
	s.folders.add(p.folders)
	return nil
}

type commit struct {
	s       *Store
	c       *store.Commit
	source  int64
	ids     []int64 // of c.Resources
	gapIDs  []int64 // of c.Gaps
	folders []folderName
	fresh   map[folderName]struct{} // folders to look up
	args    []any                   // reused
}

func (p *commit) apply(ctx context.Context, w *dbfile.Writer) error {
	for _, step := range []func(context.Context, *dbfile.Writer) error{
		p.checkSets, p.resources, p.writeFolders, p.contents, p.wants, p.dropTombstones, p.sets, p.gaps, p.dropGaps,
		p.inbox,
		p.documents, p.trash, p.events, p.spans, p.edits, p.runs, p.sourceChange,
	} {
		if err := step(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// checkSets fails if a part of the commit is of another Source's set: it would be written without a
// claim.
func (p *commit) checkSets(ctx context.Context, w *dbfile.Writer) error {
	seen := map[int64]bool{}
	check := func(id int64) error {
		if seen[id] {
			return nil
		}
		seen[id] = true
		return p.s.owned(ctx, w, p.c.Claim, id)
	}
	var ids []int64
	for i := range p.c.Resources {
		if want := p.c.Resources[i].Want; want != nil && (len(ids) == 0 || ids[len(ids)-1] != want.SetID) {
			ids = append(ids, want.SetID)
		}
	}
	for i := range p.c.Sets {
		ids = append(ids, p.c.Sets[i].ID)
	}
	for _, g := range p.c.Gaps {
		ids = append(ids, g.SetID)
	}
	for i := range p.c.Runs {
		ids = append(ids, p.c.Runs[i].SetID)
	}
	for i := range p.c.Spans {
		ids = append(ids, p.c.Spans[i].SetID)
	}
	for i := range p.c.Documents {
		if id := p.c.Documents[i].SetID; id != 0 {
			ids = append(ids, id)
		}
	}
	if p.c.DropTombstones != nil {
		ids = append(ids, p.c.DropTombstones.SetID)
	}
	for _, id := range ids {
		if err := check(id); err != nil {
			return err
		}
	}
	return nil
}

func (p *commit) sets(ctx context.Context, w *dbfile.Writer) error {
	for i := range p.c.Sets {
		change := &p.c.Sets[i]
		if st := change.State; st != nil {
			proven, err := column.Intervals(st.Proven)
			if err != nil {
				return err
			}
			joint, err := column.Intervals(st.Joint)
			if err != nil {
				return err
			}
			_, err = w.Exec(ctx, `UPDATE sets SET floor = ?, generation = ?, baselines = ?, proven = ?, joint = ?,
				gone = ?, in_step = ?, problem = ?, last_pull = ?, estimated = ?, flawed = ? WHERE id = ?`,
				column.Instant(st.Floor), st.Generation, st.Baselines, proven, joint,
				int64(st.Gone), column.Flag(st.InStep), store.WithCause(st.Problem, st.Cause),
				column.Instant(st.LastPull),
				column.Flag(st.Estimated), column.Flag(st.Flawed), change.ID)
			if err != nil {
				return err
			}
		}
		if change.Resources == 0 && change.Bytes == 0 {
			continue
		}
		var resources, bytes int64
		err := w.Get(ctx, `UPDATE sets SET resources = resources + ?, bytes = bytes + ? WHERE id = ?
			RETURNING resources, bytes`, []any{change.Resources, change.Bytes, change.ID}, &resources, &bytes)
		if err != nil {
			return err
		}
		if resources < 0 || bytes < 0 {
			p.s.log.Warn("the counters of a set were wrong; counted anew", "set", change.ID)
			if err := recount(ctx, w, change.ID, &resources, &bytes); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *commit) sourceChange(ctx context.Context, w *dbfile.Writer) error {
	ch := p.c.Source
	if ch == nil {
		return nil
	}
	var rootID, unclean, policy any
	if ch.RootID != nil {
		rootID = *ch.RootID
	}
	if ch.Unclean != nil {
		unclean = column.Flag(*ch.Unclean)
	}
	if ch.Policy != nil {
		policy = *ch.Policy
	}
	_, err := w.Exec(ctx, `UPDATE source SET root_id = coalesce(?, root_id), unclean = coalesce(?, unclean),
		policy = coalesce(?, policy) WHERE id = ?`, rootID, unclean, policy, p.source)
	return err
}

// checkSource fails for a record of another Source.
func (p *commit) checkSource(sourceID int64) error {
	if sourceID != 0 && sourceID != p.source {
		return fmt.Errorf("a record of source %d in a commit of source %d", sourceID, p.source)
	}
	return nil
}
