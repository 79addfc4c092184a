package merge

import "resyncd/store"

// DateCut is the error of a Date in whole seconds.
const DateCut = Second - 1

// Skew is the tolerance for a Source's times beyond its clock (F40).
const Skew store.Micros = 5 * 60 * 1e6

// PlacerHead describes a change document.
type PlacerHead struct {
	From, Until store.Micros
	Read        store.Micros // by the Source's clock
	Document    int64
	Reading     int64 // NewReading's, or 0
}

// Stamp holds the times of an entry.
type Stamp struct {
	Datetime, LastMod store.Micros
	Deleted           bool
	Ordinal           int64
}

// Placer dates change entries (coverage.md 2) by datetime, ordered lastmod (1.0) or neighbours. A deletion's lastmod is
// only its earliest instant.
type Placer struct {
	head  PlacerHead
	limit store.Micros
	begun bool
	byMod bool
	lower store.Micros
	first store.Micros
	last  store.Micros
}

// NewPlacer drops a future interval, which would win over real changes (F40, F74).
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

// Last is the newest valid instant so far (OpenList), NoTime for none.
func (p *Placer) Last() store.Micros { return p.last }

// Place dates entries; the first call decides the style, so it needs many.
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

func (p *Placer) version(e *Stamp) store.Version {
	v := store.Version{Ordinal: e.Ordinal | p.head.Reading, Document: p.head.Document}
	at, exact := e.Datetime, true
	if !at.Known() && p.byMod && e.LastMod >= p.lower && e.LastMod <= p.limit {
		at, exact = e.LastMod, !e.Deleted
	}
	if at.Known() && p.head.Read.Known() && at > p.head.Read+Skew {
		at = store.NoTime // else an invented future wins (F40)
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

func (p *Placer) close(out []store.Version) {
	upper := p.head.Until
	switch {
	case upper.Known():
	case p.head.Read.Known():
		upper = p.head.Read + 999_999
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
