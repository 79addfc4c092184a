package subscribe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"resyncd/destination/fetch"
	"resyncd/store"
)

// Options of a Keeper. Store, Send and Callback are needed.
type Options struct {
	Store store.Subscriptions
	// Send is fetch.Client.Send.
	Send func(ctx context.Context, m fetch.Message) (*fetch.Answer, error)
	// Callback is the URL at which hubs reach the callback under a token. The callback server must listen before Run
	// (S-23).
	Callback func(token string) string
	// Now is the wall clock; default time.Now.
	Now func() time.Time
	// Log receives no token and no secret (P10); nil for silence.
	Log *slog.Logger
	// Rediscover reads again what a set offers and hands it to SetChannels, before renewals (S-13). It must end with
	// its context; a renewal does not depend on it.
	Rediscover func(ctx context.Context, sourceID, setID int64) error
	// Changed receives each durable change of a subscription, never an older state after a newer one; may be nil. It
	// must be quick and not call the Keeper.
	Changed func(store.Subscription)

	random func() float64 // in [0, 1), from several goroutines; for tests
}

// Plan is the push configuration of a Source.
type Plan struct {
	Name   string        // for logs
	Push   bool          // false: existing subscriptions are unsubscribed
	Lease  time.Duration // default 10 days (S-57)
	Secret bool          // S-24; without one, pushes are only hints (S-87)
	Policy *fetch.Policy
	// HubOverride and TopicOverride replace what discovery finds (S-12). With both, the Source need not offer a channel
	// at all.
	HubOverride, TopicOverride string
}

// Channel is what a Source offers.
type Channel struct {
	Kind  store.ChannelKind
	Topic string
	Hubs  []string
}

// Keeper keeps the subscriptions of many Sources. Without Run its methods record what the next Run carries out.
type Keeper struct {
	o       Options
	started time.Time // of the monotonic clock

	// chainMu is held while members of chains are added, replaced and ended: two goroutines doing so would miss each
	// other's work. It is held over writes to the store, never while a peer is waited for.
	chainMu sync.Mutex

	// changeSeq orders the changes of records. It is taken inside the transaction.
	changeSeq atomic.Uint64

	changedMu sync.Mutex // held while Changed is called

	mu      sync.Mutex // never held over a write or a request
	plans   map[int64]Plan
	dropped map[int64]Plan // of removed Sources, still to be unsubscribed
	offers  map[setKey][]Channel
	replan  map[int64]bool // their plan changed
	warned  map[string]bool
	// suspected is what was done about silent hubs, which the next process may do once more.
	suspected   map[channelKey]suspicion
	table       timetable
	hosts       hosts
	rediscovery rediscoveries
	running     bool
	rescan      bool // another process may have written to the store

	wake chan struct{} // capacity 1
}

type setKey struct{ source, set int64 }

const (
	leaseDefault = 10 * 24 * time.Hour // S-57
	leaseMost    = 30 * 24 * time.Hour // S-54
)

