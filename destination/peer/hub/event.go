package hub

import "time"

// EventKind is what happened.
type EventKind string

// The kinds of events.
const (
	Published  EventKind = "published"  // content was taken for a topic that somebody subscribes to
	Unchanged  EventKind = "unchanged"  // a publisher pinged, but the topic holds what it held
	Unreadable EventKind = "unreadable" // a publisher pinged, but the topic cannot be read; it is tried again, or given up
	Delivered  EventKind = "delivered"
	Failed     EventKind = "failed"  // a delivery; it is tried again
	Dropped    EventKind = "dropped" // notifications that a subscriber will not get: given up, or too many waited
	Verified   EventKind = "verified"
	Unverified EventKind = "unverified" // the subscriber did not confirm
	Denied     EventKind = "denied"
	Ended      EventKind = "ended" // unsubscribed, 410, or the lease was over
)

// Event tells of one thing that happened. It names no callback: that is a secret of the subscriber.
type Event struct {
	Kind         EventKind
	Topic        string
	Subscription int64         // 0 where it concerns none
	Number       int64         // of the notification within its topic
	Count        int64         // Dropped: how many
	Took         time.Duration // Delivered: since the publisher handed it over
	Why          string        // of a failure, for people
}

// Action is what becomes of a delivery.
type Action int

// The actions.
const (
	Deliver Action = iota
	Drop           // the subscriber does not get it, the hub believes that it did
	Double         // it gets it twice
)

// Delivery is one notification on its way to one subscriber.
type Delivery struct {
	Topic        string
	Subscription int64
	Number       int64 // of the notification within its topic
	Attempt      int   // 0 for the first
	Body         []byte
}
