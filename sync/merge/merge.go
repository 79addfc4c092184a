package merge

import (
	"cmp"
	"encoding/hex"
	"strings"

	"resyncd/store"
)

// Candidate is what an entry of a document says about a resource: a store.Want of no set yet.
type Candidate struct {
	State   store.WantState // present or absent
	Version store.Version
	Digests string // as in store.Want
	Length  int64  // -1 unknown
	LastMod store.Micros
	Type    string
	Links   string
}

// Want is the candidate as the want of a set.
func (c Candidate) Want(setID int64) store.Want {
	return store.Want{
		SetID: setID, State: c.State, Version: c.Version, Digests: c.Digests, Length: c.Length, LastMod: c.LastMod,
		Type: c.Type, Links: c.Links,
	}
}

// Contest is the row that a Decision of Ask makes of row (nil: none) and the candidate: the Source's answer decides,
// and what is recorded then is as new as the later of the two. No document vouches for the bytes that it brings.
func (c Candidate) Contest(row *store.Want, floor store.Micros, setID int64) store.Want {
	w := c.Want(setID)
	w.State, w.Digests, w.Length, w.LastMod = store.WantAsk, "", -1, store.NoTime
	w.Version = Clipped(w.Version, floor)
	if row != nil && row.State != store.WantNone {
		w.Version = later(Clipped(row.Version, floor), w.Version)
	}
	return w
}

// Decision is what an entry does to the row of its resource.
type Decision uint8

// The decisions. Ignore: the entry is older or adds nothing. Repeat: it says what the row says. Replace: the row
// becomes what the entry says. Ask: they contradict each other and nothing tells which is newer, see Contest.
const (
	Ignore Decision = iota
	Repeat
	Replace
	Ask
)

// Floor is the instant as of which the last complete baseline of a set told everything, NoTime before the first.
type Floor struct {
	At store.Micros
	// Estimated: the list did not vouch for At, so what is older than that and differs is not known to be over.
	Estimated bool
}

func FloorOf(s *store.Set) Floor { return Floor{At: s.Floor, Estimated: s.Estimated} }

// byOperator is the ordinal of a version that no document tells: what the operator said of a list.
const ByOperator = -1

// Merge lets an entry of a change document meet the row of its resource, nil for none (coverage.md 1): newest wins, and
// where that cannot be told and the contents may differ, the Source is asked. have is what the row's resource has on
// disk, nil for nothing. Any order, repetition or batching of the same entries ends with the same wants, up to the
// Source's answers.
func Merge(row *store.Want, have *store.Have, floor Floor, c Candidate) Decision {
	if floor.At.Known() && !floor.Estimated && before(c.Version.Until, floor.At) {
		return Ignore // else a late notification raises the dead
	}
	v := Clipped(c.Version, floor.At)
	if row == nil || row.State == store.WantNone {
		return mergeUnknown(floor.At, v, c.State)
	}
	at := Clipped(row.Version, floor.At)
	like := Compare(row, have, c)
	order := relateRow(v, row, at)
	if order == Older && floor.Estimated && row.Generation > 0 {
		order = Unordered // the list did not vouch for the time of what it said
	}
	switch order {
	case Older:
		return Ignore
	case Newer:
		return Replace
	case SamePlace:
		if like == different && !row.Settled {
			return Ask // the document was rewritten under us
		}
		return Repeat
	}
	inside := v.Until <= at.Until // the entry cannot be newer than all that the row stands for
	switch {
	case row.State == store.WantAsk && inside && v.Document != at.Document, like == alike && inside:
		return Repeat
	case row.Settled && inside &&
		(like != different || readingOf(c.Version) == 0 || SameReading(c.Version, row.Version)):
		// The Source was asked after all of this had happened, by its Date. What a later reading says differently is
		// asked again.
		return Ignore
	case like == alike:
		return Replace // the same, perhaps later: a tombstone must not look older than it is
	case like == Unclear && inside && Dated(v) && Dated(at) && v.From != floor.At && at.Document != 0:
		return Repeat // one event told by two documents
	}
	return Ask
}

// mergeUnknown is Merge for a resource that no row tells of. With a floor that means absent as of the floor.
func mergeUnknown(floor store.Micros, v store.Version, state store.WantState) Decision {
	switch {
	case !floor.Known() || before(floor, v.From):
		return Replace
	case state == store.WantPresent:
		return Ask
	case v.Until > floor:
		return Replace // a tombstone, because it may be newer
	}
	return Repeat
}

