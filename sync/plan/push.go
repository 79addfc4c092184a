package plan

import (
	"encoding/binary"

	"resyncd/store"
	"resyncd/sync/merge"
)

// Only its signature vouches for a notification (P9). So a pushed want keeps the documents' statement beside it until a
// document confirms or replaces it, or should tell of it and does not: then the Source is asked (coverage.md 2).

// PushedDocument returns the document number of a notification: negative, unlike those of the store, and equal for
// equal bytes, so that a repetition is no news.
func PushedDocument(digest [32]byte) int64 {
	return -1 - int64(binary.BigEndian.Uint64(digest[:8])>>2)
}

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

// mergeListed merges a document's entry into a pushed want: an older entry is kept beside it, any other takes its
// place.
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
	case merge.Repeat:
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

// keepsListed keeps a pushed row listed in the running baseline. A pushed want has no generation, so the sweep would
// count the row as unlisted.
func (p *Planner) keepsListed(r *row, current *store.Want) {
	if p.ListedIn != nil && current != nil && current.Generation == p.o.Set.Generation {
		p.ListedIn.Add(r.res.ID)
	}
}
