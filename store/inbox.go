package store

import "context"

// Delivery is one notification as received, kept until its content is recorded (CONTRIBUTING.md 3.4).
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
	// From and Until are the interval of the document's head, in Source time, NoTime where it has none.
	From, Until Micros
	Body        []byte
	// Kept says that the content is recorded, but shows what the list of an open gap must hold
	// (coverage.md 4, rule 3).
	Kept bool
	// Duplicate is set by Deliver: the same body was delivered for this set and kind before.
	Duplicate bool
}

// InboxChange removes a Delivery from the inbox, or marks it as kept.
type InboxChange struct {
	ID   int64
	Keep bool // false: it is removed
}

// InboxQuery selects deliveries.
type InboxQuery struct {
	SourceID int64
	Kept     bool  // the kept ones, else those not recorded yet
	After    int64 // ids above
	Limit    int
	MaxBytes int64 // of bodies, 0 unlimited; at least one is returned
}

// InboxSize is how much waits in the inbox.
type InboxSize struct {
	Deliveries int64
	Bytes      int64
}

// Inbox keeps deliveries. Deliver needs no claim, because any process may answer a hub.
type Inbox interface {
	// Deliver keeps all of ds in one transaction that survives a power cut when it returns nil (P4), sets the ID of
	// those that are kept, and counts them in their subscriptions (Delivered, of which Duplicates, LastDelivery;
	// Missed becomes 0). Deliveries of forgotten Sources count as done. ErrFull as it says.
	//
	// A signed delivery with a known interval whose body was kept for the same set and kind within
	// the last day is a duplicate: it is counted, marked as Duplicate and not kept again, without
	// harm where that was dropped meanwhile (S-67, F35). "Within a day" goes by Received; the Store
	// may forget the oldest of very many, and need not know what another process keeps beside it.
	//
	// readable, unless nil, is called once Deliveries returns them and ID and Duplicate are set. That is before they
	// are known to survive a power cut, or even if Deliver fails then. Work on them may begin at once: commits become
	// durable in their order, so nothing durable remains of a delivery that is lost.
	Deliver(ctx context.Context, ds []*Delivery, readable func()) error
	// Durable returns once everything that readable reported and everything committed before,
	// Repeatable or not, survives a power cut; the error if that is not sure. The mirror must not
	// change before: else a file might be there, or gone, without a record (P1).
	Durable(ctx context.Context) error
	// Deliveries returns waiting deliveries, in the order of arrival, bodies included.
	Deliveries(ctx context.Context, q InboxQuery) ([]Delivery, error)
	// InboxShares returns how much waits (without kept ones) by Source, cheaply; Sources without any are left out.
	InboxShares(ctx context.Context) (map[int64]InboxSize, error)
}
