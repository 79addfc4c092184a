package store

import "context"

// Source is a configured Source, or the one of a `sync URL DIR` mirror. It is the unit of a claim,
// because its sets may share mirror files.
type Source struct {
	ID   int64
	Name string // unique
	URL  string
	// RootID is the id in the mirror's root marker; "" until the mirror was first opened.
	RootID string
	Paused bool
	// Epoch counts claims; Holder is the last claimant.
	Epoch  int64
	Holder string
	// Unclean is true from the start of a run until its orderly end: the disk is checked before
	// fetching, because files may be in place whose rows were never committed.
	Unclean bool
	// Policy is a digest of the scope and filters of the last run; when it differs, refused
	// resources are judged again.
	Policy  string
	Created Micros // local
}

// Sources keeps the Sources, with their sets and who may write them.
type Sources interface {
	// EnsureSource returns the Source of that name, created if it is new, and updates its URL.
	EnsureSource(ctx context.Context, name, url string) (Source, error)
	// Source returns one by name, or ErrNotFound.
	Source(ctx context.Context, name string) (Source, error)
	// Sources returns all, by name.
	Sources(ctx context.Context) ([]Source, error)
	// SetPaused stops or restarts work on a Source; it needs no claim.
	SetPaused(ctx context.Context, id int64, paused bool) error
	// ForgetSource drops the Source with everything known of it. It is gone at once; its rows go in
	// bounded transactions, and Tidy drops what an interruption leaves. The claim ends with it.
	ForgetSource(ctx context.Context, c Claim) error
	// EnsureSet returns the set, created if it is new. A power cut may take it back, as with EnsureDocument.
	EnsureSet(ctx context.Context, c Claim, capabilityList string) (Set, error)
	// Sets returns the sets of a Source, oldest first.
	Sets(ctx context.Context, sourceID int64) ([]Set, error)
	// Counts returns what is owed, held and refused in one set, at the cost of what is owed.
	Counts(ctx context.Context, setID int64) (Counts, error)
	// Withheld returns the same with 0 for what is owed.
	Withheld(ctx context.Context, setID int64) (Counts, error)
	// Claim takes the Source for this process. It fails at once with *HeldError while a living
	// process, this one included, holds it; ErrNotFound if there is no such Source. release is
	// idempotent; closing the Store releases too. holder names this process to people.
	Claim(ctx context.Context, sourceID int64, holder string) (c Claim, release func() error, err error)
}

// Claim is the right to write one Source's data through the Store that granted it. It ends with release, with the
// process, or when a newer claim was granted; then its commits fail with ErrFenced.
type Claim struct {
	SourceID int64
	Epoch    int64
}

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

// Counts is what a set has outstanding.
type Counts struct {
	Owed    int64 // to be fetched and wanted (present, ask), or to be removed and wanted absent
	Held    int64 // would be removed, waits for the operator
	Refused int64 // outside scope or policy
}

// RequestState is a point in the life of a Request.
type RequestState string

// The states of a request.
const (
	RequestWaiting RequestState = "waiting"
	RequestTaken   RequestState = "taken"
	RequestDone    RequestState = "done"
)

// Request is a command for the daemon that holds the Sources (contract.md 1).
type Request struct {
	ID      int64
	Source  string // name, "" for all
	Command string // sync, approve, restore, renew, cancel, pause, resume, forget
	Args    []byte // JSON of the command's options
	State   RequestState
	Created Micros // local
	Beat    Micros // local; the daemon's last sign of work on it
	// Output are the lines that the command shows; Progress is the newest state of the work, JSON.
	Output   []string
	Progress []byte
	ExitCode int
	Problem  string // one sentence when ExitCode is not 0
}

// Requests carries requests from commands to the daemon and answers back. It needs no claim.
type Requests interface {
	// AddRequest records Source, Command and Args as a waiting request, and sets its ID and, if unset, Created.
	AddRequest(ctx context.Context, r *Request) error
	// TakeRequests returns the waiting requests, oldest first, and marks them as taken at now.
	TakeRequests(ctx context.Context, now Micros) ([]Request, error)
	// AnswerRequest appends lines to the output of a request and records its progress (nil:
	// unchanged) and beat; ErrNotFound if there is none.
	AnswerRequest(ctx context.Context, id int64, lines []string, progress []byte, beat Micros) error
	// EndRequest marks a request as done. ErrNotFound if there is none.
	EndRequest(ctx context.Context, id int64, exitCode int, problem string) error
	// Request returns one, or ErrNotFound; Output holds the lines from index `from` on.
	Request(ctx context.Context, id int64, from int) (Request, error)
	// DropRequest takes a request back, unless the daemon has taken it already. Unknown ids are ignored.
	DropRequest(ctx context.Context, id int64) (taken bool, err error)
}
