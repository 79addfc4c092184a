package store

import "context"

// GapState is a point in the life of a gap (coverage.md 4).
type GapState string

// The states of a gap. Closed and Unprovable are final.
const (
	GapFound      GapState = "found"
	GapWaiting    GapState = "waiting"
	GapPulling    GapState = "pulling"
	GapLagging    GapState = "lagging"
	GapBaseline   GapState = "baseline"
	GapClosed     GapState = "closed"
	GapUnprovable GapState = "unprovable"
)

// Open reports whether the gap still needs work.
func (s GapState) Open() bool { return s != GapClosed && s != GapUnprovable }

// Gap is a hole in the coverage of a set.
type Gap struct {
	ID          int64 // 0: new
	SetID       int64
	From, Until Micros
	State       GapState
	ClosedBy    string // notification, change-list, archive, baseline; "" while open
	Found       Micros // local
	Ended       Micros // local
}

// Run is the outcome of one pull, for people.
type Run struct {
	ID                int64
	SetID             int64
	Kind              string // baseline, incremental, none
	Started, Ended    Micros // local
	Fetched, Deleted  int64
	Unchanged, Failed int64
	Bytes, Requests   int64
	Problem           string
}

// Trashed is one file in the trash of a mirror.
type Trashed struct {
	ID       string // name of the file in the trash; ids sort by age
	SourceID int64
	URI      string // "" for a file no resource of ours owned
	Key      string // its former key
	SHA256   [32]byte
	Length   int64 // -1 unknown
	Reason   string
	At       Micros // local; when it was trashed
}

// Event is one line of a resource's history.
type Event struct {
	SourceID int64
	URI      string
	At       Micros // local
	What     string // wanted, fetched, adopted, deleted, held, approved, rejected, restored, displaced
	Version  Version
	Detail   string // result: digest, length, reason
	Document string // URL of the evidence, filled on reading
}

// Ledger reads the engine's records.
type Ledger interface {
	// Gaps returns all open gaps of a set and its last 100 ended ones, in the order they were recorded.
	Gaps(ctx context.Context, setID int64) ([]Gap, error)
	// Runs returns the newest runs of a set, newest first.
	Runs(ctx context.Context, setID int64, limit int) ([]Run, error)
	// Trash returns up to limit trashed files of a Source put there before `before` (NoTime: all),
	// by id, with ids above after. The file itself may have left the trash.
	Trash(ctx context.Context, sourceID int64, before Micros, after string, limit int) ([]Trashed, error)
	// TrashedOf returns the newest trashed file of a URI (the highest id), or ErrNotFound.
	TrashedOf(ctx context.Context, sourceID int64, uri string) (Trashed, error)
	// History returns the events of one URI in the order they were recorded; the last 100 at least.
	History(ctx context.Context, sourceID int64, uri string) ([]Event, error)
	// Edits returns the edits of one record by (Observed, Digest); empty for an unknown one.
	Edits(ctx context.Context, sourceID int64, uri string) ([]Edit, error)
	// EditsOf returns the edits of several records, aligned with uris. Answers for the same URI share their bodies.
	EditsOf(ctx context.Context, sourceID int64, uris []string) ([][]Edit, error)
}
