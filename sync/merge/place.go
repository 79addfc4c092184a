package merge

import "resyncd/store"

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
