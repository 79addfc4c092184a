package merge

import "resyncd/store"

// Candidate is an entry's statement.
type Candidate struct {
	State   store.WantState // present or absent
	Version store.Version
	Digests string
	Length  int64 // -1 unknown
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

// Contest is the row of Ask. No document vouches for it, because further entries may follow.
func (c Candidate) Contest(row *store.Want, floor store.Micros, setID int64) store.Want {
	w := c.Want(setID)
	w.State, w.Digests, w.Length, w.LastMod = store.WantAsk, "", -1, store.NoTime
	w.Version = Clipped(w.Version, floor)
	if row != nil && row.State != store.WantNone {
		w.Version = later(Clipped(row.Version, floor), w.Version)
	}
	return w
}

// Decision is an entry's effect on a row.
type Decision uint8

// The decisions; Ask leads to Contest.
const (
	Ignore Decision = iota
	Repeat
	Replace
	Ask
)

// Floor is the instant of the last complete baseline, NoTime before.
type Floor struct {
	At store.Micros
	// Estimated: the list did not vouch for At, so older differences may still hold.
	Estimated bool
}

// FloorOf is the floor of a set.
func FloorOf(s *store.Set) Floor { return Floor{At: s.Floor, Estimated: s.Estimated} }

// ByOperator is the ordinal of an operator's decision.
const ByOperator = -1

// Merge applies a change entry to a row, nil for none (coverage.md 1). Order, repetition and batching must not change
// the result.
func Merge(row *store.Want, have *store.Have, floor Floor, c Candidate) Decision {
	if floor.At.Known() && !floor.Estimated && before(c.Version.Until, floor.At) {
		return Ignore
	}
	v := Clipped(c.Version, floor.At)
	if row == nil || row.State == store.WantNone {
		return mergeUnknown(floor.At, v, c.State)
	}
	at := Clipped(row.Version, floor.At)
	like := Compare(row, have, c)
	order := relateRow(v, row, at)
	if order == Older && floor.Estimated && row.Generation > 0 {
		order = Unordered
	}
	switch order {
	case Older:
		return Ignore
	case Newer:
		return Replace
	case SamePlace:
		if like == different && !row.Settled {
			return Ask
		}
		return Repeat
	}
	inside := v.Until <= at.Until
	switch {
	case row.State == store.WantAsk && inside && v.Document != at.Document, like == alike && inside:
		return Repeat
	case row.Settled && inside && (like != different || readingOf(c.Version) == 0 ||
		SameReading(c.Version, row.Version)):
		// The Source's answer is newer; only a later reading's difference is asked again.
		return Ignore
	case like == alike:
		return Replace
	case like == Unclear && inside && Dated(v) && Dated(at) && v.From != floor.At && at.Document != 0:
		return Repeat
	}
	return Ask
}

func mergeUnknown(floor store.Micros, v store.Version, state store.WantState) Decision {
	switch {
	case !floor.Known() || before(floor, v.From):
		return Replace
	case state == store.WantPresent:
		return Ask
	case v.Until > floor:
		return Replace
	}
	return Repeat
}

// Dated reports a version of one instant.
func Dated(v store.Version) bool { return v.From == v.Until }

// Reading is the evidence of a list.
type Reading struct {
	// At is its instant.
	At store.Micros
	// Trusted: the list gave At and is as new as At, so At compares with changes.
	Trusted bool
	// Back: a time of the list went back, so nothing of it compares.
	Back bool
	// Reset: the history went back, so the list rules (F65, F73).
	Reset bool
	// Full believes only the bytes on disk.
	Full bool
}

// MergeBaseline applies a list entry to a row, nil for none. Provably newer changes stay and older ones go.
func MergeBaseline(row *store.Want, have *store.Have, floor Floor, c Candidate, r Reading) Decision {
	if row == nil || row.State == store.WantNone {
		return Replace
	}
	like := Compare(row, have, c)
	if r.Full && like == alike && c.Digests == "" && c.Length < 0 && c.State == store.WantPresent {
		like = Unclear
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
		return Replace
	}
	return Ask
}

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

// MergeUnlisted applies the absence from a list.
func MergeUnlisted(row *store.Want, floor Floor, r Reading) Decision {
	return MergeBaseline(row, nil, floor, Candidate{
		State: store.WantAbsent, Version: store.Version{From: r.At, Until: r.At}, Length: -1, LastMod: store.NoTime,
	}, r)
}

// Raised is never older than the row, or the file would pass for newer than its want.
func Raised(w store.Want, row *store.Want, floor store.Micros) store.Want {
	if row != nil && row.State != store.WantNone {
		w.Version = later(Clipped(row.Version, floor), w.Version)
	}
	return w
}

// Settle records the Source's answer, 2xx or 404 and 410 (P5). A want of an unfinished instant stays unsettled, or its
// next entry would not be asked about.
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
