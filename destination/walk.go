package destination

import (
	"context"

	"resyncd/destination/rsdoc"
)

// Part is one list (urlset) of a walk: the root document itself or a part of an index.
type Part struct {
	Ref
	Parent string // URL of the index, "" for the root
	Newest bool   // the last part of its index in time, the only one that may still change
	Depth  int
	Final  string
	Meta
}

// Verdict is a Visitor's decision about a part that the index names.
type Verdict uint8

// The verdicts. Recheck asks conditionally with the validators that the Visitor put into the Part's Meta.
const (
	Read Verdict = iota
	Skip
	Recheck
)

// Visitor receives a walk. It is called from one goroutine, part after part, in the index's order.
// An error that it returns ends the walk and is returned by Walk unchanged. The context is that of
// the walk.
type Visitor interface {
	// Enter is called before a list is fetched. p holds the index's metadata of it, and
	// p.NotModified whether the index answered 304; Enter may set p.ETag and p.LastModified. A list
	// looks like an index before the fetch, so Enter is called for indexes too, and then neither
	// Begin nor Unchanged follows; only a root known to be an index is exempt.
	Enter(ctx context.Context, p *Part) (Verdict, error)
	// Unchanged is called for a part that answered 304.
	Unchanged(ctx context.Context, p *Part) error
	// Begin is called when the root of the list was read and is of the expected kind, and again for
	// the same part when a transfer broke off and the part is read anew from its start.
	Begin(ctx context.Context, p *Part, h *rsdoc.Head) error
	// Entry receives one entry, which is valid until it returns. Of one with a Fault only its Loc
	// may be used.
	Entry(ctx context.Context, p *Part, e *rsdoc.Entry) error
	// End is called when the list was read to its end without a fault. skipped entries were bad,
	// including those that Entry got with a Fault; first describes the first of them.
	End(ctx context.Context, p *Part, h *rsdoc.Head, skipped int64, first error) error
	// Failed is called for a list or index, the root included, that could not be read, or is not
	// what it should be (F58). The walk goes on with the next one and is incomplete. Where nothing
	// answers any more it is called once for all that is left.
	Failed(ctx context.Context, p *Part, err error) error
}

// Tour is what a walk did.
type Tour struct {
	Root   *Document // the index, if the root was one (its At, From, Until count); nil for a plain list
	Lists  int       // lists read to their end, or unchanged
	Failed int       // lists and indexes that could not be read
	// Complete: every list that was not skipped was read to its end, or was unchanged; no index had unusable entries;
	// and, for snapshots, no index changed meanwhile. Unusable entries of lists are told by Visitor.End, not here.
	Complete bool
}
