package store

// Commit is one atomic step of a Source. Empty fields change nothing. Everything in it must belong to the claimed Source;
// where it does not, the commit fails.
type Commit struct {
	Claim     Claim
	Resources []ResourceChange // inserted ones get their ID once the commit succeeded
	Sets      []SetChange
	Gaps      []*Gap        // new ones get their ID once the commit succeeded
	DropGaps  []int64       // holes that were no gaps; unknown ids are ignored
	Inbox     []InboxChange // unknown ids are ignored
	Documents []Document    // ID 0: the one of that URL, created if it is new
	Trash     []Trashed
	DropTrash []string // ids that left the trash; unknown ones are ignored
	Events    []Event
	Spans     []Span // evidence of coverage, merged with what is there
	Edits     []Edit // those whose digest the record has already are ignored
	Runs      []Run  // ID 0 is a new one
	Source    *SourceChange
	// Repeatable says that all of this can be worked out again from what is durable already, as wants can from deliveries
	// that it takes out of the inbox. A power cut may take it back then, whole and with all that came after it, until a
	// later commit without the mark is durable; the end of a process may not. It saves waiting for the disk.
	Repeatable bool
	// Settle lowers the instants of wants written by a baseline whose A turned out to be earlier (coverage.md 1).
	Settle *Settle
	// DropTombstones removes wants of a set that are absent as of At or before, whose resource has no file and no work and
	// is wanted (present or ask) by no set; a resource without any want left goes with them, and its name is free again.
	DropTombstones *DropTombstones
}

// ResourceChange inserts (ID 0) or updates one resource; nil fields stay as they are. An insert needs a URI; if that is
// known already it is taken as an update. Key is recorded once, at the insert or at the first change that brings one:
// a row that has a key keeps it. Changes are applied in order.
type ResourceChange struct {
	ID  int64
	URI string
	// Key is the mirror key, "" for a resource that owns no name (yet). The caller has asked Names for it. Recording it
	// takes the name and makes folders of its ancestors.
	Key string
	// Name is what the file system makes of Key where it ignores letter case (F82), "" if that is Key itself.
	Name string
	Have *Have
	Work *Work
	Want *Want // upserts the want of its set
	// Content are bytes at hand of an inline want, kept until a change with DropContent; nil stays, empty ones are kept too.
	// DropContent drops what earlier changes brought, not the Content beside it.
	Content     []byte
	DropContent bool
}

// SetChange writes a set's own fields; Resources and Bytes are deltas and always applied. A counter that would become
// negative (a bug of the caller) is counted anew from the rows in the same commit, so that it never lies and never
// stops a mirror.
type SetChange struct {
	ID               int64
	State            *SetState // nil: only the deltas
	Resources, Bytes int64
}

// SetState is the part of a Set that the engine owns.
type SetState struct {
	Floor         Micros
	Generation    int64
	Baselines     int64
	Proven, Joint []Interval
	Gone          int
	InStep        bool
	Problem       string
	LastPull      Micros
}

// SourceChange writes a Source's own fields; nil stays.
type SourceChange struct {
	RootID  *string
	Unclean *bool
	Policy  *string
}

// Settle is described at Commit: instants above At become At in the wants of the set that carry this generation.
type Settle struct {
	SetID, Generation int64
	At                Micros
}

// DropTombstones is described at Commit.
type DropTombstones struct {
	SetID int64
	At    Micros
	// Except are resources that are being worked on, in order; their rows stay.
	Except []int64
}
