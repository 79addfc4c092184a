package merge

import (
	"cmp"
	"encoding/hex"
	"strings"

	"resyncd/store"
)

// WorkFor says what is to be done so that the file becomes what the want says. Whether another set of the Source wants
// something else WorkForAll tells.
func WorkFor(w *store.Want, h *store.Have, now store.Micros) store.Work {
	switch {
	case w.Refused != "" || w.Held:
		return store.Work{}
	case w.State == store.WantAbsent && h.State != store.HavePresent:
		return store.Work{}
	case w.State == store.WantAbsent && !w.Pushed:
		return store.Work{Action: store.ActionRemove, Due: now}
	case w.State == store.WantAbsent: // only the Source's own 404 or a document may remove (P5)
	case w.State == store.WantPresent && Satisfied(w, h) == Yes:
		return store.Work{}
	}
	return store.Work{Action: store.ActionFetch, Due: now}
}

// WorkForAll is WorkFor by the wants of all sets. It keeps what one set owes from being forgotten when another set of
// the same Source has nothing to do.
func WorkForAll(wants []store.Want, h *store.Have, now store.Micros) store.Work {
	if w := Effective(wants); w != nil {
		return WorkFor(w, h, now)
	}
	return store.Work{}
}

// Replaced is a copy of wants with that of one set.
func Replaced(wants []store.Want, next *store.Want) []store.Want {
	out := append([]store.Want(nil), wants...)
	for i := range out {
		if out[i].SetID == next.SetID {
			out[i] = *next
		}
	}
	return out
}

// Total adds the difference that a resource makes to its sets' totals.
func Total(sums map[int64]*store.SetChange, before []store.Want, was *store.Have, after []store.Want, is *store.Have) {
	for i := range before {
		b := Counted(&before[i], was)
		a := Counted(&after[i], is)
		if a == b {
			continue
		}
		s := sums[before[i].SetID]
		if s == nil {
			s = &store.SetChange{ID: before[i].SetID}
			sums[before[i].SetID] = s
		}
		s.Resources += a.Resources - b.Resources
		s.Bytes += a.Bytes - b.Bytes
	}
}

// Sum is what resources add to the totals of a set.
type Sum struct{ Resources, Bytes int64 }

// Counted is what one resource adds, by the want of the set and its file.
func Counted(w *store.Want, h *store.Have) Sum {
	if (w.State == store.WantPresent || w.State == store.WantAsk || w.Held) && h.State != store.HaveNone {
		return Sum{1, h.Length}
	}
	return Sum{}
}

// Answer says whether a mirror file is what is wanted.
type Answer uint8

// The answers. No: it is not, or only a request can tell. HashLocally: reading the file decides, which was never
// compared with the want's strongest digest.
const (
	No Answer = iota
	Yes
	HashLocally
)

// Satisfied compares a want with what is on disk, without looking at the disk. Length and the strongest digest are
// binding where they are given (F49, F50); where there is no digest, the file must have been fetched or confirmed for
// this version or a newer one. An absent want is satisfied by no file, and by one that is kept against it.
func Satisfied(w *store.Want, h *store.Have) Answer {
	switch {
	case w.State == store.WantAbsent:
		if h.State == store.HavePresent {
			return No
		}
		return Yes
	case w.State == store.WantNone:
		return Yes
	case h.State == store.HaveNone, w.State == store.WantAsk, w.Length >= 0 && w.Length != h.Length:
		return No
	case w.Digests != "":
		return sameBytes(w.Digests, h)
	}
	switch Relate(h.Version, w.Version) {
	case Newer, SamePlace:
		return Yes
	case Unordered:
		// One event told by two documents; a list that is read again at the same instant may tell of another one.
		same := h.Version.From == w.Version.From && h.Version.Until == w.Version.Until
		if w.Generation == 0 && same && Dated(w.Version) {
			return Yes
		}
	}
	return No
}

// digestOf is the digest by which a file is always known.
func DigestOf(h *store.Have) string { return "sha-256:" + hex.EncodeToString(h.SHA256[:]) }

// sameBytes compares by the strongest digest, which comes first. SHA-256 of the file is always known.
func sameBytes(digests string, h *store.Have) Answer {
	strongest, _, _ := strings.Cut(digests, " ")
	alg, sum, _ := strings.Cut(strongest, ":")
	checked, _, _ := strings.Cut(h.Checked, ":")
	switch {
	case alg == "sha-256":
		var buf [64]byte
		return answer(string(hex.AppendEncode(buf[:0], h.SHA256[:])) == sum)
	case alg == checked:
		return answer(h.Checked == strongest)
	}
	return HashLocally
}

func answer(ok bool) Answer {
	if ok {
		return Yes
	}
	return No
}

// CarryOver tells whether the file that satisfies the old want may be taken for what a baseline now wants, which spares
// a request for each unchanged resource of a list without digests. An entry of a change document is an event of its
// own and never carries over.
func CarryOver(old, new *store.Want, h *store.Have) bool {
	return old != nil && new.Generation > 0 && new.State == store.WantPresent && old.State == store.WantPresent &&
		new.Digests == "" && new.LastMod.Known() && new.LastMod == old.LastMod &&
		(new.Length < 0 || new.Length == h.Length) && h.State != store.HaveNone && Satisfied(old, h) == Yes
}

// Effective is the want that decides about the file of a resource, of those of all sets of its Source: the newest that
// wants it there (or has to ask), else the newest that wants it gone. It is nil where nothing is to be done: refused
// wants do not act, and while one removal is held, none happens.
func Effective(wants []store.Want) *store.Want {
	var there, gone *store.Want
	held := false
	for i := range wants {
		w := &wants[i]
		switch {
		case w.State == store.WantNone || w.Refused != "":
		case w.Held:
			held = true
		case w.State == store.WantAbsent:
			gone = newest(gone, w)
		default:
			there = newest(there, w)
		}
	}
	if there != nil {
		return there
	}
	if held {
		return nil
	}
	return gone
}

// newest picks one of two wants whatever their order: by version, then the one that can be checked, then the older set.
func newest(a, b *store.Want) *store.Want {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}
	digests := func(w *store.Want) int { return min(1, len(w.Digests)) }
	if cmp.Or(
		cmp.Compare(a.Version.Until, b.Version.Until), cmp.Compare(a.Version.From, b.Version.From),
		cmp.Compare(digests(a), digests(b)), cmp.Compare(b.SetID, a.SetID),
	) >= 0 {
		return a
	}
	return b
}

// GuardMin is how many files a sweep may always remove.
const GuardMin = 10

// Hold is the sweep guard (CONTRIBUTING.md 8, P5): it leaves a removal by absence to the operator if the list is empty,
// or if more than guard (a share, 0.2 is 20 %) of the have files and more than GuardMin would go.
func Hold(listEmpty bool, wouldGo, have int64, guard float64) bool {
	if wouldGo <= 0 {
		return false
	}
	return listEmpty || wouldGo > GuardMin && float64(wouldGo) > guard*float64(have)
}
