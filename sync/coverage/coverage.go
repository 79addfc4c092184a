// Package coverage knows which intervals of a Source's time are proven, and what closes a hole in them; it refuses to
// know documents, notifications and clocks.
package coverage

import (
	"cmp"
	"slices"

	"resyncd/store"
)

// Coverage are the sorted closed intervals of Source time in which no change of a set is missed (coverage.md 3).
// Methods never write into the slices they were given.
type Coverage struct {
	// Floor is A of the last complete baseline, or where a set without one begins; NoTime before.
	Floor store.Micros
	// Proven is what documents prove, Joint that and signed notifications together. A baseline begins right before
	// Floor.
	Proven, Joint []store.Interval
}

// OpenList is what an open Change List from an instant proves; last is that of its newest entry, in which more may
// happen, NoTime for none. Where both are one, it begins right before, so that the hole before it is seen.
func OpenList(from, last store.Micros) store.Interval {
	if !last.Known() || last < from {
		return store.Interval{From: from, Until: from}
	}
	return store.Interval{From: min(from, last-1), Until: last - 1}
}

// Clip cuts an interval at the Source's clock, beyond which nothing is proven (F40). It may become empty.
func Clip(iv store.Interval, limit store.Micros) store.Interval {
	iv.Until = min(iv.Until, limit)
	return iv
}

// Clone returns a copy that shares nothing.
func (c *Coverage) Clone() Coverage {
	return Coverage{Floor: c.Floor, Proven: slices.Clone(c.Proven), Joint: slices.Clone(c.Joint)}
}

// Usable reports whether an interval holds something.
func Usable(iv store.Interval) bool {
	return iv.From.Known() && iv.Until.Known() && iv.From <= iv.Until
}

// AddDocument adds what a Change List proves. Empty and unknown intervals add nothing.
func (c *Coverage) AddDocument(iv store.Interval) {
	if Usable(iv) {
		c.Proven = c.joined(append(c.wide(c.Proven), iv), touch)
		c.rejoin(c.Joint)
	}
}

// AddNotification adds what a signed notification proves until limit, the Source's clock; nothing where that is
// unknown.
func (c *Coverage) AddNotification(iv store.Interval, limit store.Micros) {
	if iv = Clip(iv, limit); Usable(iv) {
		c.rejoin(append(slices.Clip(c.Joint), iv))
	}
}

// AddBaseline adds a complete baseline as of a. What was known beyond stays; one older than the last adds nothing.
func (c *Coverage) AddBaseline(a store.Micros) {
	if !a.Known() || c.Floor.Known() && a < c.Floor {
		return
	}
	c.Floor = a
	c.AddDocument(store.Interval{From: store.Beginning, Until: a - 1})
}

// Reset begins anew with a baseline as of a, because the Source's history went back (F65, F73). Only here, and where
// the selection changes, a position decreases.
func (c *Coverage) Reset(a store.Micros) {
	if a.Known() {
		*c = Coverage{Floor: store.NoTime}
		c.AddBaseline(a)
	}
}

// StartAt makes a set without a floor begin at t.
func (c *Coverage) StartAt(t store.Micros) {
	if !c.Floor.Known() {
		c.AddBaseline(t)
	}
}

// Accept covers an interval in Joint by the rules 2 to 4 for closing a gap (coverage.md 4), so that it joins all that
// it touches.
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

// Position is P, up to which nothing is missed; NoTime without a floor.
func (c *Coverage) Position() store.Micros { return c.end(c.Joint) }

// ProvenPosition is that of documents alone; a scheduled pull goes on from here.
func (c *Coverage) ProvenPosition() store.Micros { return c.end(c.Proven) }

func (c *Coverage) end(list []store.Interval) store.Micros {
	if !c.Floor.Known() || len(list) == 0 {
		return store.NoTime
	}
	return list[0].Until
}

// FirstHole is the first hole in Proven, from the proven position to where the next interval begins.
func (c *Coverage) FirstHole() (store.Interval, bool) {
	if holes := c.holes(c.Proven); len(holes) > 0 {
		return holes[0], true
	}
	return store.Interval{}, false
}

// Unheard are the holes in Joint that end where a notification begins; the others are the business of documents.
func (c *Coverage) Unheard() []store.Interval {
	return slices.DeleteFunc(c.holes(c.Joint), func(h store.Interval) bool {
		return slices.ContainsFunc(c.Proven, func(p store.Interval) bool { return p.From == h.Until })
	})
}

// holes are those behind the position. One between intervals that touch unjoined is an instant wide, or nothing.
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

// rejoin makes Joint of Proven and the given intervals.
func (c *Coverage) rejoin(joint []store.Interval) {
	proven := c.wide(c.Proven)
	all := slices.DeleteFunc(c.wide(joint), func(j store.Interval) bool { return within(j, proven) })
	c.Joint = c.joined(append(all, proven...), func(a, b store.Interval) bool { return joins(a, b, proven) })
}

// joined sorts intervals and makes one of each two neighbours that are one.
func (c *Coverage) joined(list []store.Interval, one func(a, b store.Interval) bool) []store.Interval {
	slices.SortFunc(list, func(a, b store.Interval) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Until, b.Until))
	})
	out := list[:min(1, len(list))]
	for _, next := range list[len(out):] {
		if last := &out[len(out)-1]; one(*last, next) {
			last.Until = max(last.Until, next.Until)
		} else {
			out = append(out, next)
		}
	}
	if c.Floor.Known() && len(out) > 0 && out[0].From < c.Floor {
		out[0].From = c.Floor - 1 // nothing is kept of what was before
	}
	return out
}

