// Package merge knows how versions of a resource stand to one another, and what an entry does to a row. It refuses to
// know where entries come from, and what becomes of its decisions.
package merge

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"time"

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

// Relate compares disjoint ranges of instants, and where they share one the places in one reading of one document (F42,
// F43). In another reading an entry may have moved up.
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

// Precedes reports whether all of a is before b. One document gives all its times alike, with fractions or without.
func Precedes(a, b store.Version) bool {
	if a.Document == b.Document && a.Document != 0 {
		return a.Until < b.From
	}
	return before(a.Until, b.From)
}

// Second is a second of Source time.
const Second store.Micros = 1e6

// before reports whether a is provably before b. A whole second may be an instant that was cut to it.
func before(a, b store.Micros) bool {
	return a < b && (a%Second != 0 || b-a >= Second)
}

// A version's Ordinal holds the reading above the place in the document.
const readingShift = 32

// NewReading numbers a reading, by chance, because readings of all runs and processes are only told apart.
func NewReading() int64 { return (rand.Int64N(1<<30) + 1) << readingShift }

func readingOf(v store.Version) int64 { return v.Ordinal >> readingShift }

// SameReading reports whether one reading told both, be it of several parts of an index.
func SameReading(a, b store.Version) bool { return readingOf(a) != 0 && readingOf(a) == readingOf(b) }

// relateRow is Relate for a row that may be contested or settled, whose version is that of several documents. Only what
// one of them said up to its place was known when the Source was asked.
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

// Clipped raises a row's version to the floor, because the baseline confirmed each row. No document vouches for that.
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

// later is the version of the later of two events, whichever that is.
func later(a, b store.Version) store.Version {
	b.From, b.Until = max(a.From, b.From), max(a.Until, b.Until)
	return b
}

// likeness compares two statements about a resource.
type likeness uint8

const (
	alike   likeness = iota
	Unclear          // nothing that both tell
	different
)

// Compare compares contents by length, digests and then Last-Modified. Of a want that was settled by asking, have
// tells, nil for nothing; a contested row is like nothing.
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
	agree, known := store.DigestsAgree(digests, c.Digests)
	switch {
	case agree:
		return alike
	case known:
		return different
	case !w.LastMod.Known() || !c.LastMod.Known():
		return Unclear
	case w.LastMod == c.LastMod:
		return alike
	}
	return different
}

// DateCut is how much later it may be than a Date says, which is cut to whole seconds.
const DateCut = Second - 1

// Skew is how far a Source's times may lie beyond its own clock before they prove nothing (F40).
const Skew store.Micros = 5 * 60 * 1e6

// PlacerHead is what places the entries of a change document in time.
type PlacerHead struct {
	From, Until store.Micros // of its root; NoTime where absent
	Read        store.Micros // by the Source's clock (Date); an upper bound for what it tells
	Document    int64
	Reading     int64 // of NewReading; 0 for what never changes
}

// Stamp is when a change happened, as its entry says.
type Stamp struct {
	Datetime, LastMod store.Micros
	Deleted           bool
	Ordinal           int64
}

// Placer turns the entries of a change document, in order, into versions (coverage.md 2). An entry without an instant
// happened between the dated ones around it. The later of two has the earlier From only if its datetime says so.
type Placer struct {
	head  PlacerHead
	limit store.Micros // newest instant inside the interval
	begun bool
	byMod bool         // lastmod dates entries
	lower store.Micros // the dated instant before
	first store.Micros
	last  store.Micros
}

// NewPlacer begins a document. An interval in the future is none, or its undated entries would win until then (F40,
// F74).
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

// First is the oldest instant so far, NoTime for none.
func (p *Placer) First() store.Micros { return p.first }

// Last is the newest instant so far inside the interval and not in the future, NoTime for none.
func (p *Placer) Last() store.Micros { return p.last }

// Place returns the versions of the next entries. The first call decides on the style of the document, so it gets as
// many entries as memory allows. Undated ones at the end get the widest range, because what dates them may follow.
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

// inOrder reports whether lastmods date entries (1.0 style): there is no datetime, and they are in order and inside the
// interval. Those of deletions may be old, as the reference library writes them.
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

// version places one entry; Until is NoTime where the entries after it decide.
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

