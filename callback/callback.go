// Package callback knows what hubs send to us and what they are answered: verification, denial and
// content, kept durably before the answer. It refuses to know what a notification changes (sync)
// and what goes on at the hub (destination).
package callback

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"resyncd/destination/safe"
	"resyncd/destination/websub"
	"resyncd/store"
)

// Store is where a Callback keeps things.
type Store interface {
	store.Subscriptions
	store.Inbox
}

// Keeper decides what a hub's request means. After an error the hub is asked to come again.
type Keeper interface {
	// Verify reports whether to confirm what the hub asks, and records that. Topic and subscription
	// are known to fit.
	Verify(ctx context.Context, sub store.Subscription, v websub.Verification) (confirm bool, err error)
	// Denied records that the hub refuses the subscription, with its untrusted reason.
	Denied(ctx context.Context, sub store.Subscription, reason string) error
}

// Options of a Callback. Store and Keeper are needed; any other zero value is a default. Functions
// must not block.
type Options struct {
	Store  Store
	Keeper Keeper
	// Wake: deliveries of a Source can be read, perhaps before they are durable.
	Wake func(sourceID int64)
	// Weakest is the weakest signature accepted for a Source (S-83); MethodNone: any of the four.
	Weakest func(sourceID int64) websub.Method
	// TooLarge asks for a pull, because a notification exceeded MaxBody (S-69): at most once a
	// second for each subscription.
	TooLarge func(sourceID, setID int64)
	// Doubtful asks for a pull, because a notification lacked the signature that it needs (S-85,
	// at most once a minute for each subscription.
	Doubtful func(sourceID, setID int64)
	// Moved: a signed notification names another self link than its topic (S-64), a hint to redo
	// discovery: at most once an hour for each subscription. self is untrusted.
	Moved func(sub store.Subscription, self string)

	// BasePath is the escaped path of the base URL, above the tokens.
	BasePath string
	MaxBody  int64 // bytes of a notification, on the wire and decoded; 8 MiB

	Now     func() time.Time // wall clock
	Log     *slog.Logger
	Observe Observer

	limits limits // tests make them smaller
}

// limits bound what one process holds for all hubs.
type limits struct {
	// memory is the bytes of notifications held before they are durable. One subscription may take
	// a quarter, or what one encoded notification of MaxBody needs.
	memory int64
	// waiting is how many notifications may wait for a commit.
	waiting int
	// inboxBytes and inboxDeliveries bound what waits in the inbox (F45).
	inboxBytes, inboxDeliveries int64
}

func (o Options) withDefaults() Options {
	if o.BasePath = strings.Trim(o.BasePath, "/"); o.BasePath != "" {
		o.BasePath = "/" + o.BasePath
	}
	o.BasePath += "/"
	if o.MaxBody <= 0 {
		o.MaxBody = 8 << 20
	}
	l := &o.limits
	l.memory = max(cmp.Or(l.memory, 64<<20), 4*(2*o.MaxBody+noteOverhead))
	l.waiting = cmp.Or(l.waiting, 1024)
	l.inboxBytes, l.inboxDeliveries = cmp.Or(l.inboxBytes, 1<<30), cmp.Or(l.inboxDeliveries, 100_000)
	if o.Weakest == nil {
		o.Weakest = func(int64) websub.Method { return websub.MethodNone }
	}
	o.Observe = o.Observe.withDefaults()
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return o
}

// Callback answers hubs (websub.md 10), behind the deadlines and caps of Serve. Notifications are
// answered only while Run is running.
type Callback struct {
	o     Options
	ready atomic.Bool

	subs    *lookup
	memory  *memoryLimit
	inbox   *inbox
	tallies *tallies
	moved   *hints
	doubted *hints
}

// New returns a Callback that answers everything with 503 until SetReady.
func New(o Options) *Callback {
	o = o.withDefaults()
	return &Callback{
		o:      o,
		subs:   &lookup{store: o.Store, known: make(map[[sha256.Size]byte]remembered)},
		memory: newMemoryLimit(o.limits.memory),
		inbox:  newInbox(o),
		tallies: &tallies{
			o: o, by: make(map[int64]*tally), reports: newHints(reportEvery), failures: newHints(failureEvery),
		},
		moved:   newHints(time.Hour),
		doubted: newHints(time.Minute),
	}
}

// SetReady says whether the subscriptions are there. Before, a 404 or 410 would end subscriptions
// (S-68), so the answer is 503.
func (c *Callback) SetReady(ready bool) { c.ready.Store(ready) }

// Changed must be called for every change of a subscription.
func (c *Callback) Changed(sub store.Subscription) { c.subs.forget(sub.Token) }

// ServeHTTP answers one request. http.ServeMux would answer //, .. and the like with redirects, and
// a redirect is a failed delivery (websub.md 12).
func (c *Callback) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	err := safe.Do(func() error { c.answer(w, r, began); return nil })
	switch bug, ok := errors.AsType[*safe.PanicError](err); {
	case !ok:
	case bug.Value == http.ErrAbortHandler: //nolint:errorlint // panics with this very value
		panic(bug.Value)
	default:
		c.o.Log.Error("answering a hub panicked", "err", fmt.Sprint(bug.Value), "stack", string(bug.Stack))
		w.Header().Set("Connection", "close")
		write(w, http.StatusInternalServerError)
	}
}

func (c *Callback) answer(w http.ResponseWriter, r *http.Request, began time.Time) {
	if len(r.TransferEncoding) > 0 {
		// With a Content-Length too, a proxy before us may see other requests in these bytes.
		w.Header().Set("Connection", "close")
	}
	token, ok := c.token(r.URL.EscapedPath())
	switch {
	case !c.ready.Load():
		busy(w, r, whileStarting)
	case !ok:
		refuse(w, r, http.StatusNotFound)
	case r.Method == http.MethodGet:
		c.verify(w, r, token)
	case r.Method == http.MethodPost:
		c.notify(w, r, token, began)
	default:
		w.Header().Set("Allow", "GET, POST")
		refuse(w, r, http.StatusMethodNotAllowed)
	}
}