// New returns a Keeper. Nothing happens before Run.
func New(o Options) *Keeper {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.random == nil {
		o.random = rand.Float64
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Changed == nil {
		o.Changed = func(store.Subscription) {}
	}
	return &Keeper{
		o: o, started: time.Now(),
		plans: map[int64]Plan{}, dropped: map[int64]Plan{}, offers: map[setKey][]Channel{}, replan: map[int64]bool{},
		warned:    map[string]bool{},
		suspected: map[channelKey]suspicion{},
		table:     newTimetable(), hosts: newHosts(), rediscovery: newRediscoveries(),
		wake: make(chan struct{}, 1),
	}
}

// SetSource sets how a Source is to be followed. Subscriptions of a Source without a plan rest.
func (k *Keeper) SetSource(sourceID int64, p Plan) {
	if p.Lease <= 0 {
		p.Lease = leaseDefault
	}
	p.Lease = min(max(p.Lease, time.Second), leaseMost)
	k.mu.Lock()
	if _, known := k.plans[sourceID]; !known {
		k.table.offset = 0 // spreads what became overdue (S-56)
	}
	k.plans[sourceID] = p
	delete(k.dropped, sourceID)
	k.replan[sourceID] = true
	k.touchSource(sourceID)
	k.mu.Unlock()
	k.signal()
}

// Wake makes Run read the store again, because another process changed it.
func (k *Keeper) Wake() {
	k.mu.Lock()
	k.rescan = true
	k.mu.Unlock()
	k.signal()
}

func (k *Keeper) signal() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

func (k *Keeper) now() store.Micros { return store.MicrosOf(k.o.Now()) }

// F15
func (k *Keeper) uptime() time.Duration { return time.Since(k.started) }

func (k *Keeper) planOf(sourceID int64) (Plan, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p, ok := k.plans[sourceID]
	return p, ok
}

// logger never shows the callback.
func (k *Keeper) logger(s *store.Subscription) *slog.Logger {
	p, _ := k.planOf(s.SourceID)
	return k.o.Log.With("source", p.Name, "subscription", s.ID, "kind", string(s.Kind),
		"topic", fetch.RedactURL(s.Topic), "hub", fetch.RedactURL(s.Hub))
}

// Functions given to change return one of these to leave a record as it is.
var (
	errKeep      = errors.New("nothing to change")
	errMeanwhile = errors.New("changed meanwhile") // the decision was made on an older state
)

// change applies fn to a record durably and announces the result.
func (k *Keeper) change(ctx context.Context, id int64, fn func(*store.Subscription) error) (store.Subscription, error) {
	var before store.Subscription
	var seq uint64
	s, err := k.o.Store.ChangeSubscription(ctx, id, func(s *store.Subscription) error {
		before, seq = *s, k.changeSeq.Add(1)
		s.Cause = "" // of another reason than before, unless fn sets it
		err := fn(s)
		if s.Cause == "" && s.Reason == before.Reason {
			s.Cause = before.Cause
		}
		return err
	})
	switch {
	case errors.Is(err, errKeep):
		k.observe(before, seq)
		return before, nil
	case errors.Is(err, errMeanwhile):
		k.observe(before, seq) // the caller knew an older record
		return before, err
	case errors.Is(err, store.ErrNotFound):
		k.forget(id)
		return store.Subscription{}, fmt.Errorf("change subscription %d: %w", id, err)
	case err != nil:
		return store.Subscription{}, fmt.Errorf("change subscription %d: %w", id, err)
	}
	k.observe(s, seq)
	if s != before {
		k.notify(before.State, s, seq)
	}
	return s, nil
}

// add records and announces a new subscription, with the rung that works at its hub (T-05).
func (k *Keeper) add(ctx context.Context, s store.Subscription) (store.Subscription, error) {
	k.mu.Lock()
	if rung, known := k.table.profiles[s.Hub]; known {
		s.Profile = rung
	}
	k.mu.Unlock()
	if err := k.o.Store.AddSubscription(ctx, &s); err != nil {
		return store.Subscription{}, fmt.Errorf("record a subscription to %s: %w", fetch.RedactURL(s.Topic), err)
	}
	seq := k.changeSeq.Add(1)
	k.observe(s, seq)
	k.notify("", s, seq)
	return s, nil
}

func (k *Keeper) newest(s store.Subscription, seq uint64) store.Subscription {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r := k.table.entries[s.ID]; r != nil && r.seq > seq {
		return r.sub
	}
	return s
}

func (k *Keeper) notify(from store.SubscriptionState, s store.Subscription, seq uint64) {
	k.changedMu.Lock()
	k.o.Changed(k.newest(s, seq))
	k.changedMu.Unlock()
	if from == s.State {
		return
	}
	level := slog.LevelDebug
	switch {
	case s.State == store.SubLapsed, s.State == store.SubDenied, s.State == store.SubFailed && s.Attempts <= 1:
		level = slog.LevelWarn // later failures in a row are only in the record
	case s.State == store.SubActive && from != store.SubRenewing, s.State == store.SubGone, s.State == store.SubOff:
		level = slog.LevelInfo
	}
	if ctx := context.Background(); k.o.Log.Enabled(ctx, level) {
		k.logger(&s).Log(ctx, level, "subscription changed", "from", string(from), "state", string(s.State),
			"reason", s.Reason)
	}
}