// joins reports whether a, and b that does not begin before it, are one interval of Joint: they overlap, or touch with
// ends of one kind. A lost notification that ends where a document ends would stay hidden otherwise.
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

// touch reports whether b begins not later than right behind the end of a.
func touch(a, b store.Interval) bool { return b.From-1 <= a.Until }

func within(iv store.Interval, list []store.Interval) bool {
	return slices.ContainsFunc(list, func(p store.Interval) bool { return p.From <= iv.From && iv.Until <= p.Until })
}

// wide copies a list and lets what begins before the floor begin where time does, because a baseline tells all before
// it.
func (c *Coverage) wide(list []store.Interval) []store.Interval {
	list = slices.Clone(list)
	for i := range list {
		if c.Floor.Known() && list[i].From < c.Floor {
			list[i].From = store.Beginning
		}
	}
	return list
}

// What closes a gap, as contract.md 3 spells it.
const (
	ByNotification = "notification"
	ByChangeList   = "change-list"
	ByArchive      = "archive"
	ByChangeDump   = "change-dump"
	ByBaseline     = "baseline"
)

// Hole is a gap under judgement, from the position to where the interval behind it begins.
type Hole struct {
	store.Interval
	Notice store.Interval // of the notification behind it
	Empty  bool           // that announced no change
}

// ListRead is a Change List that a pull read to its end.
type ListRead struct {
	Interval store.Interval // what it proves: [from, until], or OpenList
	Last     store.Micros   // newest instant inside, NoTime for none
	Archived bool
	Holds    bool // all that the notification behind the hole announced
	// Unchanged: it was read at least list_lag after that notification, and is as it was before.
	Unchanged bool
}

// GapVerdict is what a pull found out about a gap.
type GapVerdict struct {
	State    store.GapState // closed, lagging, or baseline: no list reaches back to the hole
	ClosedBy string
	// Until is how far Coverage.Accept reaches from the hole on; NoTime for no further than the lists.
	Until store.Micros
}

// JudgeGap applies the rules of coverage.md 4 to the lists that a pull read to their ends. c is the coverage before.
func JudgeGap(c Coverage, hole Hole, lists []ListRead) GapVerdict {
	reaches, provenEnd := false, false
	for _, p := range c.Proven {
		provenEnd = provenEnd || p.Until == hole.From
	}
	for _, archived := range []bool{false, true} { // rule 1: a list, or a chain without a hole
		for _, l := range lists {
			if l.Archived == archived {
				c.AddDocument(l.Interval)
				reaches = reaches || l.Interval.From <= hole.From
			}
		}
		if c.Position() >= hole.Until {
			return closedBy(archived, store.NoTime)
		}
	}
	for _, l := range lists {
		from := l.Interval.From
		switch {
		case from > hole.From:
		case l.Last.Known() && l.Last > hole.Until: // rule 2: order and completeness [9]
			return closedBy(l.Archived, l.Interval.Until)
		case !hole.Empty && l.Holds && (from < hole.From || provenEnd): // rule 3: at least as fresh as the notification
			return closedBy(l.Archived, hole.Notice.Until)
		case hole.Empty && l.Unchanged: // rule 4: a single read proves nothing, because lists lag
			return closedBy(l.Archived, hole.Until)
		}
	}
	if reaches {
		return GapVerdict{State: store.GapLagging, Until: store.NoTime}
	}
	return GapVerdict{State: store.GapBaseline, Until: store.NoTime}
}

func closedBy(archived bool, until store.Micros) GapVerdict {
	by := ByChangeList
	if archived {
		by = ByArchive
	}
	return GapVerdict{State: store.GapClosed, ClosedBy: by, Until: until}
}

// Announced is one change that a notification announced.
type Announced struct {
	URI      string
	Change   string // created, updated or deleted
	Datetime store.Micros
	Digests  string // as in store.Want
}

// Announcements finds the changes of a notification in a list (coverage.md 4, rule 3).
type Announcements struct {
	missing map[Announced][]string // the digests of those not found yet, by what they are without
	left    int
	undated bool
}

// NewAnnouncements takes what a notification announced.
func NewAnnouncements(all []Announced) *Announcements {
	a := &Announcements{missing: make(map[Announced][]string, len(all)), left: len(all)}
	for _, x := range all {
		digests := x.Digests
		x.Digests = ""
		a.missing[x] = append(a.missing[x], digests)
		a.undated = a.undated || !x.Datetime.Known()
	}
	return a
}

// Saw takes an entry of the list.
func (a *Announcements) Saw(x Announced) {
	digests := x.Digests
	x.Digests = ""
	left := a.missing[x]
	i := slices.IndexFunc(left, func(told string) bool {
		agree, _ := store.DigestsAgree(told, digests)
		return agree
	})
	if i < 0 { // one that named its hash goes first, the others may take any entry
		i = slices.Index(left, "")
	}
	if i >= 0 {
		a.missing[x] = slices.Delete(left, i, i+1)
		a.left--
	}
}

// Complete reports whether all were found. An undated announcement never is.
func (a *Announcements) Complete() bool { return a.left == 0 && !a.undated }

// Verdict is how the interval of a notification lies to the position (coverage.md 4).
type Verdict string

// The verdicts. Next goes on from the position, Stale ends before, and before a Gap something was missed. Unknown has
// no usable times, or the set no position.
const (
	Next    Verdict = "next"
	Stale   Verdict = "stale"
	Gap     Verdict = "gap"
	Unknown Verdict = "unknown"
)

// Judge compares the interval of a notification with a position.
func Judge(iv store.Interval, position store.Micros) Verdict {
	switch {
	case !Usable(iv) || !position.Known():
		return Unknown
	case iv.Until <= position:
		return Stale
	case iv.From > position:
		return Gap
	}
	return Next
}
