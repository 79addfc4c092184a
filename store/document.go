package store

import "context"

// Document is what is remembered of a fetched document: enough for a conditional request, and the
// content of small ones.
type Document struct {
	ID           int64
	SourceID     int64
	SetID        int64 // 0: belongs to the Source as a whole
	URL          string
	Kind         string
	ETag         string
	LastModified string
	At           Micros
	From, Until  Micros
	LastEntry    Micros // newest instant of a change document
	Entries      int64
	Complete     bool   // read to its end without a fault
	Body         []byte // opaque to the store
	Read         Micros // local
}

// Documents keeps the documents of a Source; the identity is (Source, URL).
type Documents interface {
	// EnsureDocument returns the id of the document of that URL, created if it is new. A power cut
	// may take it back, as what is Repeatable.
	EnsureDocument(ctx context.Context, c Claim, setID int64, url, kind string) (int64, error)
	// Document returns one, or ErrNotFound.
	Document(ctx context.Context, sourceID int64, url string) (Document, error)
	// DocumentByID returns one, or ErrNotFound; for evidence.
	DocumentByID(ctx context.Context, id int64) (Document, error)
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
