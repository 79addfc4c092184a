package store

import "context"

// Claim is the right to write one Source's data. It ends with release, with the process, or when a
// newer claim was granted; then its commits fail with ErrFenced.
type Claim struct {
	SourceID int64
	Epoch    int64
}

// Claims grants claims.
type Claims interface {
	// Claim takes the Source for this process. It fails at once with *HeldError while a living
	// process, this one included, holds it; ErrNotFound if there is no such Source. release is
	// idempotent; closing the Store releases too. holder names this process to people.
	Claim(ctx context.Context, sourceID int64, holder string) (c Claim, release func() error, err error)
}
