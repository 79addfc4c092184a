package plan

import (
	"resyncd/store"
	"resyncd/sync/merge"
)

// contest is a row as it was before an entry of a document contradicted it.
type contest struct {
	by      store.Version
	want    store.Want
	changed bool
	haveNew *store.Have
	have    store.Have
}

// contests notes the row as it is before an entry of a change document contradicts it.
func (r *row) contests(e *Entry, current *store.Want) {
	if e.Baseline || r.contest != nil || current != nil && current.State == store.WantAsk {
		return
	}
	r.contest = &contest{by: e.Cand.Version, want: r.want, changed: r.changed, haveNew: r.haveNew, have: r.res.Have}
}

// reopen takes a contradiction back for a later entry of the same reading, which says what that document means.
func (r *row) reopen(e *Entry, current *store.Want) *store.Want {
	c := r.contest
	if c == nil || e.Baseline || merge.Relate(e.Cand.Version, c.by) != merge.Newer || !merge.SameReading(e.Cand.Version, c.by) {
		return current
	}
	r.contest = nil
	r.want, r.changed, r.haveNew, r.res.Have = c.want, c.changed, c.haveNew, c.have
	if !r.had && !r.changed {
		return nil
	}
	return &r.want
}

// vague tells an entry that may be news although it has the instant of what the row stands for, and nothing shows what it brings: one
// that its list did not tell when it was read last, whatever the clocks say, or the second of one reading, for an event that two
// documents tell is one entry in each.
func (r *row) vague(e *Entry, current *store.Want, floor store.Micros) bool {
	v, bytes := e.Cand.Version, e.Cand
	bytes.LastMod = store.NoTime // that of what changed twice in a second is the same
	if e.Baseline || current == nil || current.State != store.WantPresent || merge.SameReading(v, current.Version) ||
		merge.Precedes(merge.Clipped(v, floor), merge.Clipped(current.Version, floor)) || merge.Compare(current, &r.res.Have, bytes) != merge.Unclear {
		return false
	}
	again := merge.SameReading(v, r.told) && v.From == r.told.From && v.Ordinal > r.told.Ordinal
	r.told = v
	return again || e.Edge
}

// mergeHint has the Source asked about what an entry names, whatever is known of it.
func (p *Planner) mergeHint(r *row, e *Entry, current *store.Want) {
	if r.want.Held || r.want.Refused != "" || current != nil && e.Cand.Version.Until <= current.Version.Until &&
		(current.State == store.WantAsk || current.Settled) {
		return // it is being asked, or was since
	}
	w := e.Cand.Contest(current, p.o.Set.Floor, p.o.Set.ID)
	if w.Generation = p.generation(e); current == nil {
		w.Refused = p.o.Refused(e.URI)
	}
	r.want, r.changed = w, true
}
