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
	Suspect               []int64         // sets whose hub does not tell of changes
	Rejected              string          // why a notification was not taken lately, "" for none
	Deaf                  bool            // hubs cannot reach our callback
	Owed                  *store.Resource // one that was tried in vain, nil for none
	Package               string          // how the newest package in flight comes along, "" for none
}

// unprovableFor is how long a gap that nobody can close is told of first; it stays in the list of gaps.
const unprovableFor = 7 * 24 * time.Hour

// Assess says how a Source stands, and what to do. The worst decides; others as bad are named.
func Assess(s *Standing) console.Finding {
	switch {
	case !s.Configured:
		return say("not configured")
	case s.Status.Paused:
		return say("paused")
	}
	found := aboutSource(s)
	for i := range s.Status.Sets {
		found = append(found, aboutSet(s, &s.Status.Sets[i])...)
	}
	f := worst(found, inStep(s.Status.Sets))
	if s.Package != "" && f.Level <= console.Busy {
		f.Why = strings.TrimSpace(f.Why + " Now " + s.Package + ".")
	}
	return f
}

// AssessSet is assess for one set.
func AssessSet(s *Standing, set *report.SetStatus) console.Finding {
	if !s.Configured || s.Status.Paused || s.Status.Problem != nil {
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
	switch {
	case slices.ContainsFunc(sets, func(set report.SetStatus) bool { return !set.InStep }):
		return say("catching up")
	case len(sets) == 0:
		return say("unread")
	}
	return say("in step")
}

// aboutSource is what concerns the Source as a whole.
func aboutSource(s *Standing) (found []console.Finding) {
	if s.State != nil {
		found = append(found, say("state", sentence(s.State.Error())))
	}
	switch {
	case s.Halted != nil:
		found = append(found, haltedFor(s.Halted))
	case len(s.Status.Sets) == 0 && s.Unread != nil:
		found = append(found, say("failing", failing(s.Unread.Error(), fetch.CauseOf(s.Unread), s)))
	case s.Status.Unread: // nor before this start
		found = append(found, say("failing", failing(*s.Status.Problem, s.Status.Cause, s)))
	case s.Status.Problem != nil:
		found = append(found, say("not working", sentence(*s.Status.Problem), console.Span(s.Again)))
	case len(s.Status.Sets) == 0 && s.Following:
		found = append(found, say("first pull"))
	case !s.Following:
		found = append(found, say("waiting"))
	}
	return found
}

// aboutSet is what concerns one set, the worst of its kind first.
func aboutSet(s *Standing, set *report.SetStatus) (found []console.Finding) {
	if set.Problem != nil && (s.Halted == nil || set.Cause != store.CauseDisk) { // the halt says it better
		found = append(found, say("failing", failing(*set.Problem, set.Cause, s)))
	}
	if set.Held > 0 {
		found = append(found, say("held", count(set.Held, "removal is", "removals are")))
	}
	found = append(found, aboutOwed(s, set), aboutGaps(s, set))
	found = append(found, aboutPush(s, set)...)
	if !slices.ContainsFunc(found, func(f console.Finding) bool { return f.Level > console.Good }) {
		found = append(found, aboutTime(s, set))
	}
	if set.Refused > 0 {
		found = append(found, say("refused", count(set.Refused, "resource is", "resources are")))
	}
	return found
}

func aboutOwed(s *Standing, set *report.SetStatus) (none console.Finding) {
	many := count(set.Owed, "resource is", "resources are")
	switch {
	case set.Owed == 0:
		return none
	case s.Halted != nil: // which says why
		return say("owed by the disk", many)
	case s.Owed == nil || s.Owed.Work.Attempts == 0:
		return say("fetching", many)
	}
	work := &s.Owed.Work
	f := say("owed", many, hint(cmp.Or(work.Cause, work.Class)), Clipped(work.Reason))
	if due := work.Due.Time(); !due.IsZero() {
		f.Why += " Tried again " + s.when(due) + "."
	}
	return f
}

// aboutGaps tells of the oldest gap that is open, or that nobody can close and that is news; the page lists all.
func aboutGaps(s *Standing, set *report.SetStatus) (none console.Finding) {
	for i := range set.Gaps {
		g := &set.Gaps[i]
		state := store.GapState(g.State)
		if !state.Open() && (state != store.GapUnprovable || s.Now.Sub(g.Ended.Time) > unprovableFor) {
			continue
		}
		hole := fmt.Sprintf("between %s and %s", stampOf(g.From.Time), stampOf(g.Until.Time))
		switch {
		case state == store.GapLagging:
			patience := ""
			if s.GapPatience > 0 {
				patience = fmt.Sprintf("; after %s everything is compared", console.Span(s.GapPatience))
			}
			return say("lagging", stampOf(g.Found.Time), hole, patience)
		case state == store.GapBaseline:
			return say("baseline", hole)
		case state.Open():
			return say("open", hole)
		case s.Feeds[set.ID]:
			return say("cut short", hole)
		}
		return say("unprovable", hole)
	}
	return none
}

// aboutTime says why a set is not known to be in step though nothing went wrong.
func aboutTime(s *Standing, set *report.SetStatus) (none console.Finding) {
	due := set.NextPull.Time
	switch {
	case set.InStep:
	case set.LastPull.IsZero():
		return say("first pull of the set")
	case !due.IsZero() && due.Before(s.Now):
		return say("late", s.when(due), s.when(set.LastPull.Time))
	}
	return none
}

// aboutPush tells of the channels by which a set's changes should come. Without one the Source is only pulled, which
// costs freshness and nothing else (P9).
func aboutPush(s *Standing, set *report.SetStatus) []console.Finding {
	var f console.Finding
	pulled := "pulled by schedule only, every " + console.Span(s.Poll)
	required := s.Push == config.PushRequired
	switch c := Leading(set.Channels); {
	case s.Push == config.PushOff:
		return nil
	case c == nil && required:
		f = say("push required", pulled)
	case c == nil:
		f = say("no hub", pulled)
	case c.Live():
		return aboutLive(s, set)
	case c.State == string(store.SubOff) && !required:
		f = say("switched off", pulled)
	case c.State == string(store.SubOff):
		f = say("switched off though required")
	case c.State == string(store.SubDenied):
		f = say("denied", reasonFor(c), pulled)
	case c.State == string(store.SubLapsed):
		f = say("lapsed", reasonFor(c), spaced(words().Hubs[c.Cause]), pulled)
	case c.State == string(store.SubFailed):
		f = say("failed", reasonFor(c), spaced(words().Hubs[c.Cause]), s.when(c.RenewAt.Time), pulled)
	case c.Reason != nil && *c.Reason != "":
		f = say("unconfirmed", reasonFor(c), pulled)
	default: // wanted, requesting, pending: moments, as a rule
		f = say("subscribing")
	}
	if required && f.State == "no push" {
		f.State = "no channel"
	}
	if s.Deaf && f.Level == console.Warn {
		f.Why += " Hubs on other machines cannot reach this one: callback.base_url leads to this machine only."
	}
	return []console.Finding{f}
}

// aboutLive tells what is wrong with a channel that has a lease.
func aboutLive(s *Standing, set *report.SetStatus) (found []console.Finding) {
	if slices.Contains(s.Suspect, set.ID) {
		found = append(found, say("suspect"))
	}
	if why := words().Rejections[s.Rejected]; why != "" {
		found = append(found, say("rejected", why))
	}
	return found
}

// Leading is the channel that says how a set is told of its changes: one with a lease, else the one that is furthest.
func Leading(channels []report.ChannelStatus) (best *report.ChannelStatus) {
	rank := func(c *report.ChannelStatus) int {
		switch store.SubscriptionState(c.State) {
		case store.SubActive:
			return 9
		case store.SubRenewing:
			return 8
		case store.SubPending, store.SubRequesting, store.SubWanted:
			return 5
		case store.SubOff, store.SubUnsubscribing:
			return 1
		}
		return 7 // what went wrong
	}
	for i := range channels {
		c := &channels[i]
		if c.Kind != string(store.ChannelFramework) && (best == nil || rank(c) > rank(best)) {
			best = c
		}
	}
	return best
}
