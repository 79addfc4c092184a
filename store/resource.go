package store

import (
	"context"
	"iter"
	"strings"
	"time"
)

// Resource is one URI of a Source: what is on disk, what is to do and what its sets want.
type Resource struct {
	ID       int64
	SourceID int64
	URI      string // identity: the exact loc string
	Key      string // mirror key, decided once, never recomputed; "" while it owns no name
	Have     Have
	Work     Work
	// Wants are the wants of the Source's sets; Lookup fills only that of its set.
	Wants []Want
}

// WantFor returns the want of one set, or nil.
func (r *Resource) WantFor(setID int64) *Want {
	for i := range r.Wants {
		if r.Wants[i].SetID == setID {
			return &r.Wants[i]
		}
	}
	return nil
}

// WantState is what a set says about a URI.
type WantState uint8

// The states of a want. Ask: documents contradict each other, so the Source's answer decides (P5).
const (
	WantNone WantState = iota
	WantPresent
	WantAbsent
	WantAsk
)

// Want is "URI u should have version v" or "should be absent", learnt from a document.
type Want struct {
	SetID   int64
	State   WantState
	Version Version
	// What the document says of the representation; zero where it says nothing (Length -1).
	Digests string // usable digests as "alg:hex", strongest first, space separated
	Length  int64
	LastMod Micros
	Type    string
	Links   string // JSON of the links worth keeping (duplicates, describedby …), "" for none
	// Generation is the baseline that last wrote this row, 0 for changes.
	Generation int64
	// Held says that the sweep guard stopped this removal. Content fields keep what was wanted before.
	Held bool
	// Refused is why the URI is not fetched (outside scope or policy), "" otherwise.
	Refused string
	// Settled says that the Source's answer about contradicting entries of this version is recorded.
	Settled bool
	// Pushed says that the want comes from a notification and no document has confirmed it yet. Listed is the want of
	// the documents meanwhile (State WantNone for none); nil for a want that is not pushed (coverage.md 2).
	Pushed bool
	Listed *Want
	// Inline says that the bytes come with the document itself and are kept (Resources.Content) until they
	// are on disk. The URI is only an identity then, and is never requested.
	Inline bool
	// Meta is JSON of the document's data about an inline resource for people, "" for none.
	Meta string
}

// Version orders wants (coverage.md 2): a range of instants, then the ordinal within one document.
type Version struct {
	From, Until Micros
	Ordinal     int64
	Document    int64 // id of the document it comes from
}

// HaveState is what is on disk.
type HaveState uint8

// The states of a mirror file. Kept: no set lists it, but it stays (delete: keep, or restored from the trash).
const (
	HaveNone HaveState = iota
	HavePresent
	HaveKept
)

// Have is the mirror file of a resource. One that never had a file has the zero Have.
type Have struct {
	State        HaveState
	SHA256       [32]byte // always of the bytes on disk
	Length       int64
	ModTime      int64 // ns, as the file system has it after placing; shows local edits cheaply
	ETag         string
	LastModified string
	Type         string
	// Checked is the digest ("alg:hex") that these bytes were compared with, "" for none.
	Checked string
	// Version is the want this file was fetched or confirmed for.
	Version Version
	Fetched Micros // local
}

// Action is what a resource's work will do.
type Action uint8

// The actions.
const (
	ActionNone Action = iota
	ActionFetch
	ActionRemove
)

// Work is the failure ledger of one resource. Action None means nothing is owed.
type Work struct {
	Action   Action
	Due      Micros // local; when to try (again), at most LatestDue from now; NoTime: at once
	Attempts int    // failed requests to the Source, quick retries included
	Class    string // error class of the last failure, "" before the first
	Cause    string // of the last failure in a stable word (Set.Cause), finer than Class; "" where none stands for it
	Reason   string // for people
	Since    Micros // local; first failure
}

// LatestDue is the furthest ahead that work is planned. Later work was planned by a clock that has been set back.
const LatestDue = Micros(2 * time.Hour / time.Microsecond)

