package main

import (
	"fmt"
	"strings"
	"time"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/console"
	"resyncd/store"
	syncengine "resyncd/sync"
)

// standing is all by which a Source is judged for people: how it stands as `status` has it, and what only the daemon knows.
type standing struct {
	status syncengine.SourceStatus // after Expect and Trouble
	now    time.Time

	configured, following bool
	push                  config.Push
	poll                  time.Duration  // the usual pause between two pulls
	next                  time.Time      // the next pull, as the timetable has it; zero: none
	gapPatience           time.Duration  // how long a list may lag
	feeds                 map[int64]bool // sets that are feeds
	halted                error          // why the mirror takes no files
	state                 error          // why the state database was not written last
	unread                error          // what kept the last pull from being whole; told by sets where there are any
	suspect               map[int64]bool // sets whose hub does not tell of changes
	rejected              string         // why a notification was not taken lately, "" for none
	deaf                  bool           // hubs cannot reach our callback
	owed                  *console.Item  // one that was tried in vain, nil for none
}

// finding is one thing worth saying about a Source or a set.
type finding struct {
	level      console.Level
	state, why string
}

// unprovableFor is how long a gap that nobody can close is told of first; it stays in the list of gaps.
const unprovableFor = 7 * 24 * time.Hour

// assess says how a Source stands, and what to do. The worst decides; others as bad are named.
func assess(s *standing) finding {
	switch {
	case !s.configured:
		return finding{console.Busy, "not configured", "It is not configured any more: its files stay as they are, and nobody follows it. Put it back into `sources` to go on."}
	case s.status.Paused:
		return finding{console.Warn, "paused", "Paused by an operator: nothing is pulled or fetched until Resume."}
	}
	found := aboutSource(s)
	for i := range s.status.Sets {
		found = append(found, aboutSet(s, &s.status.Sets[i])...)
	}
	return worst(found, inStep(s.status.Sets))
}

// assessSet is assess for one set.
func assessSet(s *standing, set *syncengine.SetStatus) finding {
	switch {
	case !s.configured, s.status.Paused, s.status.Problem != nil:
		return assess(s)
	}
	return worst(aboutSet(s, set), inStep([]syncengine.SetStatus{*set}))
}

// worst picks what decides, the first of those that are as bad, and appends what else is wrong. If nothing is as bad as
// what holds anyway, that decides.
func worst(found []finding, anyway finding) finding {
	var out finding
	for _, f := range found {
		if f.level > out.level {
			out = f
		}
	}
	if out.level == console.Good || out.level < anyway.level {
		out = anyway
	}
	said := map[string]bool{out.state: true}
	var also []string
	for _, f := range found {
		if f.level >= console.Warn && !said[f.state] || out.level == console.Good && f.why != "" {
			said[f.state] = true
			also = append(also, f.why)
		}
	}
	if len(also) > 0 {
		out.why = strings.TrimSpace(out.why + " " + strings.Join(also, " "))
	}
	return out
}

// inStep is what is said where nothing is wrong.
func inStep(sets []syncengine.SetStatus) finding {
	for i := range sets {
		if !sets[i].InStep {
			return finding{console.Busy, "catching up", "What the Source told is being carried out."}
		}
	}
	if len(sets) == 0 {
		return finding{console.Busy, "starting", "It was not read yet."}
	}
	return finding{console.Good, "in step", ""}
}

// aboutSource is what concerns the Source as a whole.
func aboutSource(s *standing) (found []finding) {
	say := func(level console.Level, state, format string, args ...any) {
		found = append(found, finding{level, state, fmt.Sprintf(format, args...)})
	}
	if s.state != nil {
		say(console.Bad, "state failing", "%s. Hubs are told to come again; work goes on by itself.", sentence(s.state.Error()))
	}
	switch {
	case s.halted != nil:
		found = append(found, haltedFor(s.halted))
	case len(s.status.Sets) == 0 && s.unread != nil:
		say(console.Bad, "failing", "%s", failing(s.unread.Error(), s))
	case s.status.Unread: // nor before this start
		say(console.Bad, "failing", "%s", failing(*s.status.Problem, s))
	case s.status.Problem != nil:
		say(console.Bad, "not working", "%s. Tried again every %s.", sentence(*s.status.Problem), span(tryAgain))
	case len(s.status.Sets) == 0 && s.following:
		say(console.Busy, "starting", "Its first pull is under way.")
	case !s.following:
		say(console.Busy, "waiting", "Nobody works on it just now; its turn comes within seconds.")
	}
	return found
}

