package hub

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"resyncd/destination/fetch"
	"resyncd/destination/peer/hub/hubstate"
	"resyncd/destination/websub"
)

// Defaults of Options.
const (
	DefaultRetryBase  = 15 * time.Second
	DefaultMaxLease   = 720 * time.Hour
	DefaultMinLease   = 300 * time.Second
	DefaultQueueCap   = 10_000
	DefaultMaxPerPeer = 20_000
)

// Bounds that only tests set otherwise.
const (
	defaultLease     = 240 * time.Hour // for a subscriber that does not ask (H-08)
	queueBytes       = 256 << 20       // of content of one topic that is kept; beyond, the oldest goes (F94)
	maxBody          = 8 << 20         // bytes of the largest content that is relayed
	maxSubscriptions = 100_000
	verifyRate       = 100 // verifications a second of one site, and for one client (H-19)
)

// Options say what a hub serves and for whom. Base, State and Client are needed.
type Options struct {
	// Base is the absolute http or https URL of the hub, as the outside sees it: the one that topics advertise and that
	// stands in every Link header (H-20). The Handler answers at its path, and at "/" for a proxy that strips the path.
	Base  string
	State hubstate.State
	// Client is the way out; its address policy decides which callbacks may be reached (H-19).
	Client *fetch.Client
	// TopicClient is the way to topics, with a policy of its own (H-19). Nil: Client.
	TopicClient *fetch.Client
	// TopicPrefixes are the topics that may be subscribed to and published, a prefix without a path is that origin.
	// Empty: any topic.
	TopicPrefixes []string
	// PublisherToken lets a publisher push content, as "Authorization: Bearer TOKEN". Empty: publishers on this machine
	// may, and nobody else (H-17).
	PublisherToken string
	// TrustTopics takes content from anybody whose topic, when it is read, names Base as its hub (H-17, R-04). That proves
	// what the topic wants, not who is pushing: subscribers get whatever anybody pushes for such a topic.
	TrustTopics bool

	// RetryBase is the wait before a failed delivery is tried again, then twice, 6, 24 and 120 times as long (H-18).
	RetryBase time.Duration
	// Leases asked for are brought between MinLease and MaxLease (H-08).
	MaxLease, MinLease time.Duration
	// QueueCap is how many notifications wait for one subscriber; beyond, the oldest are dropped (F94).
	QueueCap int
	// MaxPerTopic bounds the subscriptions to one topic, and MaxPerHost those of the callbacks of one site, which is an
	// address or what lies below a registered name.
	MaxPerTopic, MaxPerHost int
	// Signature is the method that content is signed with for subscribers that sent a secret. MethodNone: SHA256.
	// Subscribers of PubSubHubbub 0.3 get SHA1, the only one they know.
	Signature websub.Method

	// Now is the clock. Nil: time.Now.
	Now func() time.Time
	// Log gets what an operator may care about. Nil: nowhere.
	Log *slog.Logger
	// Tamper decides about each delivery, for demonstrations. Nil: all are delivered.
	Tamper func(Delivery) Action

	// For tests: other bounds, what hears of every Event and must not call back, and how many times as long as usual a
	// publisher waits for new subscribers.
	defaultLease     time.Duration
	queueBytes       int64
	maxBody          int64
	maxSubscriptions int
	verifyRate       float64
	observe          func(Event)
	leisure          time.Duration
}

// network is what the hub needs of *fetch.Client.
type network interface {
	Send(ctx context.Context, m fetch.Message) (*fetch.Answer, error)
	Get(ctx context.Context, req fetch.Request) (*fetch.Response, error)
}

// Check tells what is wrong with the options, as New would. An empty Base passes: it may follow once the address is known.
func (o Options) Check() error {
	if o.Base == "" {
		o.Base = "http://localhost"
	}
	_, err := o.withDefaults()
	return err
}

// withDefaults returns the options with every default filled in, or what is wrong with them.
func (o Options) withDefaults() (Options, error) {
	base, err := url.Parse(o.Base)
	if err != nil {
		return o, fmt.Errorf("hub URL: %w", err)
	}
	if !usable(base) || base.RawQuery != "" {
		return o, fmt.Errorf("hub URL %q: want http://HOST[:PORT][/PATH] or https, without user, query or fragment",
			base.Redacted())
	}
	for _, p := range o.TopicPrefixes {
		if u, err := url.Parse(p); err != nil || !usable(u) {
			return o, fmt.Errorf("topic prefix %q: want http://HOST[:PORT][/PATH] or https", p)
		}
	}
	if min(int64(o.RetryBase), int64(o.QueueCap), int64(o.MaxPerTopic), int64(o.MaxPerHost)) < 0 {
		return o, errors.New("a negative retry base, queue or number of subscriptions")
	}
	setDefault(&o.RetryBase, DefaultRetryBase)
	setDefault(&o.MaxLease, DefaultMaxLease)
	setDefault(&o.MinLease, min(DefaultMinLease, o.MaxLease))
	setDefault(&o.defaultLease, min(max(defaultLease, o.MinLease), o.MaxLease))
	setDefault(&o.QueueCap, DefaultQueueCap)
	setDefault(&o.MaxPerTopic, DefaultMaxPerPeer)
	setDefault(&o.MaxPerHost, DefaultMaxPerPeer)
	setDefault(&o.Signature, websub.SHA256)
	setDefault(&o.queueBytes, queueBytes)
	setDefault(&o.maxBody, maxBody)
	setDefault(&o.maxSubscriptions, maxSubscriptions)
	setDefault(&o.verifyRate, verifyRate)
	setDefault(&o.leisure, 1)
	if o.MinLease < time.Second || o.MaxLease < o.MinLease {
		return o, fmt.Errorf("leases: want 1s <= least (%v) <= most (%v)", o.MinLease, o.MaxLease)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.observe == nil {
		o.observe = func(Event) {}
	}
	return o, nil
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}
