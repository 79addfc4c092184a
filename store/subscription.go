package store

import "context"

// ChannelKind is the kind of a channel's notifications.
type ChannelKind string

// The kinds of channels.
const (
	ChannelChange    ChannelKind = "change"
	ChannelFramework ChannelKind = "framework"
	ChannelFeed      ChannelKind = "feed"
)

// SubscriptionState is a point in the life of a subscription (websub.md 11, contract.md 3).
type SubscriptionState string

// The states. A subscription receives in all of them but Gone: content with a right signature is
// content (S-70). Active and Renewing hold a verified lease. Gone answers 410 (S-92).
const (
	SubWanted        SubscriptionState = "wanted"
	SubRequesting    SubscriptionState = "requesting"
	SubPending       SubscriptionState = "pending"
	SubActive        SubscriptionState = "active"
	SubRenewing      SubscriptionState = "renewing"
	SubLapsed        SubscriptionState = "lapsed"
	SubDenied        SubscriptionState = "denied"
	SubFailed        SubscriptionState = "failed"
	SubUnsubscribing SubscriptionState = "unsubscribing"
	SubOff           SubscriptionState = "off"
	SubGone          SubscriptionState = "gone"
)

// Subscription is one channel at one hub, under one callback token. A rotated callback, another hub
// or topic is another Subscription (S-51, S-52).
type Subscription struct {
	ID       int64
	SourceID int64
	SetID    int64
	Kind     ChannelKind
	Topic    string // as discovered, byte for byte
	Hub      string
	Token    string // last path segment of the callback; unguessable, never logged
	Secret   string // hub.secret, "" for none sent
	State    SubscriptionState
	// Replaces is the Subscription that ends once this one is verified, 0 for none.
	Replaces int64

	// The lease. Asked and Granted are seconds. All times are local.
	Asked, Granted int64
	Requested      Micros // when the last subscribe or unsubscribe request was sent
	Verified       Micros // when the hub last verified: a lease counts from here (S-50)
	Renew, Expires Micros
	Rotated        Micros // when callback and secret were made
	Next           Micros // when something is due again, NoTime: nothing planned
	Attempts       int    // requests without success in a row
	Profile        int    // rung of the fallback ladder (T-05) in use
	Reason         string // why it is not active, for people; hub text in it is untrusted
	Cause          string // of Reason in a stable word, "" for none (Set.Cause)
	Ended          Micros // when it became Gone

	SubscriptionCounts
}

// SubscriptionCounts are the counters of a Subscription, which the Store keeps.
type SubscriptionCounts struct {
	LastDelivery          Micros
	Delivered, Duplicates int64
	RejectedSignature     int64
	RejectedTooLarge      int64
	RejectedMalformed     int64
	PushMisses            int64
	// Missed counts push misses since the last delivery: many make the hub suspect (CONTRIBUTING.md 3.8).
	Missed int64
}

// Live reports whether the hub holds (or may hold) a verified lease for it.
func (s *Subscription) Live() bool { return s.State == SubActive || s.State == SubRenewing }

// Tally is a number of occurrences to be added to a Subscription's counters.
type Tally struct {
	RejectedSignature, RejectedTooLarge, RejectedMalformed, PushMisses int64
}

// Subscriptions keeps the agreements with hubs. No claim is needed: several processes change
// different fields, so each change is a function applied in one durable transaction.
type Subscriptions interface {
	// AddSubscription records a new one and sets its ID. The token must be new. ErrNotFound if its
	// Source is missing or forgotten.
	AddSubscription(ctx context.Context, s *Subscription) error
	// ChangeSubscription applies fn to the record, keeps the result durably and returns it;
	// ErrNotFound if there is none. fn must be quick and call nothing of the Store; after its error
	// nothing is changed. The ID and the counts are the Store's.
	ChangeSubscription(ctx context.Context, id int64, fn func(*Subscription) error) (Subscription, error)
	// Subscription returns one by ID, or ErrNotFound.
	Subscription(ctx context.Context, id int64) (Subscription, error)
	// SubscriptionByToken returns one by its callback token, or ErrNotFound. Tombstones are found too.
	SubscriptionByToken(ctx context.Context, token string) (Subscription, error)
	// Subscriptions returns those of a Source (0: of all), by ID; tombstones only if gone is set.
	Subscriptions(ctx context.Context, sourceID int64, gone bool) ([]Subscription, error)
	// TallySubscription adds to the counters of one; unknown ids are ignored. It costs a durable
	// transaction, so collect what a stranger can cause.
	TallySubscription(ctx context.Context, id int64, t Tally) error
}

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
