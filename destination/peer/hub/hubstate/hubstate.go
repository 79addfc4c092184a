// Package hubstate says what the companion hub must not forget, and what a database for it must do. It refuses to know
// how that is kept.
package hubstate

import (
	"context"
	"io"

	"resyncd/store"
)

// Topic is a topic with subscriptions; it ends with the last of them.
type Topic struct {
	ID  int64
	URL string
	// Last numbers the newest notification, counting from 1; those up to Floor are no longer kept.
	Last, Floor int64
	// Validators and SHA-256 of the content when last seen, so that the same is not delivered again (H-16); zero for
	// none.
	ETag, LastModified string
	Digest             [32]byte
	// Pinged is when a publisher said that it changed, if nobody has looked since, else store.NoTime.
	Pinged store.Micros
}

// Subscription is a verified subscription; there is at most one for a (Topic, Callback) (H-07).
type Subscription struct {
	ID      int64
	TopicID int64
	Topic   string
	// Callback is all that protects the subscriber from forgeries: it is never logged in full (P10).
	Callback string
	Secret   string // "" for none
	// Old: in the manner of PubSubHubbub 0.3 (H-21), with sha1, its VerifyToken in each question, and a question before
	// the lease is over.
	Old               bool
	VerifyToken       string
	Verified, Expires store.Micros
	// Cursor is the number of the last notification that was delivered, given up or dropped.
	Cursor int64
	// Attempts counts failed deliveries of the next one, which is not tried again before Next.
	Attempts int
	Next     store.Micros
	// Delivered and Dropped count notifications.
	Delivered, Dropped int64
}

// Notification is content of a topic, as it goes to every subscriber.
type Notification struct {
	Topic string // its URL
	// Number counts up by one within the topic. Set by Commit; 0: nobody subscribes and nothing was kept.
	Number   int64
	Received store.Micros
	Type     string // Content-Type, as the publisher sent it
	Link     string // the Link header of the delivery
	Digest   [32]byte
	Body     []byte
}

// Commit is one durable step of the hub. What is about ended topics or subscriptions is passed over.
type Commit struct {
	Notifications []*Notification // in the order in which they are to be delivered
	// Progress is what became of deliveries: ID, Cursor, Attempts and Next count, and Delivered and Dropped are added.
	// A Cursor behind the recorded one changes nothing.
	Progress []Subscription
	// Pings are the URLs of topics that changed, as a publisher said at Pinged.
	Pings []Topic
	// Looks are what URLs of topics showed. One answers the pings up to Pinged; its validators count while Digest is
	// that of the newest content.
	Looks []Topic
	// Keep and KeepBytes bound what a topic keeps: beyond them all but the newest go, oldest first (F94). 0: no bound.
	Keep, KeepBytes int64
	// Readable, unless nil, is called once all of this can be read and numbers are given: before it survives a power
	// cut, and perhaps before Commit fails.
	Readable func()
}

// State keeps what the hub must not forget. Methods are safe for concurrent use and durable when they return nil.
// Errors are those of store.Store.
type State interface {
	// Topics and Subscriptions return all, by ID, with those whose lease is over.
	Topics(ctx context.Context) ([]Topic, error)
	Subscriptions(ctx context.Context) ([]Subscription, error)
	// Subscribe records a subscription, or updates Secret, Old, VerifyToken, Verified and Expires (H-07), and returns
	// it with its topic. A new one, or one that had expired at s.Verified, begins behind the newest notification.
	Subscribe(ctx context.Context, s Subscription) (Subscription, Topic, error)
	// End drops subscriptions, and topics without any; unknown ids are ignored.
	End(ctx context.Context, ids ...int64) error
	// Commit applies c in one transaction: notifications, pings, progress, looks; then what every subscriber is done
	// with goes.
	Commit(ctx context.Context, c *Commit) error
	// Notifications returns what a topic keeps beyond after, oldest first: at most limit, and none more once their
	// bodies have reached maxBytes.
	Notifications(ctx context.Context, topicID, after int64, limit int, maxBytes int64) ([]Notification, error)
	io.Closer
}
