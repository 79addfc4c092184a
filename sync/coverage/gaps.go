package coverage

import (
	"time"

	"resyncd/store"
)

// What closes a gap, as contract.md 3 spells it.
const (
	ByNotification = "notification"
	ByChangeList   = "change-list"
	ByArchive      = "archive"
	ByBaseline     = "baseline"
)

// Hole is a gap under judgement: From is the position P, Until is f, where the interval behind it begins.
type Hole struct {
	store.Interval
	// Notice is the interval of the notification behind the hole; Empty if that announced no change.
	Notice store.Interval
	Empty  bool
}

// ListRead is a Change List that a pull read to its end.
type ListRead struct {
	Interval store.Interval // what it proves: [from, until], or OpenList
	Last     store.Micros   // newest instant inside, NoTime for none
	Archived bool
	// Holds: every change that the notification behind the hole announced is in it (Announcements).
	Holds bool
	// Unchanged: read again, at least list_lag after that notification, and the same as before.
	Unchanged bool
}

// GapVerdict is what a pull found out about a gap.
type GapVerdict struct {
	State    store.GapState // closed, lagging, or baseline: no list reaches back to the hole
	ClosedBy string
	// Until is how far joint coverage reaches now from the hole's From on (Coverage.Accept), beyond what the lists add
	// by themselves; NoTime for no further.
	Until store.Micros
}

// JudgeGap applies the rules of coverage.md 4 to the lists that a pull read. c is the coverage before they were added.
// A list that was refused or read in part must not be among them: it proves nothing.
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

// AfterPatience is the state of a gap that has been lagging for so long: a baseline is due once patience is over and
// the Source has a Resource List whose at is not before the end of the hole; else it stays open and visible.
func AfterPatience(lagging, patience time.Duration, at, holeUntil store.Micros) store.GapState {
	if lagging > patience && at.Known() && at >= holeUntil {
		return store.GapBaseline
	}
	return store.GapLagging
}

// Announced is one change that a notification announced.
type Announced struct {
	URI      string
	Change   string // created, updated or deleted
	Datetime store.Micros
	Digests  string // as in store.Want
}

type announcedKey struct {
	uri    string
	change string
	at     store.Micros
}

// Announcements finds the changes of a notification in a list: same URI, same change, same instant, same hash if one
// was given, equal ones counted as often (coverage.md 4, rule 3).
type Announcements struct {
	missing map[announcedKey][]string // the digests of those not found yet
	left    int
	undated bool
}

// NewAnnouncements takes what a notification announced.
func NewAnnouncements(all []Announced) *Announcements {
	a := &Announcements{missing: make(map[announcedKey][]string, len(all)), left: len(all)}
	for _, x := range all {
		a.undated = a.undated || !x.Datetime.Known()
		k := announcedKey{x.URI, x.Change, x.Datetime}
		a.missing[k] = append(a.missing[k], x.Digests)
	}
	return a
}

// Saw takes an entry of the list.
func (a *Announcements) Saw(x Announced) {
	k := announcedKey{x.URI, x.Change, x.Datetime}
	any := -1
	for i, digests := range a.missing[k] {
		if digests == "" {
			any = i
		} else if agree, _ := store.DigestsAgree(digests, x.Digests); agree {
			a.remove(k, i) // one that named its hash goes first, the others may take any entry
			return
		}
	}
	if any >= 0 {
		a.remove(k, any)
	}
}

func (a *Announcements) remove(k announcedKey, i int) {
	left := a.missing[k]
	left[i] = left[len(left)-1]
	a.missing[k] = left[:len(left)-1]
	a.left--
}

// Complete reports whether all were found. An undated announcement never is.
func (a *Announcements) Complete() bool { return a.left == 0 && !a.undated }

// Verdict is how the interval of a notification lies to the position (coverage.md 4).
type Verdict string

// The verdicts. Next: it goes on from the position. Stale: it ends before. Gap: something before it was missed.
// Unknown: it has no usable times, or the set has no position yet.
const (
	Next    Verdict = "next"
	Stale   Verdict = "stale"
	Gap     Verdict = "gap"
	Unknown Verdict = "unknown"
)

// Judge compares the interval of a notification with a position, all in Source time.
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
