package store

import (
	"context"
)

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

// Sources keeps the Sources.
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
}

// Claim is the right to write one Source's data through the Store that granted it. It ends with release, with the
// process, or when a newer claim was granted; then its commits fail with ErrFenced.
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
