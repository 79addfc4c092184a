package destination

import (
	"context"

	"resyncd/destination/rsdoc"
)

// Part is one list (urlset) of a walk: the root itself or a part of an index.
type Part struct {
	Ref
	Parent string // URL of the index, "" for the root
	Newest bool   // the last of its index, the only one that may still change
	Depth  int
	Meta
}

// Verdict is a Visitor's decision about a part that the index names.
type Verdict uint8

// Recheck asks conditionally with the validators that the Visitor put into the Part's Meta.
const (
	Read Verdict = iota
	Skip
	Recheck
)

// Visitor receives a walk, from one goroutine, part after part, in the index's order. An error that it returns ends the
// walk and is returned by Walk unchanged.
type Visitor interface {
	// Enter is called before a list is fetched, with the index's metadata; it may set p.ETag and p.LastModified. Enter
	// is called for indexes too, which look like lists before, and then neither Begin nor Unchanged follows.
	Enter(ctx context.Context, p *Part) (Verdict, error)
	// Unchanged is called for a part that answered 304.
	Unchanged(ctx context.Context, p *Part) error
	// Begin is called when the root of the list was read and is of the expected kind, and again when a transfer broke
	// off and the part is read anew from its start.
	Begin(ctx context.Context, p *Part, h *rsdoc.Head) error
	// Entry receives one entry, valid until it returns. Of one with a Fault only its Loc may be used.
	Entry(ctx context.Context, p *Part, e *rsdoc.Entry) error
	// End is called when the list was read to its end. skipped entries were bad; first describes the first of them.
	End(ctx context.Context, p *Part, h *rsdoc.Head, skipped int64, first error) error
	// Failed is called for a list or index that could not be read, or is not what it should be (F58), and once for all
	// that is left where nothing answers any more. The walk goes on and is incomplete.
	Failed(ctx context.Context, p *Part, err error) error
}

// Tour is what a walk did.
type Tour struct {
	Root   *Document // the index, if the root was one
	Lists  int       // read to their end, or unchanged
	Failed int
	// Complete says that every list that was not skipped was read or unchanged, no index had unusable entries, and no
	// index of a snapshot changed meanwhile.
	Complete bool
}
