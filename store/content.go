package store

import "context"

// Contents keeps bytes that came with a document and are not yet in the mirror. They go with their
// resource.
type Contents interface {
	// Content returns the bytes kept for a resource, or ErrNotFound.
	Content(ctx context.Context, resourceID int64) ([]byte, error)
}

// Edit is one edit of a record (websub.md T-03). Edits are kept for as long as their Source,
// because a record is made of all of them.
type Edit struct {
	SourceID int64
	URI      string   // the record's subject
	Digest   [32]byte // of what it says; the same edit comes again and again
	Observed Micros   // Source; NoTime where it says nothing usable
	Author   string
	Body     []byte // as package feed encodes it
	Received Micros // local
	// Evidence is the document that told it first: its URL, or EvidencePush.
	Evidence string
}

// EvidencePush is the Evidence of an Edit that a notification brought first.
const EvidencePush = "push"

// Edits reads the edits of records.
type Edits interface {
	// Edits returns the edits of one record by (Observed, Digest); empty for an unknown one.
	Edits(ctx context.Context, sourceID int64, uri string) ([]Edit, error)
	// EditsOf returns the edits of several records, aligned with uris. Answers for the same URI
	// share their bodies.
	EditsOf(ctx context.Context, sourceID int64, uris []string) ([][]Edit, error)
}
