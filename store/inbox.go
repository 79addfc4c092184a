package store

import "context"

// Delivery is one notification as it came over the wire, kept until what it says is recorded (design.md 3.4).
type Delivery struct {
	ID             int64
	SubscriptionID int64
	SourceID       int64
	SetID          int64
	Kind           ChannelKind
	Received       Micros   // local
	Signed         bool     // a valid signature by the subscription's secret
	Digest         [32]byte // SHA-256 of Body
	Type           string   // Content-Type
	// From, Until are the interval of the document's head, in Source time, NoTime where it has none. Verdict is what the
	// callback made of it; only the engine's own reading counts (coverage.md 4).
	From, Until Micros
	Verdict     string
	Body        []byte
	// Kept: what it says is recorded, but it stands behind an open gap and tells what the gap's list must hold
	// (coverage.md 3, rule 3).
	Kept bool
	// Duplicate is set by Deliver: the same body was delivered for this set and kind before.
	Duplicate bool
}

// InboxChange ends a Delivery's time in the inbox, or marks it as kept, with the commit that records what it says.
type InboxChange struct {
	ID   int64
	Keep bool // false: it goes
}

// InboxQuery selects deliveries.
type InboxQuery struct {
	SourceID int64
	Kept     bool  // the kept ones, else those not recorded yet
	After    int64 // ids above
	Limit    int
	MaxBytes int64 // of bodies, 0 unlimited; at least one is returned
}

// InboxSize is what waits in the inbox.
type InboxSize struct {
	Deliveries int64
	Bytes      int64
}

// Inbox keeps deliveries. Deliver needs no claim, any process may answer a hub; what is in the inbox is taken up, and
// dropped, by Commit.Inbox under the claim of its Source.
type Inbox interface {
	// Deliver keeps all of ds in one transaction that survives a power cut when it returns nil (P4), sets the ID of those
	// that are kept, and counts them in their subscriptions (Delivered, of which Duplicates, LastDelivery; Missed becomes 0).
	// A signed delivery with a known interval whose body was kept for the same set and kind within the last day is a
	// duplicate: it is counted, marked as Duplicate and not kept again, without harm where that was dropped meanwhile (S-67,
	// F35). "Within a day" goes by Received; the Store may forget the oldest of very many, and need not know what another
	// process keeps beside it. Deliveries of Sources that are forgotten are counted as done. ErrFull as it says.
	//
	// readable, unless it is nil, is called once Deliveries returns them and ID and Duplicate are set, which is before they are
	// known to survive a power cut, or even if Deliver fails then. Who takes them up at once leaves nothing in the Store
	// that survives one which they do not: what is committed becomes durable in the order of the commits.
	Deliver(ctx context.Context, ds []*Delivery, readable func()) error
	// Durable returns once all that readable told of and all that was committed before, Repeatable or not, survives a power cut;
	// the error if that is not sure. Nobody changes the mirror before: else a file might be there, or gone, of which nothing tells (P1).
	Durable(ctx context.Context) error
	// Deliveries returns what waits, in the order of arrival, bodies included.
	Deliveries(ctx context.Context, q InboxQuery) ([]Delivery, error)
	// Inbox returns how much waits (kept ones left out), over all Sources; it must be cheap enough to be asked often.
	Inbox(ctx context.Context) (InboxSize, error)
	// InboxShares returns how much of that is of which Source, as cheaply; Sources of which nothing waits are left out. With
	// it one Source that piles up can be held to a share, so that hubs of others are not told to come again.
	InboxShares(ctx context.Context) (map[int64]InboxSize, error)
}
