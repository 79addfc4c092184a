package hub

import "time"

// eventKind is what happened.
type eventKind string

const (
	eventPublished  eventKind = "published"
	eventUnchanged  eventKind = "unchanged"  // a pinged topic
	eventUnreadable eventKind = "unreadable" // a pinged topic
	eventDelivered  eventKind = "delivered"
	eventFailed     eventKind = "failed"  // a delivery; it is tried again
	eventDropped    eventKind = "dropped" // notifications: given up, or too many waited
	eventVerified   eventKind = "verified"
	eventUnverified eventKind = "unverified"
	eventDenied     eventKind = "denied"
	eventEnded      eventKind = "ended"
)

// event is one thing that happened, for tests.
type event struct {
	Kind         eventKind
	Topic        string
	Subscription int64
	Number       int64         // of the notification within its topic
	Count        int64         // dropped
	Took         time.Duration // since the publisher handed it over
	Why          string
}

// Action is what becomes of a delivery.
type Action int

// The actions.
const (
	Deliver Action = iota
	Drop           // the hub believes that it was delivered
	Double
)

// Delivery is one notification on its way to one subscriber.
type Delivery struct {
	Topic        string
	Subscription int64
	Number       int64 // of the notification within its topic
	Attempt      int   // 0 for the first
	Body         []byte
}
