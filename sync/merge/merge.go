package merge

import (
	"cmp"
	"encoding/hex"
	"slices"
	"strings"

	"resyncd/store"
)

// Candidate is what an entry says about a resource, a store.Want of no set yet.
type Candidate struct {
	State   store.WantState // present or absent
	Version store.Version
	Digests string // as in store.Want
	Length  int64  // -1 unknown
	LastMod store.Micros
	Type    string
	Links   string
	Left    bool // the selection leaves the resource out; a change is then one to absent
}

// Want returns the candidate as the want of a set.
func (c Candidate) Want(setID int64) store.Want {
	return store.Want{
		SetID: setID, State: c.State, Version: c.Version, Digests: c.Digests, Length: c.Length, LastMod: c.LastMod,
		Type: c.Type, Links: c.Links,
	}
}

// Contest is what Ask makes of a row (nil for none) and the candidate. The Source's answer is as new as the later of
// the two, and no document vouches for its bytes.
func (c Candidate) Contest(row *store.Want, floor store.Micros, setID int64) store.Want {
	w := c.Want(setID)
	w.State, w.Digests, w.Length, w.LastMod = store.WantAsk, "", -1, store.NoTime
	w.Version = Clipped(w.Version, floor)
	if row != nil && row.State != store.WantNone {
		w.Version = later(Clipped(row.Version, floor), w.Version)
		w.Links = cmp.Or(w.Links, row.Links) // no answer tells of links
	}
	return w
}

// Decision is what an entry does to the row of its resource.
type Decision uint8

// The decisions. Ignore: the entry is older or adds nothing. Repeat: it says what the row says. Replace: it is newer.
// Ask: they contradict each other, and nothing tells which is newer.
const (
	Ignore Decision = iota
	Repeat
	Replace
	Ask
)

// Floor is the instant of the last complete baseline of a set, NoTime before the first.
type Floor struct {
	At        store.Micros
	Estimated bool // the list did not vouch for At, so what is older and differs may not be over
}

// FloorOf is the floor of a set.
func FloorOf(s *store.Set) Floor { return Floor{At: s.Floor, Estimated: s.Estimated} }

// ByOperator is the ordinal of a version that the operator told, not a document.
const ByOperator = -1

// Merge lets an entry of a change document meet a row and its file, nil for none (coverage.md 1). Order, repetition and
// batching of entries make no difference to the wants, up to the Source's answers.
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
		return Ignore // asked after all of this had happened; what a later reading says differently is asked again
	case like == alike:
		return Replace // the same, perhaps later: a tombstone must not look older than it is
	case like == Unclear && inside && Dated(v) && Dated(at) && v.From != floor.At && at.Document != 0:
		return Repeat // one event told by two documents
	}
	return Ask
}

// mergeUnknown is Merge without a row, which with a floor means absent as of the floor.
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

// Dated reports whether a version is one instant.
func Dated(v store.Version) bool { return v.From == v.Until }

// Reading is what the reading of a Resource List is worth.
type Reading struct {
	At      store.Micros // the instant of the list
	Trusted bool         // At compares with instants of changes, because the list gave it and it grew with the list
	Back    bool         // the list is older than at an earlier reading, so nothing of it compares
	Reset   bool         // the Source's history went back, so the list rules (F65, F73)
	Full    bool         // only the bytes on disk are believed
}

// MergeBaseline lets an entry of a complete Resource List meet a row and its file, nil for none. A provably newer
// change stays, a provably older one goes, a row that the list proves right repeats, and all else is asked.
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

// mergeTwice is MergeBaseline for what this reading named before: the later place counts.
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

// MergeUnlisted lets a complete Resource List meet a row that it does not name; Replace makes that absent.
func MergeUnlisted(row *store.Want, floor Floor, r Reading) Decision {
	return MergeBaseline(row, nil, floor, Candidate{
		State: store.WantAbsent, Version: store.Version{From: r.At, Until: r.At}, Length: -1, LastMod: store.NoTime,
	}, r)
}

// Raised gives a want of a list no older version than the row had, or the file would pass for newer than the want.
func Raised(w store.Want, row *store.Want, floor store.Micros) store.Want {
	if row != nil && row.State != store.WantNone {
		w.Version = later(Clipped(row.Version, floor), w.Version)
	}
	return w
}

