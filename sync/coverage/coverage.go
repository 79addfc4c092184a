// Package coverage knows which intervals of a Source's time are proven, and what closes a hole in them; it refuses to
// know documents, notifications and clocks.
package coverage

import (
	"cmp"
	"slices"

	"resyncd/store"
)

// Coverage is what is known of the changes of one set: sorted closed intervals of Source time in which nothing is
// missed (coverage.md 3). Proven is what the Source's own documents prove; Joint is that and signed notifications
// together.
//
// A baseline's interval is stored as beginning one microsecond before Floor. Intervals of Joint may touch without being
// joined: a document and a notification join only where they share more than an instant, or a lost notification that
// ends where the document ends would stay hidden.
//
// Methods never write into the slices they were given.
type Coverage struct {
	// Floor is A of the last complete baseline, or where a set without one begins; NoTime before.
	Floor         store.Micros
	Proven, Joint []store.Interval
}

// OpenList is what an open Change List proves that begins at from and whose newest entry happened at last: it ends 1 us
// before that instant, in which more may happen; without a dated entry (NoTime) it is the instant from, never "now".
// One whose entries all have the instant of its from begins right before it, so that the hole before it is seen.
func OpenList(from, last store.Micros) store.Interval {
	if !last.Known() || last < from {
		return store.Interval{From: from, Until: from}
	}
	return store.Interval{From: min(from, last-1), Until: last - 1}
}

// Clip cuts iv at limit, the Source's clock, beyond which nothing that is said proves anything (F40). It may become
// empty.
func Clip(iv store.Interval, limit store.Micros) store.Interval {
	iv.Until = min(iv.Until, limit)
	return iv
}

// clone is a copy that shares nothing.
func (c *Coverage) Clone() Coverage {
	return Coverage{Floor: c.Floor, Proven: slices.Clone(c.Proven), Joint: slices.Clone(c.Joint)}
}

// usable tells an interval that holds something.
func Usable(iv store.Interval) bool {
	return iv.From.Known() && iv.Until.Known() && iv.From <= iv.Until
}

// AddDocument adds what a Change List proves. Empty and unknown intervals add nothing.
func (c *Coverage) AddDocument(iv store.Interval) {
	if Usable(iv) {
		c.add(iv, nil)
	}
}

// AddNotification adds what a signed notification proves together with the documents: nothing beyond limit, which is
// the Source's clock; nothing at all where that is unknown.
func (c *Coverage) AddNotification(iv store.Interval, limit store.Micros) {
	if iv = Clip(iv, limit); Usable(iv) {
		c.rejoin(append(slices.Clone(c.Joint), iv))
	}
}

// AddBaseline records a complete baseline as of a: everything before a is known. What was known beyond stays, so that a
// position never goes back; one older than the last adds nothing.
func (c *Coverage) AddBaseline(a store.Micros) {
	if !a.Known() || c.Floor.Known() && a < c.Floor {
		return
	}
	c.add(store.Interval{From: store.Beginning, Until: a - 1}, &a)
}

// Reset records a complete baseline as of a after the Source's history went back (F65, F73): nothing that was known
// before counts any more. It is the only way for a position to decrease.
func (c *Coverage) Reset(a store.Micros) {
	if a.Known() {
		*c = Coverage{Floor: store.NoTime}
		c.AddBaseline(a)
	}
}

// StartAt makes a set without a baseline begin at t: what happened before is nobody's business. It does nothing once
// there is a floor.
func (c *Coverage) StartAt(t store.Micros) {
	if !c.Floor.Known() {
		c.AddBaseline(t)
	}
}

// Skip gives up a hole that no document can prove, so that the set goes on behind it (coverage.md 4). The caller
// records it as unprovable.
func (c *Coverage) Skip(hole store.Interval) { c.AddDocument(hole) }

// Accept makes Joint one interval from the first instant to the last, on evidence that is no interval by itself: the
// rules 2 to 4 for closing a gap (coverage.md 4). Proven stays.
func (c *Coverage) Accept(iv store.Interval) {
	if !Usable(iv) {
		return
	}
	joint := make([]store.Interval, 0, len(c.Joint)+1)
	for _, j := range c.Joint {
		if j.Until < iv.From || j.From > iv.Until {
			joint = append(joint, j)
		} else {
			iv.From, iv.Until = min(iv.From, j.From), max(iv.Until, j.Until)
		}
	}
	c.rejoin(append(joint, iv))
}

// Position is P: up to here nothing is missed, as far as documents and signed notifications together say. NoTime before
// there is a floor.
func (c *Coverage) Position() store.Micros { return c.end(c.Joint) }