// close ends undated entries at the next dated instant inside the interval, the document's end, or the time of reading.
func (p *Placer) close(out []store.Version) {
	upper := p.head.Until
	switch {
	case upper.Known():
	case p.head.Read.Known():
		upper = p.head.Read + DateCut
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

// ItemFrom is where an item comes from.
type ItemFrom struct {
	Pushed   bool
	Uncached bool // read past all caches, so the Source says it now
	Full     bool // nothing that was known before is believed
	// Now is our clock, Limit the latest instant that a change can have.
	Now, Limit store.Micros
	// Shown is when the feed itself showed the item, by the Source's clock; NoTime for older documents and pushes.
	Shown store.Micros
	Page  string // URL of the document, "" of a push
}

// ItemMeta is what a row tells of an inline resource for people (store.Want.Meta).
type ItemMeta struct {
	Title     string     `json:"title,omitempty"`
	Author    string     `json:"author,omitempty"`
	Published *string    `json:"published,omitempty"`
	Updated   *string    `json:"updated,omitempty"`
	Source    string     `json:"source,omitempty"` // atom:source of an aggregated entry
	Pushed    *time.Time `json:"pushed,omitempty"` // by a notification, until the feed tells it
	// Links are the digests of the entries that link to this, by those of their keys.
	Links map[string]string `json:"links,omitempty"`
}

// String is as a row keeps it, "" for nothing.
func (m ItemMeta) String() string {
	b, err := json.Marshal(m)
	if err != nil || string(b) == "{}" {
		return ""
	}
	return string(b)
}

// MetaOf reads what a row tells.
func MetaOf(row *store.Want) (m ItemMeta) {
	if row.Meta != "" && json.Unmarshal([]byte(row.Meta), &m) != nil {
		return ItemMeta{}
	}
	return m
}

// PushedAt is when a notification brought what the row says; false if the feed told it.
func PushedAt(row *store.Want) (store.Micros, bool) {
	m := MetaOf(row)
	if m.Pushed == nil {
		return store.NoTime, false
	}
	return store.MicrosOf(*m.Pushed), true
}

// FeedLag is how long a feed may lag before it is believed rather than a push (S-71, P9).
const FeedLag = store.Micros(60 * 1e6)

// MergeItem lets an entry of a feed meet a row, nil for none (websub.md T-04): the newest wins, absence says nothing.
// Ask means to read the document past caches, which decides, because a Source may be restored from a backup.
func MergeItem(row *store.Want, c Candidate, from ItemFrom) Decision {
	if row == nil || row.State == store.WantNone {
		return Replace
	}
	at, v := row.Version.From, c.Version.From
	invented := at.Known() && at > from.Limit // a date in the future must not win for ever
	if SameItem(row, c) {
		switch _, pushed := PushedAt(row); {
		case pushed && !from.Pushed, v > at && !invented: // the feed confirms it
			return Replace
		}
		return Repeat
	}
	switch {
	case v > at, invented && !from.Pushed:
		return Replace
	case c.State == store.WantAbsent && row.State == store.WantPresent && !row.LastMod.Known() && from.Shown > at:
		return Replace // without dates the feed that shows its end now is right
	case v == at && v.Known() && c.State == store.WantAbsent: // deleted in the instant of its last change
		return Replace
	case v == at && v.Known() && row.State == store.WantAbsent && from.Pushed:
		return Ignore
	case v == at && row.State == store.WantAbsent && v.Known(): // asked below
	case v == at && from.Pushed:
		return Ask
	case v == at:
		return Replace // changed without a new date: the feed is read later than it was then
	case from.Pushed:
		if v.Known() {
			return Ignore
		}
		return Ask
	case !v.Known() && row.State == store.WantPresent && c.State == store.WantPresent:
		return Replace // it gives no dates any more
	case !v.Known() && row.State == store.WantAbsent && from.Shown > at:
		return Replace // it came back
	}
	pushed, ok := PushedAt(row)
	switch {
	case ok && from.Now-pushed < FeedLag: // the feed lags behind the push
	case from.Shown.Known() && from.Shown <= at && !(ok && at > from.Now):
		// an old copy, and none beside what a hub has dated ahead
	case !ok && c.State == store.WantAbsent:
	case from.Uncached:
		return Replace // nobody but the hub said otherwise, or the Source has changed its mind
	case ok || from.Full || from.Shown.Known():
		return Ask
	}
	return Ignore
}

// SameItem reports whether a row says what the candidate says.
func SameItem(row *store.Want, c Candidate) bool {
	return row.State == c.State && (c.State == store.WantAbsent || row.Digests == c.Digests)
}

// ToldBefore reports whether the feed itself has told what it shows.
func ToldBefore(row *store.Want, c Candidate) bool {
	return row != nil && SameItem(row, c) && MetaOf(row).Pushed == nil
}
