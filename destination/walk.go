package destination

import (
	"context"

	"resyncd/destination/rsdoc"
)

// Part is one list (urlset) met on a walk: the root document itself or a part of an index.
type Part struct {
	Ref
	Parent string // URL of the index, "" for the root
	Newest bool   // the last part of its index in time: the one that may still change
	Depth  int
	Final  string
	Meta
}

// Verdict is what a Visitor wants of a part that the index names.
type Verdict uint8

// The verdicts. Recheck asks conditionally with the validators that the Visitor put into the Part's Meta.
const (
	Read Verdict = iota
	Skip
	Recheck
)

// Visitor receives a walk. It is called from one goroutine, part after part, in the index's order. An error that it
// returns ends the walk and is returned by Walk unchanged. The context is that of the walk.
type Visitor interface {
	// Enter is asked before a list is fetched; p holds what the index says of it, and p.NotModified whether the index
	// answered 304. It may fill p.ETag, p.LastModified. Before the fetch nobody knows a list from an index: it is asked
	// for those too, and then neither Begin nor Unchanged follows. Only a root known to be an index is not asked about.
	Enter(ctx context.Context, p *Part) (Verdict, error)
	// Unchanged: the part answered 304.
	Unchanged(ctx context.Context, p *Part) error
	// Begin: the root of the list was read and is of the expected kind. Begin may come again for the same part when a
	// transfer broke off and the part is read anew from its start.
	Begin(ctx context.Context, p *Part, h *rsdoc.Head) error
	// Entry is one entry; valid until it returns.
	Entry(ctx context.Context, p *Part, e *rsdoc.Entry) error
	// End: the list was read to its end without a fault; skipped entries were bad, the first of them is described.
	End(ctx context.Context, p *Part, h *rsdoc.Head, skipped int64, first error) error
	// Failed: a list or index, the root included, could not be read, or is not what it should be (F58). The walk goes on
	// with the next one and is incomplete. Where nothing answers any more it is called once for all that is left.
	Failed(ctx context.Context, p *Part, err error) error
}

// Tour is what a walk did.
type Tour struct {
	Root    *Document // the index, if the root was one (its At, From, Until count); nil for a plain list
	Lists   int       // lists read to their end, or unchanged
	Failed  int       // lists and indexes that could not be read
	Skipped int       // by the visitor
	Changed bool      // anything answered other than 304
	// Date is the Date header of the first answer, NoTime without one (baselines of lists without at, coverage.md 1).
	Date rsdoc.Micros
	// Complete: every list that was not skipped was read to its end, or was unchanged; no index had unusable entries;
	// and, for snapshots, no index changed meanwhile. Unusable entries of lists are told by Visitor.End, not here.
	Complete bool
}

// Walker reads lists and their indexes within bounds (F66, F67): depth, parts, a visited set.
// A document of changes proves its own interval, so only the indexes of snapshots are asked for again after their lists.
type Walker interface {
	// Walk reads the list or index at root as one of the kind; that of an archive kind reads the lists it archives. The
	// error is the visitor's, the Memory's or that of ctx; what is wrong with documents goes to Visitor.Failed. Times and
	// length of root that are zero count as absent.
	Walk(ctx context.Context, root Ref, kind rsdoc.Kind, v Visitor) (Tour, error)
	// WalkUncached is Walk with Cache-Control: no-cache and without validators for the index (F59).
	WalkUncached(ctx context.Context, root Ref, kind rsdoc.Kind, v Visitor) (Tour, error)
}
