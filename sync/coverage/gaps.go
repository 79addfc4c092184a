package coverage

import (
	"slices"

	"resyncd/store"
)

// What closes a gap, as contract.md 3 spells it.
const (
	ByNotification = "notification"
	ByChangeList   = "change-list"
	ByArchive      = "archive"
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
