// Package merge knows how versions of a resource stand to one another, and what an entry of a document does to what is
// known; it refuses to know where entries come from, and what becomes of its decisions.
package merge

import (
	"math/rand/v2"
	"strings"

	"resyncd/store"
)

// Order is how one version stands to another.
type Order uint8

// The orders. Unordered: nothing that the Source gave tells which is the newer.
const (
	Unordered Order = iota
	Older
	Newer
	SamePlace
)

// Relate tells whether a is older or newer than b, by what can be compared: disjoint ranges of instants, and where they
// share an instant the places within one reading of one document (F42, F43). The same place of the same reading is no
// evidence of anything new. Places in two readings are not compared: an entry moves up in a list that is sorted anew or
// pruned.
func Relate(a, b store.Version) Order {
	switch {
	case Precedes(a, b):
		return Older
	case Precedes(b, a):
		return Newer
	case a.Document != b.Document || a.Document == 0 || readingOf(a) != readingOf(b):
		return Unordered
	case a.Ordinal < b.Ordinal:
		return Older
	case a.Ordinal > b.Ordinal:
		return Newer
	}
	return SamePlace
}

// precedes tells whether all of a is before b. One document gives all its times alike, with fractions or without.
func Precedes(a, b store.Version) bool {
	if a.Document == b.Document && a.Document != 0 {
		return a.Until < b.From
	}
	return before(a.Until, b.From)
}

const Second store.Micros = 1e6

// before tells whether a is provably before b. A whole second may be an instant that was cut to it, so it is not before
// any other instant of that second.
func before(a, b store.Micros) bool {
	return a < b && (a%Second != 0 || b-a >= Second)
}

// A version's Ordinal holds the reading above the place in the document.
const readingShift = 32

// newReading numbers a reading of documents. Readings are only ever told apart, so a random number does for those of
// other runs and processes too.
func NewReading() int64 { return (rand.Int64N(1<<30) + 1) << readingShift }

func readingOf(v store.Version) int64 { return v.Ordinal >> readingShift }

// sameReading tells two statements of one reading, be it of several parts of an index.
func SameReading(a, b store.Version) bool { return readingOf(a) != 0 && readingOf(a) == readingOf(b) }

// relateRow is Relate for a row that may be contested or settled. Its version is then that of several documents, and an
// order within one of them says nothing; only what that document said up to its place was known when the Source was
// asked.
func relateRow(c store.Version, row *store.Want, at store.Version) Order {
	overlap := !Precedes(at, c) && !Precedes(c, at)
	if row.State != store.WantAsk && !row.Settled || !overlap {
		return Relate(c, at)
	}
	if c.Document == at.Document && c.Document != 0 && readingOf(c) == readingOf(at) && c.Ordinal <= at.Ordinal {
		return SamePlace
	}
	return Unordered
}

// clipped is the version that a row really has: every row of a set is at least as new as the set's floor, because the
// baseline confirmed those it did not write. No document vouches for a version that was raised.
func Clipped(v store.Version, floor store.Micros) store.Version {
	if !floor.Known() || v.From >= floor {
		return v
	}
	if v.Until < floor {
		return store.Version{From: floor, Until: floor}
	}
	v.From = floor
	return v
}

// later is the version of the later of two events of which it is unknown which one that is.
func later(a, b store.Version) store.Version {
	b.From, b.Until = max(a.From, b.From), max(a.Until, b.Until)
	return b
}

// likeness is what two statements about a resource have to do with each other.
type likeness uint8

const (
	alike   likeness = iota
	Unclear          // nothing that both tell
	different
)

// compare tells whether two statements describe the same content. Digests decide where they can be compared, then the
// length, then Last-Modified. A want that was settled by asking tells nothing of the content: what the answer brought
// does, have, which may be nil. A contested row is like nothing.
func Compare(w *store.Want, have *store.Have, c Candidate) likeness {
	digests, length := w.Digests, w.Length
	if digests == "" && have != nil && have.State == store.HavePresent && have.Version == w.Version {
		digests, length = strings.TrimSpace(have.Checked+" "+DigestOf(have)), have.Length
	}
	switch {
	case w.State == store.WantAsk:
		return Unclear
	case w.State != c.State:
		return different
	case w.State == store.WantAbsent:
		return alike
	case length >= 0 && c.Length >= 0 && length != c.Length:
		return different
	}
	if l := compareDigests(digests, c.Digests); l != Unclear {
		return l
	}
	switch {
	case !w.LastMod.Known() || !c.LastMod.Known():
		return Unclear
	case w.LastMod == c.LastMod:
		return alike
	}
	return different
}

// compareDigests looks for the strongest algorithm that both lists have. They are as store.Want keeps them.
func compareDigests(a, b string) likeness {
	switch agree, known := store.DigestsAgree(a, b); {
	case !known:
		return Unclear
	case agree:
		return alike
	}
	return different
}
