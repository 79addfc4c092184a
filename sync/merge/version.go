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
// share an instant the places within one reading of one document (F42, F43). Places in two readings are not compared:
// an entry moves up in a list that is sorted anew or pruned.
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

// dateCut is how much later it may be than a Date says, which is cut to whole seconds.
const DateCut = Second - 1

// skew is how far a Source's times may lie beyond its own clock before they prove nothing (F40).
const Skew store.Micros = 5 * 60 * 1e6

// PlacerHead is what places the entries of a change document in time.
type PlacerHead struct {
	From, Until store.Micros // of its root; NoTime where absent
	Read        store.Micros // when it was read, by the Source's clock (Date); an upper bound for what it tells
	Document    int64
	Reading     int64 // newReading's; 0 for what is the same whenever it is read
}

// Stamp is what an entry says about when its change happened.
type Stamp struct {
	Datetime, LastMod store.Micros
	Deleted           bool
	Ordinal           int64
}

// Placer turns the entries of one change document, in the order of the document, into versions (coverage.md 2):
//
//   - an entry with datetime happened at that instant, be it outside the document's interval; one dated beyond the time
//     of reading and a little skew counts as undated;
//   - in a document without any datetime (1.0 style), lastmod is that instant if the lastmods of all that was created
//     or updated are in order and inside the interval. The lastmod of a deletion is only its earliest instant, because
//     the reference library writes the file's old time there;
//   - any other entry happened between the dated entries around it.
//
// The order of the document is kept: of two entries, the later one never has the earlier From, unless its own datetime
// says so. A Placer is for one goroutine.
type Placer struct {
	head  PlacerHead
	limit store.Micros // newest instant inside the interval
	begun bool
	byMod bool         // lastmod dates entries
	lower store.Micros // the dated instant before
	first store.Micros
	last  store.Micros
}

// NewPlacer begins a document. An interval in the future is none: what has no time of its own in it would win over
// every real change until then (F40, F74).
func NewPlacer(h PlacerHead) *Placer {
	limit := store.Forever
	if h.Read.Known() {
		limit = h.Read + Skew
	}
	if h.From.Known() && h.From > limit {
		h.From = store.NoTime
	}
	if h.Until.Known() && h.Until > limit {
		h.Until = store.NoTime
	}
	p := &Placer{head: h, limit: limit, lower: store.Beginning, first: store.NoTime, last: store.NoTime}
	if h.Until.Known() {
		p.limit = min(p.limit, h.Until)
	}
	if h.From.Known() {
		p.lower = h.From
	}
	return p
}

// First is the oldest instant that an entry so far names, NoTime for none.
func (p *Placer) First() store.Micros { return p.first }

// Last is the newest instant inside the interval and not in the future that an entry so far names, what OpenList asks
// for; NoTime for none.
func (p *Placer) Last() store.Micros { return p.last }

// Place returns the versions of the next entries, aligned with them. The style of a document is decided by the first
// call, so give it as many entries as memory allows. Undated entries at the end of a chunk get the widest range, for
// what dates them may follow.
func (p *Placer) Place(entries []Stamp) []store.Version {
	if !p.begun {
		p.begun, p.byMod = true, p.inOrder(entries)
	}
	out := make([]store.Version, len(entries))
	for i := range entries {
		out[i] = p.version(&entries[i])
	}
	p.close(out)
	return out
}

// inOrder tells a document of the 1.0 style.
func (p *Placer) inOrder(entries []Stamp) bool {
	before := p.lower
	for i := range entries {
		e := &entries[i]
		if e.Datetime.Known() {
			return false
		}
		if e.Deleted || !e.LastMod.Known() {
			continue
		}
		if e.LastMod < before || e.LastMod > p.limit {
			return false
		}
		before = e.LastMod
	}
	return true
}

// version is the version of one entry; Until is NoTime where the entries after it decide.
func (p *Placer) version(e *Stamp) store.Version {
	v := store.Version{Ordinal: e.Ordinal | p.head.Reading, Document: p.head.Document}
	at, exact := e.Datetime, true
	if !at.Known() && p.byMod && e.LastMod >= p.lower && e.LastMod <= p.limit {
		at, exact = e.LastMod, !e.Deleted
	}
	if at.Known() && p.head.Read.Known() && at > p.head.Read+Skew {
		at = store.NoTime // an invented future would win over every real change until then (F40)
	}
	switch {
	case !at.Known():
		v.From, v.Until = p.lower, store.NoTime
		return v
	case at > p.limit || p.head.From.Known() && at < p.head.From:
		v.From, v.Until = at, at
		return v
	}
	if p.lower = max(p.lower, at); !p.first.Known() || at < p.first {
		p.first = at
	}
	if !p.head.Read.Known() || at <= p.head.Read+DateCut {
		p.last = max(p.last, at)
	}
	v.From, v.Until = at, at
	if !exact {
		v.Until = store.NoTime
	}
	return v
}

// close gives undated entries the next dated instant inside the interval as the end of their range, those at the end
// the document's own end, or the time of reading.
func (p *Placer) close(out []store.Version) {
	upper := p.head.Until
	switch {
	case upper.Known():
	case p.head.Read.Known():
		upper = p.head.Read + 999_999 // a Date is cut to whole seconds
	default:
		upper = store.Forever
	}
	for i := len(out) - 1; i >= 0; i-- {
		switch v := &out[i]; {
		case v.Until == store.NoTime:
			v.Until = max(v.From, upper)
		case v.From <= p.limit && (!p.head.From.Known() || v.From >= p.head.From):
			upper = v.From
		}
	}
}
