// Package coverage knows which intervals of a Source's time are proven, and what closes a hole in them; it refuses to
// know documents, notifications and clocks.
package coverage

import (
	"cmp"
	"slices"

	"resyncd/store"
)

// Coverage holds intervals without a missed change (coverage.md 3). Touching intervals of Joint may stay apart, or a
// lost notification would stay hidden.
type Coverage struct {
	// Floor is A of the last complete baseline, NoTime before.
	Floor         store.Micros
	Proven, Joint []store.Interval
}

// OpenList ends 1 us before the newest entry of an open Change List, because more may happen in that instant.
func OpenList(from, last store.Micros) store.Interval {
	if !last.Known() || last < from {
		return store.Interval{From: from, Until: from}
	}
	return store.Interval{From: min(from, last-1), Until: last - 1}
}

// Clip cuts iv at the Source's clock (F40).
func Clip(iv store.Interval, limit store.Micros) store.Interval {
	iv.Until = min(iv.Until, limit)
	return iv
}

// Clone is a copy that shares nothing.
func (c *Coverage) Clone() Coverage {
	return Coverage{Floor: c.Floor, Proven: slices.Clone(c.Proven), Joint: slices.Clone(c.Joint)}
}

// Usable reports an interval that is not empty.
func Usable(iv store.Interval) bool {
	return iv.From.Known() && iv.Until.Known() && iv.From <= iv.Until
}

// AddDocument adds a Change List.
func (c *Coverage) AddDocument(iv store.Interval) {
	if Usable(iv) {
		c.add(iv, nil)
	}
}

// AddNotification adds a signed interval up to the Source's clock.
func (c *Coverage) AddNotification(iv store.Interval, limit store.Micros) {
	if iv = Clip(iv, limit); Usable(iv) {
		c.rejoin(append(slices.Clone(c.Joint), iv))
	}
}

// AddBaseline records a complete baseline as of a; a position never goes back.
func (c *Coverage) AddBaseline(a store.Micros) {
	if !a.Known() || c.Floor.Known() && a < c.Floor {
		return
	}
	c.add(store.Interval{From: store.Beginning, Until: a - 1}, &a)
}

// Reset records a baseline after the Source's history went back (F65, F73). No other call may decrease a position.
func (c *Coverage) Reset(a store.Micros) {
	if a.Known() {
		*c = Coverage{Floor: store.NoTime}
		c.AddBaseline(a)
	}
}

// StartAt gives a set its floor.
func (c *Coverage) StartAt(t store.Micros) {
	if !c.Floor.Known() {
		c.AddBaseline(t)
	}
}

// Skip gives up an unprovable hole (coverage.md 4).
func (c *Coverage) Skip(hole store.Interval) { c.AddDocument(hole) }

// Accept joins Joint over iv by other evidence (coverage.md 4).
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

// Position is the end of joint coverage, NoTime without a floor.
func (c *Coverage) Position() store.Micros { return c.end(c.Joint) }

// ProvenPosition is the end by documents alone.
func (c *Coverage) ProvenPosition() store.Micros { return c.end(c.Proven) }

func (c *Coverage) end(list []store.Interval) store.Micros {
	if !c.Floor.Known() || len(list) == 0 {
		return store.NoTime
	}
	return list[0].Until
}

// FirstHole is the first in Proven.
func (c *Coverage) FirstHole() (store.Interval, bool) {
	if holes := c.holes(c.Proven); len(holes) > 0 {
		return holes[0], true
	}
	return store.Interval{}, false
}

// Holes are those in Joint, in order.
func (c *Coverage) Holes() []store.Interval { return c.holes(c.Joint) }

// Unheard are the holes before notifications.
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

func touch(a, b store.Interval) bool { return b.From-1 <= a.Until }

func within(iv store.Interval, list []store.Interval) bool {
	return slices.ContainsFunc(list, func(p store.Interval) bool { return p.From <= iv.From && iv.Until <= p.Until })
}

func (c *Coverage) wide(list []store.Interval) []store.Interval {
	list = slices.Clone(list)
	for i := range list {
		if c.Floor.Known() && list[i].From < c.Floor {
			list[i].From = store.Beginning
		}
	}
	return list
}

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
