// Package health knows how a Source stands, in words that say what to do, judged by its status and by what a daemon saw
// of it. It refuses to know where these come from.
package health

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/console"
	"resyncd/destination/fetch"
	"resyncd/store"
	"resyncd/sync/report"
)

// Standing is all by which a Source is judged for people: how it stands as `status` has it, and what only the daemon
// knows.
type Standing struct {
	Status report.SourceStatus // after Expect and Trouble
	Now    time.Time

	Configured, Following bool
	Push                  config.Push
	Poll                  time.Duration   // the usual pause between two pulls
	Again                 time.Duration   // how soon what cannot be worked on is tried again, at the latest
	Next                  time.Time       // the next pull, as the timetable has it; zero: none
	GapPatience           time.Duration   // how long a list may lag
	Feeds                 map[int64]bool  // sets that are feeds
	Halted                error           // why the mirror takes no files
	State                 error           // why the state database was not written last
	Unread                error           // what kept the last pull from being whole; told by sets where there are any
	Suspect               map[int64]bool  // sets whose hub does not tell of changes
	Rejected              string          // why a notification was not taken lately, "" for none
	Deaf                  bool            // hubs cannot reach our callback
	Owed                  *store.Resource // one that was tried in vain, nil for none
}

func finding(level console.Level, state, why string) console.Finding {
	return console.Finding{Level: level, State: state, Why: why}
}

// unprovableFor is how long a gap that nobody can close is told of first; it stays in the list of gaps.
const unprovableFor = 7 * 24 * time.Hour

// Assess says how a Source stands, and what to do. The worst decides; others as bad are named.
func Assess(s *Standing) console.Finding {
	switch {
	case !s.Configured:
		return finding(console.Busy, "not configured", "It is not configured any more: its files stay as they are, "+
			"and nobody follows it. Put it back into `sources` to go on.")
	case s.Status.Paused:
		return finding(console.Warn, "paused", "Paused by an operator: nothing is pulled or fetched until Resume.")
	}
	found := aboutSource(s)
	for i := range s.Status.Sets {
		found = append(found, aboutSet(s, &s.Status.Sets[i])...)
	}
	return worst(found, inStep(s.Status.Sets))
}

// AssessSet is assess for one set.
func AssessSet(s *Standing, set *report.SetStatus) console.Finding {
	switch {
	case !s.Configured, s.Status.Paused, s.Status.Problem != nil:
		return Assess(s)
	}
	return worst(aboutSet(s, set), inStep([]report.SetStatus{*set}))
}

// worst picks what decides, the first of those that are as bad, and appends what else is wrong. If nothing is as bad as
// what holds anyway, that decides.
func worst(found []console.Finding, anyway console.Finding) console.Finding {
	var out console.Finding
	for _, f := range found {
		if f.Level > out.Level {
			out = f
		}
	}
	if out.Level == console.Good || out.Level < anyway.Level {
		out = anyway
	}
	said := map[string]bool{out.State: true}
	var also []string
	for _, f := range found {
		if f.Level >= console.Warn && !said[f.State] || out.Level == console.Good && f.Why != "" {
			said[f.State] = true
			also = append(also, f.Why)
		}
	}
	if len(also) > 0 {
		out.Why = strings.TrimSpace(out.Why + " " + strings.Join(also, " "))
	}
	return out
}

// inStep is what is said where nothing is wrong.
func inStep(sets []report.SetStatus) console.Finding {
	for i := range sets {
		if !sets[i].InStep {
			return finding(console.Busy, "catching up", "What the Source told is being carried out.")
		}
	}
	if len(sets) == 0 {
		return finding(console.Busy, "starting", "It was not read yet.")
	}
	return finding(console.Good, "in step", "")
}

// aboutSource is what concerns the Source as a whole.
func aboutSource(s *Standing) (found []console.Finding) {
	say := func(level console.Level, state, format string, args ...any) {
		found = append(found, finding(level, state, fmt.Sprintf(format, args...)))
	}
	if s.State != nil {
		say(console.Bad, "state failing", "%s. Hubs are told to come again; work goes on by itself.",
			sentence(s.State.Error()))
	}
	switch {
	case s.Halted != nil:
		found = append(found, haltedFor(s.Halted))
	case len(s.Status.Sets) == 0 && s.Unread != nil:
		say(console.Bad, "failing", "%s", failing(s.Unread.Error(), fetch.CauseOf(s.Unread), s))
	case s.Status.Unread: // nor before this start
		say(console.Bad, "failing", "%s", failing(*s.Status.Problem, s.Status.Cause, s))
	case s.Status.Problem != nil:
		say(console.Bad, "not working", "%s. Tried again every %s.", sentence(*s.Status.Problem), console.Span(s.Again))
	case len(s.Status.Sets) == 0 && s.Following:
		say(console.Busy, "starting", "Its first pull is under way.")
	case !s.Following:
		say(console.Busy, "waiting", "Nobody works on it just now; its turn comes within seconds.")
	}
	return found
}

