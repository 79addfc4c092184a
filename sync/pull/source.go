// Package pull reads a Source's documents and notifications into wants and coverage. It knows neither when a pull is
// due nor who fetches the resources.
package pull

import (
	"sync"

	"resyncd/destination"
	"resyncd/store"
	"resyncd/sync/coverage"
	"resyncd/sync/merge"
	"resyncd/sync/plan"
	"resyncd/sync/transfer"
)

// Source is one Source and the state that its readings share.
type Source struct {
	*transfer.Site
	Target Target
	Reader *destination.Reader
	Told   Readings
	Scopes scopes
	Limits *plan.Limits
	Full   bool // a baseline is always taken
	Dry    bool
	// Wide: this run or pull looks at the files of all resources.
	Wide bool
	// Recheck: the scope or filters changed, so refused resources are judged anew.
	Recheck bool
	// From is the position of new sets, which then get no baseline.
	From store.Micros
	// Offset is the Source's clock minus the local one, by its last answer. Only the goroutine that reads documents or
	// has the turn may use it.
	Offset store.Micros
	// lag is the longest time seen between a change and its entry in a list (coverage.md 4, rule 4).
	lag store.Micros
	// Await passes the turn to others for a wait; Keep keeps it over waits.
	Await, Keep func() (end func())
}

// Readings hears of the findings.
type Readings struct {
	// Skipped counts unreadable entries; Rotten counts files that differ from the state.
	Skipped, Rotten func(n int64)
	Held            func(setID, n int64) // removals that wait for the operator
	Gap             func(store.Gap)
}

// ClockError bounds how far the Source's clock is ahead of its last Date, which has whole seconds and is older than its
// arrival.
const ClockError = 2 * merge.Second

// SourceNow returns the Source's time, as far as its answers tell.
func (s *Source) SourceNow() store.Micros { return s.LocalNow() + s.Offset }

type scopes struct{ rules sync.Map }

// Add keeps the rule of a set that has none yet.
func (s *scopes) Add(set int64, rule func(string) string) { s.rules.LoadOrStore(set, rule) }

// Of returns the rule of a set, nil for none.
func (s *scopes) Of(set int64) func(string) string {
	rule, _ := s.rules.Load(set)
	of, _ := rule.(func(string) string)
	return of
}

// scopeOf returns the rule of a set. A Follower keeps the rule, which every notification needs.
func (s *Source) scopeOf(set *store.Set, offer *destination.SetOffer) (func(uri string) string, error) {
	if rule := s.Scopes.Of(set.ID); rule != nil && s.Follows && offer.Err == nil {
		return rule, nil
	}
	return s.Target.Judge(offer)
}

// CoverageOf returns the coverage of a set.
func CoverageOf(s *store.Set) *coverage.Coverage {
	return &coverage.Coverage{Floor: s.Floor, Proven: s.Proven, Joint: s.Joint}
}

// StateOf copies the fields of a set that the engine owns.
func StateOf(s *store.Set) *store.SetState {
	return &store.SetState{
		Floor: s.Floor, Estimated: s.Estimated, Flawed: s.Flawed, Generation: s.Generation, Baselines: s.Baselines,
		Proven: s.Proven, Joint: s.Joint,
		Gone: s.Gone, InStep: s.InStep, Problem: s.Problem, Cause: s.Cause, LastPull: s.LastPull,
	}
}
