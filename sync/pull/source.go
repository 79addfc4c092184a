package pull

import (
	"sync"

	"resyncd/destination"
	"resyncd/store"
	"resyncd/sync/merge"
	"resyncd/sync/plan"
	"resyncd/sync/transfer"
)

// Source is one Source and the state that its readings share.
type Source struct {
	Site   *transfer.Site
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
	// Others passes the turn for a wait; Kept keeps the turn over waits. Both may be nil.
	Others, Kept func() (end func())
}

// Readings hears of the findings. Functions may be nil.
type Readings struct {
	// Skipped counts unreadable entries; Rotten counts files that differ from the state.
	Skipped, Rotten func(n int64)
	Held            func(setID, n int64) // removals that wait for the operator
	Gap             func(store.Gap)
}

// TellOf calls a function unless n is 0 or the function nil.
func TellOf(of func(int64), n int64) {
	if of != nil && n > 0 {
		of(n)
	}
}

func (s *Source) held(setID, n int64) {
	if s.Told.Held != nil && n > 0 {
		s.Told.Held(setID, n)
	}
}

// Await passes the turn to others until resume.
func (s *Source) Await() (resume func()) {
	if s.Others == nil {
		return func() {}
	}
	return s.Others()
}

func (s *Source) keep() (release func()) {
	if s.Kept == nil {
		return func() {}
	}
	return s.Kept()
}

// ClockError bounds how far the Source's clock is ahead of its last Date, which has whole seconds and is older than its
// arrival.
const ClockError = 2 * merge.Second

// SourceNow returns the Source's time, as far as its answers tell.
func (s *Source) SourceNow() store.Micros { return s.Site.LocalNow() + s.Offset }

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
	if rule := s.Scopes.Of(set.ID); rule != nil && s.Site.Follows && offer.Err == nil {
		return rule, nil
	}
	return s.Target.Judge(offer)
}

// StateOf copies the fields of a set that the engine owns.
func StateOf(s *store.Set) *store.SetState {
	state := s.SetState
	return &state
}

// EndOfTime is later than every planned time.
const EndOfTime = store.Micros(1) << 62
