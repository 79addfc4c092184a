// Package merge knows how versions of a resource stand to one another, and what an entry of a document does to what is
// known; it refuses to know where entries come from, and what becomes of its decisions.
package merge

import (
	"math/rand/v2"
	"strings"

	"resyncd/store"
)

// Order relates two versions.
type Order uint8

// The orders; Unordered means unknown.
const (
	Unordered Order = iota
	Older
	Newer
	SamePlace
)

// Relate compares instants, then places in one reading (F42, F43).
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

// Precedes reports that all of a is before b.
func Precedes(a, b store.Version) bool {
	if a.Document == b.Document && a.Document != 0 {
		return a.Until < b.From
	}
	return before(a.Until, b.From)
}

// Second is one second of Micros.
const Second store.Micros = 1e6

// before treats a whole second as an instant cut to it.
func before(a, b store.Micros) bool {
	return a < b && (a%Second != 0 || b-a >= Second)
}

// The Ordinal holds the reading above the place.
const readingShift = 32

// NewReading numbers a reading at random, which suffices across runs.
func NewReading() int64 { return (rand.Int64N(1<<30) + 1) << readingShift }

func readingOf(v store.Version) int64 { return v.Ordinal >> readingShift }

// SameReading reports two statements of one reading.
func SameReading(a, b store.Version) bool { return readingOf(a) != 0 && readingOf(a) == readingOf(b) }

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

// Clipped raises a version to the confirmed floor.
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

func later(a, b store.Version) store.Version {
	b.From, b.Until = max(a.From, b.From), max(a.Until, b.Until)
	return b
}

type likeness uint8

const (
	alike likeness = iota
	Unclear
	different
)

// Compare uses digests, then length, then Last-Modified.
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

func compareDigests(a, b string) likeness {
	switch agree, known := store.DigestsAgree(a, b); {
	case !known:
		return Unclear
	case agree:
		return alike
	}
	return different
}