// aboutSet is what concerns one set, the worst of its kind first.
func aboutSet(s *standing, set *syncengine.SetStatus) (found []finding) {
	say := func(level console.Level, state, format string, args ...any) {
		found = append(found, finding{level, state, fmt.Sprintf(format, args...)})
	}
	if set.Problem != nil && !isDisk(s, *set.Problem) {
		say(console.Bad, "failing", "%s", failing(*set.Problem, s))
	}
	if set.Held > 0 {
		say(console.Warn, "removals held", "%s held for you, because the new list lacks so many: Approve removes the files, Reject keeps them until the list changes.", count(set.Held, "removal is", "removals are"))
	}
	found = append(found, aboutOwed(s, set)...)
	found = append(found, aboutGaps(s, set)...)
	found = append(found, aboutPush(s, set)...)
	if late := lateSince(s, set); len(found) == 0 || !set.InStep && onlyGood(found) {
		if late != "" {
			say(console.Busy, "late", "%s", late)
		}
	}
	if set.Refused > 0 {
		say(console.Good, "", "%s outside scope or policy: `resyncd ls --refused` lists them, `scope` admits them.", count(set.Refused, "resource is", "resources are"))
	}
	return found
}

func onlyGood(found []finding) bool {
	for _, f := range found {
		if f.level > console.Good {
			return false
		}
	}
	return true
}

// isDisk: a pull that ended in a failure of the mirror says so of its set, and the halt says it better.
func isDisk(s *standing, problem string) bool {
	return s.halted != nil && strings.Contains(problem, s.halted.Error())
}

func aboutOwed(s *standing, set *syncengine.SetStatus) []finding {
	switch {
	case set.Owed == 0:
		return nil
	case s.halted != nil: // which says why
		return []finding{{console.Warn, "owed", count(set.Owed, "resource is", "resources are") + " owed until the mirror takes files."}}
	case s.owed == nil || s.owed.Attempts == 0:
		return []finding{{console.Busy, "fetching", count(set.Owed, "resource is", "resources are") + " being fetched."}}
	}
	why := fmt.Sprintf("%s owed.%s The last failure: %s.", count(set.Owed, "resource is", "resources are"), hint(s.owed.Reason), clipped(s.owed.Reason))
	if !s.owed.NextTry.IsZero() {
		why += " Tried again " + s.when(s.owed.NextTry) + "."
	}
	return []finding{{console.Warn, "owed", why}}
}

// aboutGaps tells of the oldest open gap, and of those that nobody can close and that are news.
func aboutGaps(s *standing, set *syncengine.SetStatus) (found []finding) {
	for i := range set.Gaps {
		g := &set.Gaps[i]
		if f, ok := aboutGap(s, g, s.feeds[set.ID]); ok {
			found = append(found, f)
			break // the oldest one; the page lists all
		}
	}
	return found
}

func aboutGap(s *standing, g *syncengine.GapStatus, feed bool) (finding, bool) {
	hole := fmt.Sprintf("between %s and %s", stampOf(at(g.From)), stampOf(at(g.Until)))
	state := store.GapState(g.State)
	switch {
	case state == store.GapLagging:
		why := fmt.Sprintf("The Source's list lags behind a notification since %s: it does not hold yet what happened %s. It is asked again and again", stampOf(g.Found.Time()), hole)
		if s.gapPatience > 0 {
			why += fmt.Sprintf("; after %s everything is compared", span(s.gapPatience))
		}
		return finding{console.Warn, "list lags", why + "."}, true
	case state == store.GapBaseline:
		return finding{console.Busy, "closing a gap", "No list reaches back to what happened " + hole + ": everything is compared."}, true
	case state.Open():
		return finding{console.Busy, "closing a gap", "Nothing was heard of what happened " + hole + ": the Source's list is asked."}, true
	case state != store.GapUnprovable || s.now.Sub(g.Ended.Time()) > unprovableFor:
		return finding{}, false
	case feed:
		return finding{console.Warn, "feed cut short", "The feed did not reach back: entries " + hole + " may be missing, nobody can tell. Pull more often, or ask the publisher for a longer feed."}, true
	}
	return finding{console.Warn, "unproven", "Nobody can prove what happened " + hole + ": everything is compared as soon as the Resource List changes."}, true
}

// lateSince says why a set is not known to be in step though nothing went wrong.
func lateSince(s *standing, set *syncengine.SetStatus) string {
	due := at(set.NextPull)
	switch {
	case set.InStep:
		return ""
	case set.LastPull == nil:
		return "Its first pull is under way."
	case !due.IsZero() && due.Before(s.now):
		return fmt.Sprintf("The pull that was due %s is under way or waits for its turn; the last one was %s.", s.when(due), s.when(at(set.LastPull)))
	}
	return ""
}