// aboutSet is what concerns one set, the worst of its kind first.
func aboutSet(s *Standing, set *report.SetStatus) (found []console.Finding) {
	say := func(level console.Level, state, format string, args ...any) {
		found = append(found, finding(level, state, fmt.Sprintf(format, args...)))
	}
	if set.Problem != nil && (s.Halted == nil || set.Cause != store.CauseDisk) { // the halt says it better
		say(console.Bad, "failing", "%s", failing(*set.Problem, set.Cause, s))
	}
	if set.Held > 0 {
		say(console.Warn, "removals held", "%s held for you, because the new list lacks so many: Approve removes the "+
			"files, Reject keeps them until the list changes.", count(set.Held, "removal is", "removals are"))
	}
	found = append(found, aboutOwed(s, set)...)
	found = append(found, aboutGaps(s, set)...)
	found = append(found, aboutPush(s, set)...)
	wrong := slices.ContainsFunc(found, func(f console.Finding) bool { return f.Level > console.Good })
	if late := lateSince(s, set); late != "" && !wrong {
		say(console.Busy, "late", "%s", late)
	}
	if set.Refused > 0 {
		say(console.Good, "", "%s outside scope or policy: `resyncd ls --refused` lists them, `scope` admits them.",
			count(set.Refused, "resource is", "resources are"))
	}
	return found
}

func aboutOwed(s *Standing, set *report.SetStatus) []console.Finding {
	switch {
	case set.Owed == 0:
		return nil
	case s.Halted != nil: // which says why
		return []console.Finding{finding(console.Warn, "owed", count(set.Owed, "resource is", "resources are")+
			" owed until the mirror takes files.")}
	case s.Owed == nil || s.Owed.Work.Attempts == 0:
		return []console.Finding{finding(console.Busy, "fetching", count(set.Owed, "resource is", "resources are")+
			" being fetched.")}
	}
	why := fmt.Sprintf("%s owed.%s The last failure: %s.", count(set.Owed, "resource is", "resources are"),
		hint(cmp.Or(s.Owed.Work.Cause, s.Owed.Work.Class)), Clipped(s.Owed.Work.Reason))
	if due := s.Owed.Work.Due.Time(); !due.IsZero() {
		why += " Tried again " + s.when(due) + "."
	}
	return []console.Finding{finding(console.Warn, "owed", why)}
}

// aboutGaps tells of the oldest gap that is open, or that nobody can close and that is news; the page lists all.
func aboutGaps(s *Standing, set *report.SetStatus) []console.Finding {
	for i := range set.Gaps {
		if f, ok := aboutGap(s, &set.Gaps[i], s.Feeds[set.ID]); ok {
			return []console.Finding{f}
		}
	}
	return nil
}

func aboutGap(s *Standing, g *report.GapStatus, feed bool) (console.Finding, bool) {
	hole := fmt.Sprintf("between %s and %s", stampOf(g.From.Time), stampOf(g.Until.Time))
	state := store.GapState(g.State)
	switch {
	case state == store.GapLagging:
		why := fmt.Sprintf("The Source's list lags behind a notification since %s: it does not hold yet what happened "+
			"%s. It is asked again and again", stampOf(g.Found.Time), hole)
		if s.GapPatience > 0 {
			why += fmt.Sprintf("; after %s everything is compared", console.Span(s.GapPatience))
		}
		return finding(console.Warn, "list lags", why+"."), true
	case state == store.GapBaseline:
		return finding(console.Busy, "closing a gap", "No list reaches back to what happened "+hole+
			": everything is compared."), true
	case state.Open():
		return finding(console.Busy, "closing a gap", "Nothing was heard of what happened "+hole+
			": the Source's list is asked."), true
	case state != store.GapUnprovable || s.Now.Sub(g.Ended.Time) > unprovableFor:
		return console.Finding{}, false
	case feed:
		return finding(console.Warn, "feed cut short", "The feed did not reach back: entries "+hole+
			" may be missing, nobody can tell. Pull more often, or ask the publisher for a longer feed."), true
	}
	return finding(console.Warn, "unproven", "Nobody can prove what happened "+hole+
		": everything is compared as soon as the Resource List changes."), true
}

// lateSince says why a set is not known to be in step though nothing went wrong.
func lateSince(s *Standing, set *report.SetStatus) string {
	due := set.NextPull.Time
	switch {
	case set.InStep:
		return ""
	case set.LastPull.IsZero():
		return "Its first pull is under way."
	case !due.IsZero() && due.Before(s.Now):
		return fmt.Sprintf("The pull that was due %s is under way or waits for its turn; the last one was %s.",
			s.when(due), s.when(set.LastPull.Time))
	}
	return ""
}
