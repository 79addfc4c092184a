package sqlite

import (
	"context"
	"fmt"

	"resyncd/store"
	"resyncd/store/sqlite/dbfile"
)

// Commit implements store.Committer.
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