// Settle records the Source's answer to a contested want: a 2xx, or a 404 or 410 (P5). It speaks for what happened
// before asked, its Date, so an instant that was not over yet is asked about again.
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

// WorkFor is what makes the file what a want says, without regard to other sets.
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

// WorkForAll is WorkFor by the wants of all sets of a Source, of which one may owe what another does not.
func WorkForAll(wants []store.Want, h *store.Have, now store.Micros) store.Work {
	if w := Effective(wants); w != nil {
		return WorkFor(w, h, now)
	}
	return store.Work{}
}

// Replaced copies wants with another one of its set, or with one more in the order of sets, as the store has them.
func Replaced(wants []store.Want, next *store.Want) []store.Want {
	out := slices.Clone(wants)
	if i := slices.IndexFunc(out, func(w store.Want) bool { return w.SetID == next.SetID }); i >= 0 {
		out[i] = *next
		return out
	}
	out = append(out, *next)
	slices.SortFunc(out, func(a, b store.Want) int { return cmp.Compare(a.SetID, b.SetID) })
	return out
}

// Total adds a resource's difference to the totals of its sets in a commit.
func Total(c *store.Commit, before []store.Want, was *store.Have, after []store.Want, is *store.Have) {
	for i := range before {
		b := Counted(&before[i], was)
		a := Counted(&after[i], is)
		if a == b {
			continue
		}
		at := slices.IndexFunc(c.Sets, func(s store.SetChange) bool { return s.ID == before[i].SetID })
		if at < 0 {
			at = len(c.Sets)
			c.Sets = append(c.Sets, store.SetChange{ID: before[i].SetID})
		}
		c.Sets[at].Resources += a.Resources - b.Resources
		c.Sets[at].Bytes += a.Bytes - b.Bytes
	}
}

// Sum is a part of a set's totals.
type Sum struct{ Resources, Bytes int64 }

// Counted is what a resource adds to the totals.
func Counted(w *store.Want, h *store.Have) Sum {
	if (w.State == store.WantPresent || w.State == store.WantAsk || w.Held) && h.State != store.HaveNone {
		return Sum{1, h.Length}
	}
	return Sum{}
}

// Answer says whether a mirror file is what is wanted.
type Answer uint8

// The answers. No: it is not, or only a request can tell. HashLocally: reading the file decides.
const (
	No Answer = iota
	Yes
	HashLocally
)

// Satisfied compares a want with what is known of its file. Length and the strongest digest bind (F49, F50); without a
// digest the file must be of this version or a newer one. An absent want is satisfied by no file, and by a kept one.
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

// DigestOf is the digest by which each file is known.
func DigestOf(h *store.Have) string { return "sha-256:" + hex.EncodeToString(h.SHA256[:]) }

// sameBytes compares by the strongest digest, which comes first.
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

// CarryOver reports whether a file that satisfies the old want satisfies that of a baseline, which spares a request for
// each resource of a list without digests. An entry of a change document is an event of its own.
func CarryOver(old, new *store.Want, h *store.Have) bool {
	return old != nil && new.Generation > 0 && new.State == store.WantPresent && old.State == store.WantPresent &&
		new.Digests == "" && new.LastMod.Known() && new.LastMod == old.LastMod &&
		(new.Length < 0 || new.Length == h.Length) && h.State != store.HaveNone && Satisfied(old, h) == Yes
}

// Effective is the want of all sets that decides about a file: the newest that wants or asks for it, else the newest
// that wants it gone. It is nil where all are refused, or a removal is held.
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
	if there != nil || held {
		return there
	}
	return gone
}

// newest picks one of two wants: by version, then the one that can be checked, then the older set.
func newest(a, b *store.Want) *store.Want {
	if a == nil {
		return b
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

// GuardMin files may always be removed by a sweep.
const GuardMin = 10

// Hold is the sweep guard (CONTRIBUTING.md 8, P5): the operator decides if the list is empty, or if more than GuardMin
// files and more than that share of all would go.
func Hold(listEmpty bool, wouldGo, have int64, share float64) bool {
	return wouldGo > 0 && (listEmpty || wouldGo > GuardMin && float64(wouldGo) > share*float64(have))
}
