package plan

import (
	"resyncd/store"
	"resyncd/sync/merge"
)

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
