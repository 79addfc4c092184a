// Package hub knows how to be a WebSub hub: who subscribes to what until when, and how content that a publisher hands
// over reaches every subscriber once, whole and in order. It refuses to know what the content means, who made it, and
// how its state is kept.
//
// Rules are cited as H-nn and R-nn from websub.md, faults as Fnn from faults.md.
package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"time"

	"resyncd/destination/fetch"
	"resyncd/destination/peer/hub/hubstate"
	"resyncd/destination/safe"
	"resyncd/destination/websub"
	"resyncd/store"
)

const (
	failingDeliveries = 128

	sweepEvery = 30 * time.Second // timers stand still in a suspended machine (F16)
	stopGrace  = 5 * time.Second  // for what is on the wire when the hub stops
)

type phase int

const (
	idle phase = iota
	running
	stopping // what is on its way is finished
	stopped
)

// Hub is a WebSub hub. Its Handler answers 503 until Run has read the state, and while the hub stops.
type Hub struct {
	o      Options
	net    network // to callbacks
	topics network // to topics
	path   string  // of Base
	places places

	// changing is held while a subscription begins, changes or ends, so that state and memory agree.
	changing sync.Mutex

	mu       sync.Mutex // guards what follows; never held while waiting
	phase    phase
	spawn    func(task func(context.Context)) // set by Run
	registry registry
	requests requests
	recent   recent
	claims   claims
	writes   writes

	opened, halt chan struct{} // closed when the state is read, and when Run is to stop
}

// places bound how much is done at a time.
type places struct {
	quick   pool // deliveries that answer well
	slow    pool // those that took long last time
	failing pool // those that failed last time
	reading pool // topics that are read
	bodies  pool // pushed contents that are received
}

// New returns a hub that Run brings to life.
func New(o Options) (*Hub, error) {
	if o.Client == nil || o.State == nil {
		return nil, errors.New("a hub needs a client and a state")
	}
	return newHub(o, o.Client, cmp.Or(o.TopicClient, o.Client))
}

func newHub(o Options, net, topics network) (*Hub, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	base, _ := url.Parse(o.Base) // it was parsed before
	h := &Hub{
		o: o, net: net, topics: topics, path: cmp.Or(base.EscapedPath(), "/"),
		places: places{
			quick: make(pool, 512), slow: make(pool, 128), failing: make(pool, failingDeliveries),
			reading: make(pool, 16), bodies: make(pool, 32),
		},
		registry: registry{topics: map[string]*topic{}, bySite: map[string]int{}},
		requests: requests{
			chains: map[pair][]*request{}, asking: map[*request]time.Time{},
			new: newVerifyQueue(o.verifyRate), existing: newVerifyQueue(o.verifyRate),
		},
		claims: claims{},
		writes: writes{moved: map[*subscription]bool{}, failed: make(chan error, 1)},
		opened: make(chan struct{}), halt: make(chan struct{}),
	}
	return h, nil
}

// Run does the work of the hub until ctx ends. It returns nil after an orderly end, and an error if the state cannot be
// read or written. It may be called once.
func (h *Hub) Run(ctx context.Context) error {
	hard, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var work sync.WaitGroup
	if err := h.load(ctx, func(task func(context.Context)) {
		work.Go(func() { h.guarded("task", func() { task(hard) }) })
	}); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("read the hub's state: %w", err)
	}
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	var failure error
	h.later(h.sweep)
	for ctx.Err() == nil && failure == nil {
		select {
		case <-ctx.Done():
		case <-sweep.C:
			h.later(h.sweep)
		case failure = <-h.writes.failed:
		}
	}
	h.stop()
	grace := time.AfterFunc(stopGrace, cancel)
	work.Wait()
	grace.Stop()
	if err := h.recordProgress(); err != nil && !errors.Is(err, store.ErrFull) && failure == nil {
		failure = unwritable(err)
	}
	h.mu.Lock()
	h.phase = stopped
	h.mu.Unlock()
	h.writes.running.Wait()
	return failure
}

func (h *Hub) load(ctx context.Context, spawn func(task func(context.Context))) error {
	topics, err := h.o.State.Topics(ctx)
	if err != nil {
		return err
	}
	subs, err := h.o.State.Subscriptions(ctx)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase != idle {
		return errors.New("this hub was run before")
	}
	h.phase, h.spawn = running, spawn
	close(h.opened)
	for i := range topics {
		h.registry.topic(&topics[i])
	}
	for i := range subs {
		h.registry.admit(&subs[i])
	}
	for _, t := range h.registry.topics {
		h.wakeTopic(t)
	}
	h.o.Log.Info("hub is open", "topics", len(h.registry.topics), "subscriptions", h.registry.count)
	return nil
}

// stop ends the intake and wakes what sleeps.
func (h *Hub) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.phase = stopping
	close(h.halt)
	h.registry.stopTimers()
	for _, chain := range h.requests.chains {
		for _, q := range chain {
			q.answer(errStopping)
		}
	}
}

func stopTimer(t *time.Timer) {
	if t != nil {
		t.Stop()
	}
}

// later has something done in the background.
func (h *Hub) later(task func(context.Context)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.start(task)
}

// start is later with h.mu held.
func (h *Hub) start(task func(context.Context)) {
	if h.phase == running {
		h.spawn(task)
	}
}

// guarded keeps a bug in one task from ending all others (F5, P11); false if there was one.
func (h *Hub) guarded(what string, task func()) (ok bool) {
	err := safe.Do(func() error { task(); return nil })
	if err != nil {
		h.o.Log.Error("a "+what+" of the hub broke off; please report this", "err", err)
	}
	return err == nil
}

// pool bounds how many do something at a time.
type pool chan struct{}

// enter waits for a place; false if the hub stops.
func (p pool) enter(ctx context.Context, halt <-chan struct{}) bool {
	select {
	case <-halt:
		return false
	default:
	}
	select {
	case p <- struct{}{}:
		return true
	case <-halt:
	case <-ctx.Done():
	}
	return false
}

func (p pool) leave() { <-p }

func (h *Hub) micros() store.Micros { return store.MicrosOf(time.Now()) }

func (h *Hub) listens(path string) bool {
	return path == h.path || path == "/" || strings.TrimSuffix(path, "/") == strings.TrimSuffix(h.path, "/")
}

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
	// Lose says which deliveries never go out although the hub believes so, for demonstrations. The first attempt is 0,
	// and number that of the notification within its topic.
	Lose func(number int64, attempt int, body []byte) bool

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
	o.Base = cmp.Or(o.Base, "http://localhost")
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
