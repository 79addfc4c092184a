// Package store knows what survives a restart: the records of a Destination and the contracts by which they are kept.
// It refuses to know how they are kept (store/sqlite, later PostgreSQL), what a document looks like and what is on
// the wire; it holds no rule about which version wins, those live in sync.
//
// [Store] is the whole contract, made of smaller ones: callback needs [Subscriptions] and [Inbox],
// destination/subscribe Subscriptions only, sync nearly all. What concerns the data of a Source is written as one
// [Commit] under a [Claim] alone, which is refused once somebody else has taken over.
//
// A [Source] has [Set]s, a set has [Resource]s. A resource carries what sets want of it ([Want]), what lies in the
// mirror ([Have]) and what is still to be done ([Work]). What a set knows of the time that passed are Intervals, with
// a [Gap] for each hole. A [Delivery] waits in the inbox until its wants are committed. Times are [Micros].
//
// store/sqlite keeps all this in one file; store/storetest is the contract as tests for any other. Files of the
// mirror are kept by store/blob and never here.
package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"
)

// Store is one state database. Every method is safe for concurrent use; reads see the last commit. All writes that
// concern a Source's data go through Commit under a Claim. A method returns ErrNotFound where its comment says so,
// ErrFenced when a claim was lost, ErrReadOnly where it would write and may not, ErrCorrupt when damage shows;
// anything else is a failure of the medium, wrapped with what was tried.
type Store interface {
	Sources
	Resources
	Documents
	Ledger
	Subscriptions
	Inbox
	Requests
	Chronicle
	// Commit applies all of c in one transaction that is durable when it returns nil, or nothing of
	// it: ErrFenced if c.Claim is no longer the newest of its Source, ErrNameTaken or ErrFull as
	// these say. A cancelled ctx does not stop it, because what was done on disk must be recorded.
	Commit(ctx context.Context, c *Commit) error
	// Tidy does one bounded slice of housekeeping and reports whether more is left. It needs no
	// claim and may run at any time; call it after a run that wrote something. It drops
	//
	//   - rows of forgotten Sources,
	//   - ended gaps beyond the last 100 and runs beyond the last 200 of each set, and events
	//     beyond the last 100 of each URI,
	//   - bodies and validators of all but the 10,000 documents of a Source that were read last,
	//     and where there are twice as many the unreferenced records of the others,
	//   - requests that are a day old, marks of deliveries that can no longer be repeated, and
	//     tombstones of subscriptions after 90 days,
	//   - points older than two days (minutes), 100 days (hours) and six years (days), spans beyond
	//     the 10,000 of each set that were recorded last, and events of subscriptions beyond the
	//     last 500 of each Source.
	Tidy(ctx context.Context) (more bool, err error)
	// Check looks for damage and returns an error that wraps ErrCorrupt if it finds any. It reads the whole database.
	Check(ctx context.Context) error
	io.Closer
}

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

// Micros is an instant: microseconds since 1970 UTC. It is in Source time unless a field says local.
type Micros int64

// NoTime is the absence of an instant; it is stored as NULL.
const NoTime Micros = math.MinInt64

// Beginning and Forever are the first and the last instant. An interval from the beginning holds
// everything before its end.
const (
	Beginning = NoTime + 1
	Forever   = Micros(math.MaxInt64)
)

// Known reports whether m is an instant.
func (m Micros) Known() bool { return m != NoTime }

// Time is m as a time.Time in UTC; the zero time for NoTime.
func (m Micros) Time() time.Time {
	if m == NoTime {
		return time.Time{}
	}
	return time.UnixMicro(int64(m)).UTC()
}

// MicrosOf cuts t to microseconds; the zero time is NoTime.
func MicrosOf(t time.Time) Micros {
	if t.IsZero() {
		return NoTime
	}
	return Micros(t.UnixMicro())
}

// Earliest is the earlier of two instants of which either may be unknown.
func Earliest(a, b Micros) Micros {
	if !a.Known() || b.Known() && b < a {
		return b
	}
	return a
}

// Errors that callers decide on.
var (
	// ErrNotFound: no such record.
	ErrNotFound = errors.New("not found")
	// ErrFenced: another process took the Source over; nothing was applied. Stop work on the Source.
	ErrFenced = errors.New("claim lost: another process took the Source over")
	// ErrSchema: the database was written by a newer resyncd.
	ErrSchema = errors.New("state database is newer than this resyncd: upgrade resyncd")
	// ErrForeign: the file is a database, but not ours.
	ErrForeign = errors.New("not a resyncd state database")
	// ErrFull: the disk of the state database is full; nothing was applied (F7). Reading goes on.
	ErrFull = errors.New("no room for the state database: free disk space, then run again")
	// ErrDisk: the disk of the state database failed or takes no writes; nothing was applied (F9).
	ErrDisk = errors.New("the disk of the state database fails: look at it, and whether it is read-only")
	// ErrUnsure: that disk did not confirm a commit, which may or may not be durable. Nothing more
	// is written until the database is opened anew (F10).
	ErrUnsure = errors.New("the disk of the state database did not confirm a write: " +
		"look at it, then start again, which recovers")
	// ErrNameTaken: a new resource has the name of another one's file; nothing was applied. Ask Names again.
	ErrNameTaken = errors.New("mirror name is taken by another resource")
	// ErrReadOnly: the store was opened for reading.
	ErrReadOnly = errors.New("state database was opened for reading only")
	// ErrCorrupt: the database is damaged; the mirror itself is not touched by that.
	ErrCorrupt = errors.New("state database is damaged: " +
		"move it aside and run sync again, the mirror's files are adopted by hashing them")
)

// HeldError names the holder of a Source. Exit code 5.
type HeldError struct {
	Source string
	Holder string // host, process and since when, for people
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("source %s is held by another process (%s)", e.Source, e.Holder)
}

// The causes that the engine itself knows, beside those of fetch and rsdoc.
const (
	CauseDisk  = "disk"  // the mirror takes no files
	CauseClock = "clock" // the Source's is ahead
)

// causeMark parts a text from its cause where both are kept in one. Texts for people rarely hold it.
const causeMark = "\x1f"

// WithCause is a text that carries its cause. A text that holds the mark itself gets one more, or it would be cut
// there.
func WithCause(text, cause string) string {
	if text == "" || cause == "" && !strings.Contains(text, causeMark) {
		return text
	}
	return text + causeMark + cause
}

// CutCause parts what WithCause made. A text without a cause is one by itself.
func CutCause(kept string) (text, cause string) {
	i := strings.LastIndex(kept, causeMark)
	if i < 0 {
		return kept, ""
	}
	return kept[:i], kept[i+len(causeMark):]
}
