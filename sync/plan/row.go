package plan

import (
	"context"

	"resyncd/store"
	"resyncd/sync/merge"
	"resyncd/sync/transfer"
)

type row struct {
	res     *store.Resource
	want    store.Want
	had     bool
	changed bool
	before  merge.Sum // counted before the batch
	haveNew *store.Have
	same    bool
	moved   bool // the disk differed from the row
	doubted bool // the file counts for nothing
	// contest is the row before an entry of this reading contradicted it.
	contest *contest
	// told is the last entry with the row's own instant; a second one is news.
	told store.Version
	note *transfer.Note // of the notification that asked
	// The rest is for topics: content, preferred key, edits of a record.
	content []byte
	natural string
	edits   []store.Edit
	fresh   [][32]byte // edits that the last pull did not see
}

func (p *Planner) lookup(ctx context.Context) (map[string]*row, error) {
	uris := make([]string, 0, len(p.Batch))
	pool, rows := p.rows.take(len(p.Batch))
	for i := range p.Batch {
		u := p.Batch[i].URI
		if rows[u] == nil {
			rows[u] = &pool[len(uris)]
			uris = append(uris, u)
		}
	}
	found, err := p.o.Site.Store.Lookup(ctx, p.o.Site.SourceID, p.o.Set.ID, uris)
	if err != nil {
		return nil, err
	}
	var fresh []store.Resource
	for i, u := range uris {
		r := rows[u]
		r.res, r.before = found[i], merge.Sum{}
		if r.res == nil {
			if len(fresh) == 0 {
				fresh = make([]store.Resource, min(len(uris)-i, 256))
			}
			r.res, fresh = &fresh[0], fresh[1:]
			r.res.SourceID, r.res.URI = p.o.Site.SourceID, u
			continue
		}
		if w := r.res.WantFor(p.o.Set.ID); w != nil {
			r.want, r.had = *w, true
		}
		r.before = merge.Counted(&r.want, &r.res.Have)
	}
	return rows, nil
}

type rowPool struct {
	pool []row
	rows map[string]*row // by URI
}

// take returns n empty rows and their index, valid for one flush. Large batches are not kept, to bound the memory.
func (p *rowPool) take(n int) ([]row, map[string]*row) {
	if n > 2*planBatch {
		return make([]row, n), make(map[string]*row, n)
	}
	if cap(p.pool) < n {
		p.pool, p.rows = make([]row, n, max(n, planBatch)), make(map[string]*row, n)
	}
	p.pool = p.pool[:n]
	return p.pool, p.rows
}

func (p *rowPool) clear() {
	clear(p.pool)
	clear(p.rows)
}

type contest struct {
	by      store.Version
	want    store.Want
	changed bool
	haveNew *store.Have
	have    store.Have
}

func (r *row) contests(e *Entry, current *store.Want) {
	if e.Baseline || r.contest != nil || current != nil && current.State == store.WantAsk {
		return
	}
	r.contest = &contest{by: e.Cand.Version, want: r.want, changed: r.changed, haveNew: r.haveNew, have: r.res.Have}
}

// reopen undoes a contradiction when a later entry of the same reading settles the matter.
func (r *row) reopen(e *Entry, current *store.Want) *store.Want {
	c := r.contest
	if c == nil || e.Baseline || merge.Relate(e.Cand.Version, c.by) != merge.Newer ||
		!merge.SameReading(e.Cand.Version, c.by) {
		return current
	}
	r.contest = nil
	r.want, r.changed, r.haveNew, r.res.Have = c.want, c.changed, c.haveNew, c.have
	if !r.had && !r.changed {
		return nil
	}
	return &r.want
}

// vague reports whether an entry may be news although it has the row's instant: the last reading need not have shown
// it, or it is the second such entry of one reading.
func (r *row) vague(e *Entry, current *store.Want, floor store.Micros) bool {
	v, bytes := e.Cand.Version, e.Cand
	bytes.LastMod = store.NoTime // a resource that changed twice in a second keeps its Last-Modified
	if e.Baseline || current == nil || current.State != store.WantPresent || merge.SameReading(v, current.Version) ||
		merge.Precedes(merge.Clipped(v, floor), merge.Clipped(current.Version, floor)) ||
		merge.Compare(current, &r.res.Have, bytes) != merge.Unclear {
		return false
	}
	again := merge.SameReading(v, r.told) && v.From == r.told.From && v.Ordinal > r.told.Ordinal
	r.told = v
	return again || e.Edge
}

// mergeHint has the Source asked about the resource that an entry names.
func (p *Planner) mergeHint(r *row, e *Entry, current *store.Want) {
	if r.want.Held || r.want.Refused != "" || current != nil && e.Cand.Version.Until <= current.Version.Until &&
		(current.State == store.WantAsk || current.Settled) {
		return
	}
	w := e.Cand.Contest(current, p.o.Set.Floor, p.o.Set.ID)
	if w.Generation = p.generation(e); current == nil {
		w.Refused = p.o.Refused(e.URI)
	}
	r.want, r.changed = w, true
}
