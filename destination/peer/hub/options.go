package hub

import (
	"cmp"
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
	defaultLease     = 240 * time.Hour // for a subscriber that asks for none (H-08)
	queueBytes       = 256 << 20       // of one topic; beyond, the oldest go (F94)
	maxBody          = 8 << 20
	maxSubscriptions = 100_000
	verifyRate       = 100 // a second, of one site and for one client (H-19)
)

// Options say what a hub serves and for whom. Base, State and Client are needed; a zero value stands for the default.
type Options struct {
	// Base is the absolute http or https URL of the hub, as topics advertise it (H-20). The Handler answers at its
	// path, and at "/" for a proxy that strips the path.
	Base  string
	State hubstate.State
	// Client reaches callbacks, TopicClient topics; their address policies decide which (H-19). Nil: Client.
	Client, TopicClient *fetch.Client
	// TopicPrefixes are the topics that are served. Empty: all.
	TopicPrefixes []string
	// PublisherToken lets a publisher push content. Empty: publishers on this machine may, and nobody else (H-17).
	PublisherToken string
	// TrustTopics takes content from anybody whose topic names Base as its hub (H-17, R-04). That proves what the topic
	// wants, not who is pushing.
	TrustTopics bool

	RetryBase          time.Duration // before a failed delivery is tried again, see growth (H-18)
	MaxLease, MinLease time.Duration // of leases that are granted (H-08)
	QueueCap           int           // notifications that wait for one subscriber; beyond, the oldest go (F94)
	MaxPerTopic        int           // subscriptions
	MaxPerHost         int           // subscriptions of one site: an address, or what is below a registered name
	// Signature is for subscribers of WebSub that sent a secret; those of PubSubHubbub 0.3 know SHA1 only.
	Signature websub.Method

	Log *slog.Logger
	// Tamper decides about each delivery, for demonstrations.
	Tamper func(Delivery) Action

	// For tests: other bounds, and how many times as long as usual a publisher waits for new subscribers.
	defaultLease     time.Duration
	queueBytes       int64
	maxBody          int64
	maxSubscriptions int
	verifyRate       float64
	leisure          time.Duration
}

// network is what the hub needs of *fetch.Client.
type network interface {
	Send(ctx context.Context, m fetch.Message) (*fetch.Answer, error)
	Get(ctx context.Context, req fetch.Request) (*fetch.Response, error)
}

// Check reports what is wrong with the options, as New would. An empty Base passes.
func (o Options) Check() error {
	if o.Base == "" {
		o.Base = "http://localhost"
	}
	_, err := o.withDefaults()
	return err
}

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
	o.RetryBase = cmp.Or(o.RetryBase, DefaultRetryBase)
	o.MaxLease = cmp.Or(o.MaxLease, DefaultMaxLease)
	o.MinLease = cmp.Or(o.MinLease, min(DefaultMinLease, o.MaxLease))
	o.defaultLease = cmp.Or(o.defaultLease, min(max(defaultLease, o.MinLease), o.MaxLease))
	o.QueueCap = cmp.Or(o.QueueCap, DefaultQueueCap)
	o.MaxPerTopic = cmp.Or(o.MaxPerTopic, DefaultMaxPerPeer)
	o.MaxPerHost = cmp.Or(o.MaxPerHost, DefaultMaxPerPeer)
	o.Signature = cmp.Or(o.Signature, websub.SHA256)
	o.queueBytes = cmp.Or(o.queueBytes, queueBytes)
	o.maxBody = cmp.Or(o.maxBody, maxBody)
	o.maxSubscriptions = cmp.Or(o.maxSubscriptions, maxSubscriptions)
	o.verifyRate = cmp.Or(o.verifyRate, verifyRate)
	o.leisure = cmp.Or(o.leisure, 1)
	if o.MinLease < time.Second || o.MaxLease < o.MinLease {
		return o, fmt.Errorf("leases: want 1s <= least (%v) <= most (%v)", o.MinLease, o.MaxLease)
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return o, nil
}
