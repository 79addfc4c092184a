package plan

import (
	"encoding/binary"

	"resyncd/store"
	"resyncd/sync/merge"
)

// A signed notification writes wants like a document does, but nothing else vouches for it (P9). So such a want is marked
// as pushed, with what the documents say of the resource beside it, until a document says the same or something newer, or
// until the documents should tell of it and do not: then the Source is asked (coverage.md 2).

// PushedDocument stands for a notification in versions: negative, so that it is no document of the store, and the same for
// the same bytes, so that a repetition is nothing new.
func PushedDocument(digest [32]byte) int64 {
	return -1 - int64(binary.BigEndian.Uint64(digest[:8])>>2)
}

// mergePush lets an entry of a notification meet the row of its resource.
func (p *Planner) mergePush(r *row, e *Entry, current *store.Want) {
	w := e.Cand.Want(p.o.Set.ID)
	switch merge.Merge(current, &r.res.Have, merge.FloorOf(p.o.Set), e.Cand) {
	case merge.Replace:
	case merge.Ask:
		w = e.Cand.Contest(current, p.o.Set.Floor, p.o.Set.ID)
	case merge.Repeat:
		r.same = true
		return
	default:
		return
	}
	w.Pushed, w.Listed = true, listedOf(current, p.o.Set.ID)
	if w.State != store.WantAbsent {
		w.Refused = p.o.Refused(e.URI)
	}
	r.want, r.changed, r.note = w, true, e.Note
}

// listedOf is what the documents say of a resource before a push changes its want.
func listedOf(current *store.Want, set int64) *store.Want {
	switch {
	case current == nil:
		return &store.Want{SetID: set, Length: -1, LastMod: store.NoTime}
	case current.Pushed:
		return current.Listed
	}
	known := *current
	return &known
}

// mergeListed lets an entry of a document meet a want that was pushed: what the documents say is kept up to date beside
// it, and takes its place as soon as it is not older.
func (p *Planner) mergeListed(r *row, e *Entry) {
	pushed := r.want
	switch p.decide(r, &r.want, e) {
	case merge.Replace:
		r.want = p.wantOf(e, &r.want)
		if p.News != nil && !e.Baseline {
			p.News(e.Cand.Version)
		}
	case merge.Ask:
		r.want = e.Cand.Contest(&pushed, p.o.Set.Floor, p.o.Set.ID)
		r.want.Generation = p.generation(e)
	case merge.Repeat: // the documents confirm it
		if p.Lag != nil {
			p.Lag(pushed.Version)
		}
		if pushed.State == e.Cand.State {
			r.want = p.wantOf(e, &r.want)
		} else {
			r.want.Pushed, r.want.Listed = false, nil
		}
		r.same = true
	default:
		p.mergeBeside(r, e)
		return
	}
	r.want.Refused = ""
	if r.want.State != store.WantAbsent {
		r.want.Refused = p.o.Refused(e.URI)
	}
	r.changed = true
}

// mergeBeside updates what the documents say of a resource while a newer push stands.
func (p *Planner) mergeBeside(r *row, e *Entry) {
	listed := r.want.Listed
	if listed == nil || listed.State == store.WantNone {
		listed = nil
	}
	var next store.Want
	switch p.decide(r, listed, e) {
	case merge.Replace:
		next = p.wantOf(e, listed)
	case merge.Ask:
		next = e.Cand.Contest(listed, p.o.Set.Floor, p.o.Set.ID)
	default:
		return
	}
	if next.State != store.WantAbsent {
		next.Refused = p.o.Refused(e.URI)
	}
	r.want.Listed, r.changed = &next, true
}

// keepsListed has a row that a push takes stay listed by the baseline that is being read, which knows what it wrote itself
// by its number only, and a pushed want carries none: else the end of the baseline would take it for unlisted.
func (p *Planner) keepsListed(r *row, current *store.Want) {
	if p.ListedIn != nil && current != nil && current.Generation == p.o.Set.Generation {
		p.ListedIn.Add(r.res.ID)
	}
}