// ProvenPosition is the same for the Source's own documents alone; a scheduled pull goes on from here.
func (c *Coverage) ProvenPosition() store.Micros { return c.end(c.Proven) }

func (c *Coverage) end(list []store.Interval) store.Micros {
	if !c.Floor.Known() || len(list) == 0 {
		return store.NoTime
	}
	return list[0].Until
}

// FirstHole is the first hole in what documents prove: its From is the proven position and its Until where the next
// interval begins.
func (c *Coverage) FirstHole() (store.Interval, bool) {
	if holes := c.holes(c.Proven); len(holes) > 0 {
		return holes[0], true
	}
	return store.Interval{}, false
}

// Holes are the holes in Joint behind P, in order. Where two intervals touch without being joined, the hole is one
// instant wide or none: From is not before Until.
func (c *Coverage) Holes() []store.Interval { return c.holes(c.Joint) }

// Unheard are the holes in Joint that end where a notification begins; what ends where a document begins is the
// business of documents.
func (c *Coverage) Unheard() []store.Interval {
	return slices.DeleteFunc(c.Holes(), func(h store.Interval) bool {
		return slices.ContainsFunc(c.Proven, func(p store.Interval) bool { return p.From == h.Until })
	})
}

func (c *Coverage) holes(list []store.Interval) []store.Interval {
	if !c.Floor.Known() {
		return nil
	}
	var holes []store.Interval
	for i := 1; i < len(list); i++ {
		holes = append(holes, store.Interval{From: list[i-1].Until, Until: list[i].From})
	}
	return holes
}

// add joins a document's interval, and moves the floor if one is given.
func (c *Coverage) add(iv store.Interval, floor *store.Micros) {
	proven := append(c.wide(c.Proven), iv)
	joint := c.wide(c.Joint)
	if floor != nil {
		c.Floor = *floor
	}
	byFrom(proven)
	out := proven[:1]
	for _, next := range proven[1:] {
		if last := &out[len(out)-1]; touch(*last, next) {
			last.Until = max(last.Until, next.Until)
		} else {
			out = append(out, next)
		}
	}
	c.Proven = c.narrow(out)
	c.rejoin(joint)
}

// rejoin makes Joint anew out of what documents prove and the given joint intervals.
func (c *Coverage) rejoin(joint []store.Interval) {
	proven := c.wide(c.Proven)
	all := slices.Clone(proven)
	for _, j := range c.wide(joint) {
		if !within(j, proven) {
			all = append(all, j)
		}
	}
	byFrom(all)
	out := all[:min(1, len(all))]
	for _, next := range all[len(out):] {
		if last := &out[len(out)-1]; joins(*last, next, proven) {
			last.Until = max(last.Until, next.Until)
		} else {
			out = append(out, next)
		}
	}
	c.Joint = c.narrow(out)
}

// joins decides whether b, which does not begin before a, and a are one interval of Joint: they overlap, or they touch
// with ends of the same kind.
func joins(a, b store.Interval, proven []store.Interval) bool {
	if b.Until <= a.Until && b.From > a.From || b.From < min(a.Until, b.Until) {
		return true
	}
	if !touch(a, b) {
		return false
	}
	ends := slices.ContainsFunc(proven, func(p store.Interval) bool { return p.Until == a.Until })
	begins := slices.ContainsFunc(proven, func(p store.Interval) bool { return p.From == b.From })
	return ends == begins
}

// touch: b begins not later than right behind the end of a. Instants are whole microseconds, so neighbours touch.
func touch(a, b store.Interval) bool { return b.From-1 <= a.Until }

func within(iv store.Interval, list []store.Interval) bool {
	return slices.ContainsFunc(list, func(p store.Interval) bool { return p.From <= iv.From && iv.Until <= p.Until })
}

// wide is a copy of list in which what begins before the floor begins where time does, because a baseline says all
// about what was before it. So a notification from right before the floor overlaps it.
func (c *Coverage) wide(list []store.Interval) []store.Interval {
	list = slices.Clone(list)
	for i := range list {
		if c.Floor.Known() && list[i].From < c.Floor {
			list[i].From = store.Beginning
		}
	}
	return list
}

// narrow is the opposite of wide: nothing is stored of what lies before the baseline.
func (c *Coverage) narrow(list []store.Interval) []store.Interval {
	if c.Floor.Known() && len(list) > 0 && list[0].From < c.Floor {
		list[0].From = c.Floor - 1
	}
	return list
}

func byFrom(list []store.Interval) {
	slices.SortFunc(list, func(a, b store.Interval) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Until, b.Until))
	})
}
