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

// Hole is a gap.
type Hole struct {
	store.Interval
	// Notice is the notification behind; Empty without changes.
	Notice store.Interval
	Empty  bool
}

// ListRead is a list read to its end.
type ListRead struct {
	Interval store.Interval
	Last     store.Micros
	Archived bool
	// Holds: the notification is in it.
	Holds bool
	// Unchanged: the same again, at least list_lag later.
	Unchanged bool
}

// GapVerdict judges a gap.
type GapVerdict struct {
	State    store.GapState
	ClosedBy string
	// Until is the new joint end, NoTime for none.
	Until store.Micros
}

// JudgeGap applies coverage.md 4. A refused or partly read list proves nothing and must not be in lists.
func JudgeGap(c Coverage, hole Hole, lists []ListRead) GapVerdict {
	reaches, provenEnd := false, false
	for _, p := range c.Proven {
		provenEnd = provenEnd || p.Until == hole.From
	}
	for _, archived := range []bool{false, true} { // rule 1
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
		case l.Last.Known() && l.Last > hole.Until: // rule 2
			return closedBy(l.Archived, l.Interval.Until)
		case !hole.Empty && l.Holds && (from < hole.From || provenEnd): // rule 3
			return closedBy(l.Archived, hole.Notice.Until)
		case hole.Empty && l.Unchanged: // rule 4: lists lag
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

// AfterPatience needs a Resource List that reaches the hole's end.
func AfterPatience(lagging, patience time.Duration, at, holeUntil store.Micros) store.GapState {
	if lagging > patience && at.Known() && at >= holeUntil {
		return store.GapBaseline
	}
	return store.GapLagging
}

// Announced is one change of a notification.
type Announced struct {
	URI      string
	Change   string
	Datetime store.Micros
	Digests  string
}

type announcedKey struct {
	uri    string
	change string
	at     store.Micros
}

// Announcements finds a notification in a list (coverage.md 4).
type Announcements struct {
	missing map[announcedKey][]string // digests
	left    int
	undated bool
}

// NewAnnouncements begins with all of them missing.
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
			a.remove(k, i)
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

// Complete is false with an undated change.
func (a *Announcements) Complete() bool { return a.left == 0 && !a.undated }
