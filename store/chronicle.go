package store

import "context"

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
