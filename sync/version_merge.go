package sync

import "resyncd/store"

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

// Contest is the row that a Decision of Ask makes of row (nil: none) and the candidate: the Source's answer decides, and
// what is recorded then is as new as the later of the two. No document vouches for the bytes that it brings: further
// entries of the same time may follow, and only the answer tells which one was the last.
func (c Candidate) Contest(row *store.Want, floor store.Micros, setID int64) store.Want {
	w := c.Want(setID)
	w.State, w.Digests, w.Length, w.LastMod = store.WantAsk, "", -1, store.NoTime
	w.Version = effective(w.Version, floor)
	if row != nil && row.State != store.WantNone {
		w.Version = later(effective(row.Version, floor), w.Version)
	}
	return w
}

// Decision is what an entry does to the row of its resource.
type Decision uint8

// The decisions. Ignore: the entry is older or adds nothing. Repeat: it says what the row says. Replace: the row becomes
// what the entry says. Ask: they contradict each other and nothing tells which is newer, see Contest.
const (
	Ignore Decision = iota
	Repeat
	Replace
	Ask
)

// Merge lets an entry of a change document meet the row of its resource, nil for none (coverage.md 1): newest wins, and
// where that cannot be told and the contents may differ, the Source is asked. Any order, repetition or batching of the
// same entries ends with the same wants, up to the Source's answers.
func Merge(row *store.Want, floor store.Micros, c Candidate) Decision {
	if floor.Known() && c.Version.Until < floor {
		return Ignore // else a late notification raises the dead
	}
	v := effective(c.Version, floor)
	if row == nil || row.State == store.WantNone {
		return mergeUnknown(floor, v, c.State)
	}
	at := effective(row.Version, floor)
	like := compare(row, c)
	switch relateRow(v, row, at) {
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
	case row.Settled && inside:
		return Ignore // the Source was asked after all of this had happened
	case like == alike:
		return Replace // the same, perhaps later: a tombstone must not look older than it is
	case like == unclear && inside && dated(v) && dated(at) && v.From != floor && at.Document != 0:
		return Repeat // one event told by two documents
	}
	return Ask
}

// mergeUnknown is Merge for a resource that no row tells of. With a floor that means absent as of the floor.
func mergeUnknown(floor store.Micros, v store.Version, state store.WantState) Decision {
	switch {
	case !floor.Known() || v.From > floor:
		return Replace
	case state == store.WantPresent:
		return Ask
	case v.Until > floor:
		return Replace // a tombstone, because it may be newer
	}
	return Repeat
}

// dated tells a version that is one instant.
func dated(v store.Version) bool { return v.From == v.Until }

// MergeBaseline lets an entry of a complete Resource List as of at meet the row of its resource, nil for none. The list
// rules for everything up to at; a row that changed after it keeps. reset is a baseline after the Source's history went
// back: then the list rules in any case (F65, F73). A row that the list proves right is left as it is (Repeat), whatever
// its version, because the floor will speak for it.
func MergeBaseline(row *store.Want, floor, at store.Micros, c Candidate, reset bool) Decision {
	if row == nil || row.State == store.WantNone {
		return Replace
	}
	like := compare(row, c)
	if reset {
		if like == alike && !row.Held && row.Version.Until <= at {
			return Repeat
		}
		return Replace
	}
	if floor.Known() && at < floor {
		return Ignore
	}
	v := effective(row.Version, floor)
	now := store.Version{From: at, Until: at, Ordinal: c.Version.Ordinal, Document: c.Version.Document}
	if v.From > at {
		return Ignore
	}
	if like == alike {
		return Repeat
	}
	switch relateRow(now, row, v) {
	case Newer:
		return Replace // unclear too: a list that tells nothing of the content has every resource asked for again
	case SamePlace: // this very list, read again
		if like == different && !row.Settled {
			return Replace
		}
		return Repeat
	case Older: // an earlier place of this list
		return Ignore
	}
	if row.Settled {
		return Ignore
	}
	return Ask
}

// MergeUnlisted lets a complete Resource List as of at meet a row whose resource it does not name: Replace makes it absent
// as of at. Held and refused rows are rows like others.
func MergeUnlisted(row *store.Want, floor, at store.Micros, reset bool) Decision {
	return MergeBaseline(row, floor, at, Candidate{
		State: store.WantAbsent, Version: store.Version{From: at, Until: at}, Length: -1, LastMod: store.NoTime,
	}, reset)
}

// Settle records the Source's own answer to a contested want: present is a 2xx, absent a 404 or 410 (P5). asked is the
// Source's clock then (Date). The answer speaks for everything that happened before that second, for nothing later. Where
// the contested instant is not over yet, it is not settled and no document vouches for it: the next entry of that instant
// is asked about again.
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
