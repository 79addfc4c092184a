package store

import "context"

// Claim is the right to write one Source's data, through the Store that granted it. It ends with release, with the
// process (whatever kills it), or when a newer claim was granted; after that its commits fail with ErrFenced.
type Claim struct {
	SourceID int64
	Epoch    int64
}

// Claims grants claims.
type Claims interface {
	// Claim takes the Source for this process. If a living process, this one included, holds it, it
	// fails at once with *HeldError; ErrNotFound if there is no such Source. A dead holder needs no
	// clean-up. release is idempotent; closing the Store releases too. holder names this process to
	// people (host, process, since when).
	Claim(ctx context.Context, sourceID int64, holder string) (c Claim, release func() error, err error)
}