// IsDue reports whether the work is due at now: its instant has come, or lies beyond LatestDue.
func (w *Work) IsDue(now Micros) bool { return w.Due <= now || w.Due-LatestDue > now }

// Resources reads the resources of a Source. Nothing here needs a claim.
type Resources interface {
	// Lookup returns, aligned with uris, the known resources with the want of setID; nil where
	// unknown. It is fastest for a few thousand URIs in the order in which they were inserted.
	Lookup(ctx context.Context, sourceID, setID int64, uris []string) ([]*Resource, error)
	// Resource returns one with all wants, or ErrNotFound.
	Resource(ctx context.Context, sourceID int64, uri string) (*Resource, error)
	// Due returns up to q.Limit resources with q.Action due at q.Now (Work.IsDue), id above
	// q.After, in id order, with all wants.
	Due(ctx context.Context, q DueQuery) ([]*Resource, error)
	// NextDue is the earliest due time of any work of the Source, or NoTime; an instant in the far
	// past for work that is due at once, as work that never failed is.
	NextDue(ctx context.Context, sourceID int64) (Micros, error)
	// Scan returns up to q.Limit resources of the Source that match, id above q.After, in id order,
	// with all wants. Page with it until it returns none.
	Scan(ctx context.Context, q ScanQuery) ([]*Resource, error)
	// Sample returns up to n resources of the Source in id order, with all wants: all, else random
	// ones. It costs no more for millions of resources.
	Sample(ctx context.Context, sourceID int64, n int) ([]*Resource, error)
	// Unlisted iterates over ids of resources for which the set's want is present (or ask), was not written by
	// generation and is at most as new as until (Version.Until <= until); in id order, in pages. The caller may
	// commit meanwhile; a row changed before its page was read counts as changed.
	Unlisted(ctx context.Context, setID, generation int64, until Micros) iter.Seq2[int64, error]
	// ByIDs returns the resources with these ids, in id order, with all wants; unknown ids are left out.
	ByIDs(ctx context.Context, ids []int64) ([]*Resource, error)
	// Names returns, aligned with names, how they are used in the mirror: as the name of a
	// resource's file (on disk or not), as a folder above one, or not. The caller passes folded
	// names, as in ResourceChange.Name. A folder stays one after the last file below it is gone.
	Names(ctx context.Context, sourceID int64, names []string) ([]NameUse, error)
	// ByKeys returns, aligned with names (as those of Names), the resource with that file, with all
	// wants; nil for none.
	ByKeys(ctx context.Context, sourceID int64, names []string) ([]*Resource, error)
	// Content returns the bytes that came with a document for a resource and are not in the mirror yet, or ErrNotFound.
	// They go with the resource.
	Content(ctx context.Context, resourceID int64) ([]byte, error)
}

// NameUse is how a name is used.
type NameUse uint8

// The uses of a name in a mirror.
const (
	NameFree NameUse = iota
	NameFile
	NameFolder
)

// DueQuery selects work.
type DueQuery struct {
	SourceID int64
	Action   Action
	Now      Micros
	After    int64
	Limit    int
}

// Filter selects resources for Scan.
type Filter uint8

// The filters of Scan. Mirrored: files on disk (present and kept). Absent: wants that are absent. Pushed: it needs a
// set. With a set, only resources with a want of this set match; owed, held and refused are meant as in Counts then.
const (
	FilterAll Filter = iota
	FilterOwed
	FilterHeld
	FilterRefused
	FilterMirrored
	FilterPushed
	FilterAbsent
)

// ScanQuery selects resources.
type ScanQuery struct {
	SourceID int64
	SetID    int64 // 0: any set
	Filter   Filter
	After    int64
	Limit    int
}

// DigestsAgree compares two lists of digests by the strongest algorithm that both have. known is
// false if they have none in common.
func DigestsAgree(a, b string) (agree, known bool) {
	for token := range strings.FieldsSeq(a) {
		alg, _, _ := strings.Cut(token, ":")
		for other := range strings.FieldsSeq(b) {
			if by, _, ok := strings.Cut(other, ":"); ok && by == alg {
				return other == token, true
			}
		}
	}
	return false, false
}
