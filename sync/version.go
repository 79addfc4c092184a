package sync

import (
	"strings"

	"resyncd/store"
)

// Order is how one version stands to another.
type Order uint8

// The orders. Unordered: the ranges of different documents overlap, neither can be told to be the newer.
const (
	Unordered Order = iota
	Older
	Newer
	SamePlace
)

// Relate tells whether a is older or newer than b (coverage.md 1). Disjoint ranges of instants decide; where they share an
// instant, the place within one document does (F42, F43), which Placer's ranges agree with. The same place of the same
// document is no evidence of anything new.
func Relate(a, b store.Version) Order {
	switch {
	case a.Until < b.From:
		return Older
	case a.From > b.Until:
		return Newer
	case a.Document != b.Document || a.Document == 0:
		return Unordered
	case a.Ordinal < b.Ordinal:
		return Older
	case a.Ordinal > b.Ordinal:
		return Newer
	}
	return SamePlace
}

// relateRow is Relate for a row that may be contested or settled. Its version is then that of several documents, and an
// order within one of them says nothing; only what that document said up to its place was known when the Source was asked.
func relateRow(c store.Version, row *store.Want, at store.Version) Order {
	overlap := c.From <= at.Until && at.From <= c.Until
	if row.State != store.WantAsk && !row.Settled || !overlap {
		return Relate(c, at)
	}
	if c.Document == at.Document && c.Document != 0 && c.Ordinal <= at.Ordinal {
		return SamePlace
	}
	return Unordered
}

// effective is the version that a row really has: every row of a set is at least as new as the set's floor, because the
// baseline confirmed those it did not write. No document vouches for a version that was raised.
func effective(v store.Version, floor store.Micros) store.Version {
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
	unclear          // nothing that both tell
	different
)

// compare tells whether two statements describe the same content. Digests decide where they can be compared, then the
// length, then Last-Modified. A contested row is like nothing.
func compare(w *store.Want, c Candidate) likeness {
	switch {
	case w.State == store.WantAsk:
		return unclear
	case w.State != c.State:
		return different
	case w.State == store.WantAbsent:
		return alike
	case w.Length >= 0 && c.Length >= 0 && w.Length != c.Length:
		return different
	}
	if l := compareDigests(w.Digests, c.Digests); l != unclear {
		return l
	}
	switch {
	case !w.LastMod.Known() || !c.LastMod.Known():
		return unclear
	case w.LastMod == c.LastMod:
		return alike
	}
	return different
}

// compareDigests looks for the strongest algorithm that both lists have. They are as store.Want keeps them.
func compareDigests(a, b string) likeness {
	for token := range strings.FieldsSeq(a) {
		alg, _, _ := strings.Cut(token, ":")
		if other := digestOfAlg(b, alg); other == token {
			return alike
		} else if other != "" {
			return different
		}
	}
	return unclear
}

// digestOfAlg is the digest of that algorithm in a list, "" where there is none.
func digestOfAlg(list, alg string) string {
	for token := range strings.FieldsSeq(list) {
		if len(token) > len(alg) && token[len(alg)] == ':' && token[:len(alg)] == alg {
			return token
		}
	}
	return ""
}
