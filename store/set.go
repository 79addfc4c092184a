package store

import "context"

// Set is what one Capability List covers: the unit of sync, coverage and results.
type Set struct {
	ID             int64
	SourceID       int64
	CapabilityList string // its identity: the URL of the Capability List, or of the bare list
	SetState
	// Resources and Bytes count files on disk that the set wants (present, ask) or holds; kept by
	// the deltas of Commit.
	Resources, Bytes int64
}

// SetState is the part of a Set that the engine writes.
type SetState struct {
	// Floor is the `at` (A) of the last complete baseline, NoTime before the first. Every row of
	// the set is at least this new; older input is ignored unless it is estimated.
	Floor Micros
	// Estimated says that the list had no time of its own that grew with it, so that an input older
	// than the floor may be news.
	Estimated bool
	// Flawed says that the list of the last baseline had unreadable entries.
	Flawed bool
	// Generation is the number of the last baseline begun; Baselines counts complete ones.
	Generation int64
	Baselines  int64
	// Proven and Joint are the coverage: sorted, disjoint closed intervals (coverage.md 3). The first interval of a
	// set with a baseline begins at its floor.
	Proven, Joint []Interval
	// Gone counts consecutive consistent reads in which the Source no longer offered this set (F71).
	Gone int
	// InStep and Problem are the outcome of the last pull, for status. Problem is "" or one sentence with what to do.
	InStep   bool
	Problem  string
	Cause    string // of Problem in a stable word such as http-404, "" where none stands for it
	LastPull Micros // local; NoTime before the first
}

// Interval is closed at both ends.
type Interval struct{ From, Until Micros }

// Sets keeps the sets of a Source.
type Sets interface {
	// EnsureSet returns the set, created if it is new. A power cut may take it back, as with EnsureDocument.
	EnsureSet(ctx context.Context, c Claim, capabilityList string) (Set, error)
	// Sets returns the sets of a Source, oldest first.
	Sets(ctx context.Context, sourceID int64) ([]Set, error)
	// Counts returns what is owed, held and refused in one set, at the cost of what is owed.
	Counts(ctx context.Context, setID int64) (Counts, error)
	// Withheld returns the same with 0 for what is owed.
	Withheld(ctx context.Context, setID int64) (Counts, error)
}

// Counts is what a set has outstanding.
type Counts struct {
	Owed    int64 // to be fetched and wanted (present, ask), or to be removed and wanted absent
	Held    int64 // would be removed, waits for the operator
	Refused int64 // outside scope or policy
}
