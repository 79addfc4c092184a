// Package hubstate says what the companion hub must not forget, and what a database for it must do. It refuses to know
// how that is kept.
package hubstate

import (
	"context"
	"io"

	"resyncd/store"
)

// Topic is a topic that somebody subscribes to at the companion hub. It lives as long as it has subscriptions.
type Topic struct {
	ID  int64
	URL string
	// Last numbers the newest notification that was taken for it, counting from 1; those up to Floor are no longer kept.
	Last, Floor int64
	// What its content was when last seen, so that unchanged content is not delivered (H-16). Digest is the SHA-256 of
	// the body, all zero for none.
	ETag, LastModified string
	Digest             [32]byte
	// Pinged is when a publisher last said that it changed, if nobody has looked since, else store.NoTime.
	Pinged store.Micros
}

// Subscription is one verified subscription of the companion hub; there is at most one for a (Topic, Callback) (H-07).
type Subscription struct {
	ID      int64
	TopicID int64
	Topic   string
	// Callback is the only thing that protects the subscriber from forgeries, so it is never logged in full (P10).
	Callback string
	Secret   string // "" for none
	// Old: it was asked for in the manner of PubSubHubbub 0.3, whose subscribers know sha1 only, leave it to the hub to ask
	// again before a lease is over, and want their VerifyToken back whenever they are asked (H-21).
	Old               bool
	VerifyToken       string
	Verified, Expires store.Micros
	// Cursor is the number of the last notification that is dealt with: delivered, given up or dropped. What waits is
	// what the topic keeps beyond it.
	Cursor int64
	// Attempts counts the deliveries of the next one that failed; it is not tried again before Next (store.NoTime: at once).
	Attempts int
	Next     store.Micros
	// Delivered and Dropped count notifications over the life of the subscription.
	Delivered, Dropped int64
}

// Notification is content of a topic, as it goes to every subscriber.
type Notification struct {
	Topic string // its URL
	// Number counts up by one within the topic. Set by Commit; 0 means that nobody subscribes and nothing was kept.
	Number   int64
	Received store.Micros
	Type     string // Content-Type, as the publisher sent it
	Link     string // the Link header of the delivery
	Digest   [32]byte
	Body     []byte
}

// Progress is what became of a subscription's deliveries. Delivered and Dropped are added to its counters; a Cursor
// behind the recorded one does not take it back.
type Progress struct {
	SubscriptionID     int64
	Cursor             int64
	Attempts           int
	Next               store.Micros
	Delivered, Dropped int64
}

// Ping notes that a publisher said at an instant that a topic changed.
type Ping struct {
	Topic string
	At    store.Micros
}

// Look is what a look at a topic's URL found. It answers the pings up to Ping; the validators are recorded only while
// content of that Digest is the topic's newest.
type Look struct {
	Topic              string
	ETag, LastModified string
	Digest             [32]byte
	Ping               store.Micros
}

// Commit is one durable step of the hub. Parts about topics or subscriptions that have ended meanwhile are passed over.
type Commit struct {
	Notifications []*Notification // in the order in which they are to be delivered
	Progress      []Progress
	Pings         []Ping
	Looks         []Look
	// Keep and KeepBytes bound what a topic keeps for its slowest subscriber: beyond them the oldest go, though the
	// newest always stays (F94). 0: no bound.
	Keep, KeepBytes int64
	// Readable, unless nil, is called once all of this can be read and the notifications have their numbers, which is before it
	// is known to survive a power cut, or even if Commit fails then.
	Readable func()
}

// State keeps what the companion hub must not forget. Content is kept once a notification, and each subscription is a
// pointer into it, so that publishing costs the same for one subscriber and for thousands. Methods are safe for
// concurrent use and durable when they return nil. Errors are those of store.Store.
type State interface {
	// Topics returns all topics, Subscriptions all subscriptions, by ID, those whose lease is over included.
	Topics(ctx context.Context) ([]Topic, error)
	Subscriptions(ctx context.Context) ([]Subscription, error)
	// Subscribe records a subscription, or updates Secret, Old, VerifyToken, Verified and Expires of the one that has
	// the same Topic and Callback (H-07), and returns it as it stands now, with its topic. A new one, and one that had expired at
	// s.Verified, begins behind the newest notification.
	Subscribe(ctx context.Context, s Subscription) (Subscription, Topic, error)
	// End drops subscriptions, and topics that nobody is left for; unknown ids are ignored.
	End(ctx context.Context, ids ...int64) error
	// Commit applies c in one transaction: notifications get their numbers and become their topic's content (without
	// validators), then pings, progress and looks are recorded, then what every subscriber is done with goes.
	Commit(ctx context.Context, c *Commit) error
	// Notifications returns what a topic keeps beyond the number after, oldest first: at most limit of them, and no more
	// once their bodies have reached maxBytes, but at least one.
	Notifications(ctx context.Context, topicID, after int64, limit int, maxBytes int64) ([]Notification, error)
	io.Closer
}
