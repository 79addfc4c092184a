package store

// Commit is one atomic step of a Source. Empty fields change nothing. It fails if anything in it
// belongs to another Source.
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
	Spans     []Span // evidence of coverage, merged with what is stored
	Edits     []Edit // known ones are ignored, by digest
	Runs      []Run  // ID 0 is a new one
	Source    *SourceChange
	// Repeatable says that all of this can be computed again from what is durable already. It saves
	// waiting for the disk: until a later commit without the mark is durable, a power cut may take
	// it back, whole and with everything after it. The end of the process may not.
	Repeatable bool
	// DropTombstones removes wants of a set that are absent as of At or before, whose resource has no file, no work
	// and no set that wants it. A resource without any want left goes, and its name is free again.
	DropTombstones *DropTombstones
}

// ResourceChange inserts (ID 0) or updates one resource; nil fields stay. An insert of a known URI
// is an update. Changes are applied in order.
type ResourceChange struct {
	ID  int64
	URI string
	// Key is the mirror key, checked with Names; "" for a resource that owns no name yet. A row
	// that has a key keeps it. Recording it makes folders of its ancestors.
	Key string
	// Name is Key as a file system that ignores letter case sees it (F82), "" if that is Key itself.
	Name string
	Have *Have
	Work *Work
	Want *Want // upserts the want of its set
	// Content is the bytes of an inline want, kept until a change with DropContent; nil stays.
	// DropContent drops what earlier changes brought, not the Content beside it.
	Content     []byte
	DropContent bool
}

// SetChange writes a set's own fields; Resources and Bytes are deltas. A counter that would become
// negative (a bug of the caller) is counted anew from the rows in the same commit.
type SetChange struct {
	ID               int64
	State            *SetState // nil: only the deltas
	Resources, Bytes int64
}

// SourceChange writes a Source's own fields; nil stays.
type SourceChange struct {
	RootID  *string
	Unclean *bool
	Policy  *string
}

// DropTombstones is described at Commit.
type DropTombstones struct {
	SetID int64
	At    Micros
	// Except lists, in order, resources in work; their rows stay.
	Except []int64
}