// dated tells a version that is one instant.
func Dated(v store.Version) bool { return v.From == v.Until }

// Reading is what the reading of a list is worth: how its statements stand to what was known before.
type Reading struct {
	// At is the instant as of which the list speaks.
	At store.Micros
	// Trusted: the list gave At itself, and it grew with what the list says, so that it compares with instants of
	// changes.
	Trusted bool
	// Back: a time that the list gives is older than at an earlier reading, past caches too. Nothing of it compares.
	Back bool
	// Reset is a baseline after the Source's history went back: the list rules in any case (F65, F73).
	Reset bool
	// Full believes nothing that was known before but what the bytes on disk are.
	Full bool
}

// MergeBaseline lets an entry of a complete Resource List meet the row of its resource, nil for none. have is what that
// has on disk. A change that is provably newer than the list keeps, one that is provably older goes, a row that the
// list proves right stays as it is (Repeat), and everything else is asked.
func MergeBaseline(row *store.Want, have *store.Have, floor Floor, c Candidate, r Reading) Decision {
	if row == nil || row.State == store.WantNone {
		return Replace
	}
	like := Compare(row, have, c)
	if r.Full && like == alike && c.Digests == "" && c.Length < 0 && c.State == store.WantPresent {
		like = Unclear // that its Last-Modified is the same says nothing of bytes
	}
	if r.Reset {
		if like == alike && !row.Held && row.Version.Until <= r.At {
			return Repeat
		}
		return Replace
	}
	v := Clipped(row.Version, floor.At)
	if SameReading(row.Version, c.Version) {
		return mergeTwice(row, v, like, c)
	}
	listed := row.Generation > 0 && row.State != store.WantAsk && !row.Settled
	switch {
	case row.Version.Document == 0 && row.Version.Ordinal == ByOperator && r.At < v.From:
		return Ignore
	case !listed && r.Trusted && !r.Full && before(r.At, v.From):
		return Ignore
	case like == alike:
		return Repeat
	case listed && !r.Back, r.Trusted && !r.Back && before(v.Until, r.At):
		return Replace // unclear too: a list that tells nothing of the content has every resource asked for again
	}
	return Ask
}

// mergeTwice is MergeBaseline for a resource that this reading named before: of one list the later place counts.
func mergeTwice(row *store.Want, at store.Version, like likeness, c Candidate) Decision {
	switch {
	case like == alike:
		return Repeat
	case row.Settled:
		return Ignore
	case relateRow(c.Version, row, at) == Newer:
		return Replace
	case relateRow(c.Version, row, at) == Older, like == Unclear && row.State != store.WantAsk:
		return Repeat
	}
	return Ask
}

// MergeUnlisted lets a complete Resource List meet a row whose resource it does not name: Replace makes it absent as of
// the list. Held and refused rows are rows like others.
func MergeUnlisted(row *store.Want, floor Floor, r Reading) Decision {
	return MergeBaseline(row, nil, floor, Candidate{
		State: store.WantAbsent, Version: store.Version{From: r.At, Until: r.At}, Length: -1, LastMod: store.NoTime,
	}, r)
}

// raised is the want that a list makes of a row: never of an older version than what it replaces, or what is on disk
// would pass for newer than what is wanted.
func Raised(w store.Want, row *store.Want, floor store.Micros) store.Want {
	if row != nil && row.State != store.WantNone {
		w.Version = later(Clipped(row.Version, floor), w.Version)
	}
	return w
}

// Settle records the Source's own answer to a contested want: present is a 2xx, absent a 404 or 410 (P5). asked is the
// Source's clock then (Date): the answer speaks for all that happened before that second, and a contested instant that
// is not over yet is asked about again.
func Settle(w store.Want, present bool, asked store.Micros) store.Want {
	w.State = store.WantAbsent
	if present {
		w.State = store.WantPresent
	}
	w.Version.Until = max(w.Version.From, min(w.Version.Until, asked-1))
	if w.Settled = w.Version.Until < asked; !w.Settled {
		w.Version.Document, w.Version.Ordinal = 0, 0
	}
	return w
}

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