// token is the last segment of BasePath/TOKEN, unchanged: a callback is compared byte for byte.
func (c *Callback) token(path string) (string, bool) {
	token, ok := strings.CutPrefix(path, c.o.BasePath)
	return token, ok && token != "" && !strings.Contains(token, "/")
}

const cannotMeasure = "the inbox is taken to be as full as when it could be measured last"

// Run commits what the handler accepts until ctx ends, then the rest. End it after Serve has
// returned, so that every notification gets its answer.
func (c *Callback) Run(ctx context.Context) error {
	if err := c.inbox.quota.measure(ctx, c.o.Store, true); err != nil {
		c.tallies.failure(cannotMeasure, store.Subscription{}, err)
	}
	defer context.AfterFunc(ctx, func() { c.SetReady(false) })() // what comes later is asked to come again
	var beside sync.WaitGroup
	beside.Go(func() { c.tick(ctx) })
	c.inbox.run(ctx, c.tallies.failure)
	beside.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	c.flush(last)
	return nil
}

func (c *Callback) tick(ctx context.Context) {
	clock := time.NewTicker(tallyEvery)
	defer clock.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-clock.C:
			c.flush(ctx)
			if err := c.inbox.quota.measure(ctx, c.o.Store, false); err != nil && ctx.Err() == nil {
				c.tallies.failure(cannotMeasure, store.Subscription{}, err)
			}
		}
	}
}

func (c *Callback) flush(ctx context.Context) {
	if err := safe.Do(func() error { c.tallies.flush(ctx); return nil }); err != nil {
		c.tallies.failure("counts of rejected notifications are lost", store.Subscription{}, err)
	}
}

// Observer receives events for metrics. Its functions may be nil and must not block.
type Observer struct {
	// Delivered: a notification, or a duplicate of one, is durable.
	Delivered func(sourceID int64, duplicate bool)
	// Rejected: a notification was refused, or kept as malformed. sourceID is 0 for unknown tokens.
	Rejected func(sourceID int64, reason string)
	// Acknowledged: a 2xx was sent d after the headers had come.
	Acknowledged func(sourceID int64, d time.Duration)
	// Failed: the state could not be read or written (F7); hubs come again.
	Failed func(err error)
}

// Reasons of Observer.Rejected.
const (
	ReasonSignature = "signature"
	ReasonTooLarge  = "too_large"
	ReasonMalformed = "malformed" // kept as a hint all the same (S-61)
	ReasonBusy      = "busy"      // answered 503
	ReasonBroken    = "broken"    // its body did not arrive, or too late
	ReasonGone      = "gone"      // for a subscription that has ended
	ReasonUnknown   = "unknown"   // for an unknown token
)

func (o Observer) withDefaults() Observer {
	if o.Delivered == nil {
		o.Delivered = func(int64, bool) {}
	}
	if o.Rejected == nil {
		o.Rejected = func(int64, string) {}
	}
	if o.Acknowledged == nil {
		o.Acknowledged = func(int64, time.Duration) {}
	}
	if o.Failed == nil {
		o.Failed = func(error) {}
	}
	return o
}

const (
	lookupTime = 3 * time.Second  // limit of a query
	remember   = 10 * time.Second // when changes by other processes are seen
	maxKnown   = 10_000           // subscriptions remembered
	maxToken   = 256              // bytes; ours are shorter
)

// lookup finds subscriptions by their tokens and remembers them for a moment, so that a busy
// channel costs few queries. Unknown tokens would cost memory. Keys are digests: comparing them
// reveals nothing.
type lookup struct {
	store store.Subscriptions

	mu      sync.Mutex
	known   map[[sha256.Size]byte]remembered
	changes uint64 // counts calls of forget
}

type remembered struct {
	sub   store.Subscription
	until time.Time
}

// find returns a subscription, perhaps as it was a moment ago.
func (l *lookup) find(ctx context.Context, token string) (store.Subscription, error) {
	key := sha256.Sum256([]byte(token))
	l.mu.Lock()
	r, ok := l.known[key]
	changes := l.changes
	l.mu.Unlock()
	if now := time.Now(); ok && now.Before(r.until) {
		return r.sub, nil
	}
	sub, err := l.query(ctx, token)
	if err != nil {
		return sub, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if changes != l.changes {
		return sub, nil // it may be the state before forget
	}
	if len(l.known) >= maxKnown {
		clear(l.known)
	}
	l.known[key] = remembered{sub: sub, until: time.Now().Add(remember)}
	return sub, nil
}

func (l *lookup) query(ctx context.Context, token string) (store.Subscription, error) {
	if !wellFormed(token) {
		return store.Subscription{}, store.ErrNotFound
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	sub, err := l.store.SubscriptionByToken(ctx, token)
	if err != nil {
		return sub, fmt.Errorf("look up the subscription of a callback: %w", err)
	}
	if subtle.ConstantTimeCompare([]byte(sub.Token), []byte(token)) != 1 {
		return store.Subscription{}, store.ErrNotFound // the store may ignore letter case
	}
	return sub, nil
}

func (l *lookup) forget(token string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changes++
	delete(l.known, sha256.Sum256([]byte(token)))
}

const tokenCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~"

// wellFormed: a text may be a token (S-21, S-22).
func wellFormed(token string) bool {
	return token != "" && len(token) <= maxToken && strings.Trim(token, tokenCharacters) == ""
}
