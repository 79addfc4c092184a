package pull

import (
	"resyncd/destination"
	"resyncd/store"
	"resyncd/sync/merge"
	"resyncd/sync/plan"
	"resyncd/sync/transfer"
	"sync"
)

// Source is one Source as its documents are read, with what its readings share.
type Source struct {
	Site   *transfer.Site
	Target Target
	Reader *destination.Reader
	Told   Readings
	Scopes scopes       // by which URIs are refused
	Limits *plan.Limits // nil for the usual ones
	Full   bool         // a baseline is taken even if none is needed
	Dry    bool         // a dry run
	// wide: this run, or pull, looks at the files of all resources.
	Wide bool
	// recheck: the scope or filters changed since the last run, so refused resources are judged anew.
	Recheck bool
	// from is the position for sets that have none; they get no baseline then.
	From store.Micros
	// offset is the Source's clock against ours in microseconds, as its last answer told; 0 before. Only the goroutine
	// that reads documents, or who has the turn, uses it.
	Offset store.Micros
	// lag is the longest time seen between a change and its entry in a list (coverage.md 4, rule 4).
	lag store.Micros
	// others gives the turn to others for a wait, and kept keeps it over waits; nil where there are none.
	Others, Kept func() (end func())
}

// Readings hears of what readings find. Functions may be nil.
type Readings struct {
	// skipped counts entries that could not be read, rotten files that were not what the state says.
	Skipped, Rotten func(n int64)
	Held            func(setID, n int64) // removals that wait for the operator
	Gap             func(store.Gap)      // a gap was found, changed or ended
}

// TellOf tells a function of n things, if there are any.
func TellOf(of func(int64), n int64) {
	if of != nil && n > 0 {
		of(n)
	}
}

// held tells of removals that wait for the operator.
func (s *Source) held(setID, n int64) {
	if s.Told.Held != nil && n > 0 {
		s.Told.Held(setID, n)
	}
}

// Await gives others their turn for a wait.
func (s *Source) Await() (resume func()) {
	if s.Others == nil {
		return func() {}
	}
	return s.Others()
}

// keep has the turn kept over waits until release.
func (s *Source) keep() (release func()) {
	if s.Kept == nil {
		return func() {}
	}
	return s.Kept()
}

// ClockError is how far the Source's clock may be ahead of what its last answer told: a Date is cut to whole seconds, and the
// answer was under way.
const ClockError = 2 * merge.Second

// SourceNow is the Source's clock as far as its answers told.
func (s *Source) SourceNow() store.Micros { return s.Site.LocalNow() + s.Offset }

// scopes are the rules by which URIs are refused, by set.
type scopes struct{ rules sync.Map }

// Add keeps the rule of a set that has none yet.
func (s *scopes) Add(set int64, rule func(string) string) { s.rules.LoadOrStore(set, rule) }

// Of is the rule of a set, nil if it has none.
func (s *scopes) Of(set int64) func(string) string {
	rule, _ := s.rules.Load(set)
	of, _ := rule.(func(string) string)
	return of
}

// scopeOf is the rule of a set. A Follower, which asks for it at every notification, keeps it.
func (s *Source) scopeOf(set *store.Set, offer *destination.SetOffer) (func(uri string) string, error) {
	if rule := s.Scopes.Of(set.ID); rule != nil && s.Site.Follows && offer.Err == nil {
		return rule, nil
	}
	return s.Target.Judge(offer)
}

// StateOf copies the fields of a set that the engine owns.
func StateOf(s *store.Set) *store.SetState {
	return &store.SetState{
		Floor: s.Floor, Estimated: s.Estimated, Flawed: s.Flawed, Generation: s.Generation, Baselines: s.Baselines, Proven: s.Proven, Joint: s.Joint,
		Gone: s.Gone, InStep: s.InStep, Problem: s.Problem, Cause: s.Cause, LastPull: s.LastPull,
	}
}

// EndOfTime makes everything due, whatever the ledger planned.
const EndOfTime = store.Micros(1) << 62
