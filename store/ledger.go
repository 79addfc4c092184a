package store

import "context"

// GapState is a point in the life of a gap (coverage.md 4).
type GapState string

// The states of a gap. Closed and Unprovable are final.
const (
	GapFound      GapState = "found"
	GapWaiting    GapState = "waiting"
	GapPulling    GapState = "pulling"
	GapLagging    GapState = "lagging"
	GapBaseline   GapState = "baseline"
	GapClosed     GapState = "closed"
	GapUnprovable GapState = "unprovable"
)

// Open reports whether the gap still needs work.
func (s GapState) Open() bool { return s != GapClosed && s != GapUnprovable }

// Gap is a hole in the coverage of a set.
type Gap struct {
	ID          int64 // 0: new
	SetID       int64
	From, Until Micros
	State       GapState
	ClosedBy    string // notification, change-list, archive, change-dump, baseline; "" while open
	Found       Micros // local
	Ended       Micros // local
}

// Run is the outcome of one pull, for people.
type Run struct {
	ID                int64
	SetID             int64
	Kind              string // baseline, incremental, none
	Started, Ended    Micros // local
	Fetched, Deleted  int64
	Unchanged, Failed int64
	Bytes, Requests   int64
	Problem           string
}

// Trashed is one file in the trash of a mirror.
type Trashed struct {
	ID       string // name of the file in the trash; ids sort by age
	SourceID int64
	URI      string // "" for a file no resource of ours owned
	Key      string // its former key
	SHA256   [32]byte
	Length   int64 // -1 unknown
	Reason   string
	At       Micros // local; when it was trashed
}

// Event is one line of a resource's history.
type Event struct {
	SourceID int64
	URI      string
	At       Micros // local
	What     string // wanted, fetched, adopted, deleted, held, approved, rejected, restored, displaced
	Version  Version
	Detail   string // result: digest, length, reason
	Document string // URL of the evidence, filled on reading
}

// Ledger reads the engine's records.
type Ledger interface {
	// Gaps returns all open gaps of a set and its last 100 ended ones, in the order they were recorded.
	Gaps(ctx context.Context, setID int64) ([]Gap, error)
	// Runs returns the newest runs of a set, newest first.
	Runs(ctx context.Context, setID int64, limit int) ([]Run, error)
	// Trash returns up to limit trashed files of a Source put there before `before` (NoTime: all),
	// by id, with ids above after. The file itself may have left the trash.
	Trash(ctx context.Context, sourceID int64, before Micros, after string, limit int) ([]Trashed, error)
	// TrashedOf returns the newest trashed file of a URI (the highest id), or ErrNotFound.
	TrashedOf(ctx context.Context, sourceID int64, uri string) (Trashed, error)
	// History returns the events of one URI in the order they were recorded; the last 100 at least.
	History(ctx context.Context, sourceID int64, uri string) ([]Event, error)
	// Edits returns the edits of one record by (Observed, Digest); empty for an unknown one.
	Edits(ctx context.Context, sourceID int64, uri string) ([]Edit, error)
	// EditsOf returns the edits of several records, aligned with uris. Answers for the same URI share their bodies.
	EditsOf(ctx context.Context, sourceID int64, uris []string) ([][]Edit, error)
}

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

// Point is the sum of what happened to one Source within one width of local time.
type Point struct {
	SourceID int64
	At       Micros // its begin; a multiple of its width
	// Changes counts files placed or removed, Failed attempts that left one owed, Bytes the placed bytes.
	Changes, Failed, Bytes int64
	// Pushes counts notifications that were carried out, Latency sums their microseconds from receipt to the durable
	// file. Misses counts changes that a pull saw first although a channel was active.
	Pushes, Latency, LatencyMost, Misses int64
}

// Add adds another Point's numbers; Source and time stay.
func (p *Point) Add(o *Point) {
	p.Changes += o.Changes
	p.Failed += o.Failed
	p.Bytes += o.Bytes
	p.Pushes += o.Pushes
	p.Latency += o.Latency
	p.LatencyMost = max(p.LatencyMost, o.LatencyMost)
	p.Misses += o.Misses
}

// Width is the length of a Point in seconds.
type Width int64

// The widths that are kept: minutes for two days, hours for a hundred days, days for six years.
const (
	Minute Width = 60
	Hour   Width = 3600
	Day    Width = 86400
)

// SpanKind is the kind of evidence for a span of time.
type SpanKind string

// The kinds of spans. Feed: a feed that was read back to a known entry.
const (
	SpanNotification SpanKind = "notification"
	SpanChangeList   SpanKind = "change-list"
	SpanArchive      SpanKind = "archive"
	SpanChangeDump   SpanKind = "change-dump"
	SpanBaseline     SpanKind = "baseline"
	SpanFeed         SpanKind = "feed"
)

// Span is a piece of the evidence for a set's coverage, only for people. A span of a document grows with it: the same
// URL and From, or of a baseline URL and Until. A notification or a feed is counted with the newest one of its set,
// kind and document that it touches in the same hour of Source time. Spans without Until are ignored.
type Span struct {
	ID          int64
	SetID       int64
	Kind        SpanKind
	From, Until Micros // Source; From is NoTime for a baseline
	First, Last Micros // local; when it was first and last recorded
	// Count is the number of pieces; 0 in a commit is 1.
	Count    int64
	Entries  int64  // of all its pieces; of a document the present ones
	Document string // its URL, "" for notifications
}

// SubscriptionEvent is one step in the life of a subscription: another state, or a renewed lease.
type SubscriptionEvent struct {
	ID             int64
	SubscriptionID int64
	SourceID       int64
	SetID          int64
	Kind           ChannelKind
	Topic, Hub     string
	At             Micros // local
	From, To       SubscriptionState
	Lease          int64 // seconds, 0 if it granted none
	Reason         string
}

// Chronicle keeps what happened, aggregated and bounded, for people. It needs no claim.
type Chronicle interface {
	// AddPoints adds to the minutes, hours and days that hold the points, in one transaction. Empty
	// points, and those of missing Sources, are ignored.
	AddPoints(ctx context.Context, points []Point) error
	// Points returns the points of a Source (0: of all) in [from, until), by Source and time; empty
	// ones are left out.
	Points(ctx context.Context, sourceID int64, w Width, from, until Micros) ([]Point, error)
	// Spans returns up to limit spans of a set that touch [from, until], in order of From: the
	// newest (by Until) if there are more. A baseline touches whatever holds its Until.
	Spans(ctx context.Context, setID int64, from, until Micros, limit int) ([]Span, error)
	// SubscriptionEvents returns the newest of a Source, newest first: each new subscription and
	// change of State or Verified. Lease is what was granted where Verified changed.
	SubscriptionEvents(ctx context.Context, sourceID int64, limit int) ([]SubscriptionEvent, error)
	// Find returns up to limit resources of a Source whose URI contains text, with all wants: the exact one, those
	// that begin with it, then others in any ASCII letter case; each in the order of URIs. Nothing in text is a
	// wildcard. The search for others reads a bounded number of rows; complete reports that there are no more.
	Find(ctx context.Context, sourceID int64, text string, limit int) (found []*Resource, complete bool, err error)
}
