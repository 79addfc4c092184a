package sync

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
func (r *row) contests(e *entry, current *store.Want) {
	if e.baseline || r.contest != nil || current != nil && current.State == store.WantAsk {
		return
	}
	r.contest = &contest{by: e.cand.Version, want: r.want, changed: r.changed, haveNew: r.haveNew, have: r.res.Have}
}

// reopen takes a contradiction back for a later entry of the same reading, which says what that document means.
func (r *row) reopen(e *entry, current *store.Want) *store.Want {
	c := r.contest
	if c == nil || e.baseline || merge.Relate(e.cand.Version, c.by) != merge.Newer || !merge.SameReading(e.cand.Version, c.by) {
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
func (r *row) vague(e *entry, current *store.Want, floor store.Micros) bool {
	v, bytes := e.cand.Version, e.cand
	bytes.LastMod = store.NoTime // that of what changed twice in a second is the same
	if e.baseline || current == nil || current.State != store.WantPresent || merge.SameReading(v, current.Version) ||
		merge.Precedes(merge.Clipped(v, floor), merge.Clipped(current.Version, floor)) || merge.Compare(current, &r.res.Have, bytes) != merge.Unclear {
		return false
	}
	again := merge.SameReading(v, r.told) && v.From == r.told.From && v.Ordinal > r.told.Ordinal
	r.told = v
	return again || e.edge
}

// mergeHint has the Source asked about what an entry names, whatever is known of it.
func (p *planner) mergeHint(r *row, e *entry, current *store.Want) {
	if r.want.Held || r.want.Refused != "" || current != nil && e.cand.Version.Until <= current.Version.Until &&
		(current.State == store.WantAsk || current.Settled) {
		return // it is being asked, or was since
	}
	w := e.cand.Contest(current, p.set.Floor, p.set.ID)
	if w.Generation = p.generation(e); current == nil {
		w.Refused = p.scope(e.uri)
	}
	r.want, r.changed = w, true
}
