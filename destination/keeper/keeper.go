package keeper

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
	// Send says something to a hub, as fetch.Client.Send does.
	Send func(ctx context.Context, m fetch.Message) (*fetch.Answer, error)
	// Callback is the URL at which hubs reach us under a token. The callback server must listen before Run (S-23).
	Callback func(token string) string
	// Now is the wall clock; default time.Now.
	Now func() time.Time
	// Dice returns random numbers in [0, 1), to several goroutines; default math/rand/v2.
	Dice func() float64
	// Log; nil for silence. No token and no secret reaches it (P10).
	Log *slog.Logger
	// Rediscover reads again what a set offers and hands it to SetChannels, before renewals (S-13); nil for never. It
	// must end with its context. What it returns is logged, no more: a renewal does not depend on it.
	Rediscover func(ctx context.Context, sourceID, setID int64) error
	// Changed is told of each change of a subscription after it became durable; may be nil. It must be quick and not call
	// the Keeper. It is never told of an older state after a newer one.
	Changed func(store.Subscription)
}

// Plan is what the configuration says of a Source's push.
type Plan struct {
	Name   string        // for logs
	Push   bool          // false: what is subscribed is unsubscribed
	Lease  time.Duration // asked for; default 10 days (S-57)
	Secret bool          // a secret is sent (S-24); without one pushes are hints (S-87)
	Policy *fetch.Policy
	// HubOverride and TopicOverride take the place of what discovery finds (S-12). The topic is that of the change
	// notifications, or of the feed. With both, the Source need not offer a channel at all.
	HubOverride, TopicOverride string
}

// Channel is what a Source offers.
type Channel struct {
	Kind  store.ChannelKind
	Topic string
	Hubs  []string // in the Source's order
}

// Keeper keeps the subscriptions of many Sources. All methods may be called from several goroutines, and but for
// timetables all work without Run: then they record what the next Run carries out.
type Keeper struct {
	o     Options
	birth time.Time // what the monotonic clock is read against

	// shaping is held while the subscriptions of families are added, replaced and ended, so that two who do so see each
	// other's work. It is held over writes to the store, never while a peer is waited for.
	shaping sync.Mutex

	turn atomic.Uint64 // orders the changes of records; taken inside the transaction

	telling sync.Mutex // held while Changed is told

	mu      sync.Mutex // guards what follows; held for moments only
	plans   map[int64]Plan
	dropped map[int64]Plan // of Sources that are gone, for what is still to be unsubscribed
	offers  map[setKey][]Channel
	replan  map[int64]bool // Sources whose plan changed since their families were looked at
	warned  map[string]bool
	// suspected is what was done about silent hubs; the next process may do it once more.
	suspected map[family]suspicion
	table     timetable
	lanes     lanes
	scouting  scouting
	running   bool
	rescan    bool // the store may hold what we did not write

	wake chan struct{} // 1
}

// setKey names a set.
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
	if o.Dice == nil {
		o.Dice = rand.Float64
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Changed == nil {
		o.Changed = func(store.Subscription) {}
	}
	return &Keeper{
		o: o, birth: time.Now(),
		plans: map[int64]Plan{}, dropped: map[int64]Plan{}, offers: map[setKey][]Channel{}, replan: map[int64]bool{}, warned: map[string]bool{},
		suspected: map[family]suspicion{},
		table:     newTimetable(), lanes: newLanes(), scouting: newScouting(),
		wake: make(chan struct{}, 1),
	}
}

// SetSource says, or changes, how a Source is to be followed. Subscriptions of a Source without a plan rest, but for
// those that are being unsubscribed.
func (k *Keeper) SetSource(sourceID int64, p Plan) {
	if p.Lease <= 0 {
		p.Lease = leaseDefault
	}
	p.Lease = min(max(p.Lease, time.Second), leaseMost)
	k.mu.Lock()
	if _, known := k.plans[sourceID]; !known {
		k.table.offset = 0 // what was overdue and rested is spread (S-56)
	}
	k.plans[sourceID] = p
	delete(k.dropped, sourceID)
	k.replan[sourceID] = true
	k.touchSource(sourceID)
	k.mu.Unlock()
	k.signal()
}

// Wake makes Run look at the store again, because somebody else changed it.
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

// uptime is the monotonic clock (F15).
func (k *Keeper) uptime() time.Duration { return time.Since(k.birth) }

func (k *Keeper) planOf(sourceID int64) (Plan, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p, ok := k.plans[sourceID]
	return p, ok
}

// logger returns the Log with what identifies a subscription to people; never its callback.
func (k *Keeper) logger(s *store.Subscription) *slog.Logger {
	p, _ := k.planOf(s.SourceID)
	return k.o.Log.With("source", p.Name, "subscription", s.ID, "kind", string(s.Kind),
		"topic", fetch.RedactURL(s.Topic), "hub", fetch.RedactURL(s.Hub))
}

// What functions of change return to leave a record as it is.
var (
	errKeep      = errors.New("nothing to change")
	errMeanwhile = errors.New("changed meanwhile") // what was decided about an older state of it does not count
)

// change applies fn to a record durably and makes the change known. If fn returns errKeep the record stays, is returned
// as it is, and there is no error.
func (k *Keeper) change(ctx context.Context, id int64, fn func(*store.Subscription) error) (store.Subscription, error) {
	var before store.Subscription
	var turn uint64
	s, err := k.o.Store.ChangeSubscription(ctx, id, func(s *store.Subscription) error {
		before, turn = *s, k.turn.Add(1)
		return fn(s)
	})
	switch {
	case errors.Is(err, errKeep):
		k.observe(before, turn)
		return before, nil
	case errors.Is(err, errMeanwhile):
		k.observe(before, turn) // whoever decided that knew an older record
		return before, err
	case errors.Is(err, store.ErrNotFound):
		k.forget(id)
		return store.Subscription{}, fmt.Errorf("change subscription %d: %w", id, err)
	case err != nil:
		return store.Subscription{}, fmt.Errorf("change subscription %d: %w", id, err)
	}
	k.observe(s, turn)
	if s != before {
		k.tell(before.State, s, turn)
	}
	return s, nil
}

// add records a new subscription and makes it known. It begins with what works at its hub, where that is known (T-05).
func (k *Keeper) add(ctx context.Context, s store.Subscription) (store.Subscription, error) {
	k.mu.Lock()
	if rung, known := k.table.profiles[s.Hub]; known {
		s.Profile = rung
	}
	k.mu.Unlock()
	if err := k.o.Store.AddSubscription(ctx, &s); err != nil {
		return store.Subscription{}, fmt.Errorf("record a subscription to %s: %w", fetch.RedactURL(s.Topic), err)
	}
	turn := k.turn.Add(1)
	k.observe(s, turn)
	k.tell("", s, turn)
	return s, nil
}

// newest is a record as that turn left it, or a later one that is known.
func (k *Keeper) newest(s store.Subscription, turn uint64) store.Subscription {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r := k.table.rows[s.ID]; r != nil && r.turn > turn {
		return r.sub
	}
	return s
}

// tell passes on a change that is durable.
func (k *Keeper) tell(from store.SubscriptionState, s store.Subscription, turn uint64) {
	k.telling.Lock()
	k.o.Changed(k.newest(s, turn))
	k.telling.Unlock()
	if from == s.State {
		return
	}
	level := slog.LevelDebug
	switch {
	case s.State == store.SubLapsed, s.State == store.SubDenied, s.State == store.SubFailed && s.Attempts <= 1:
		level = slog.LevelWarn // the failures that follow on the first one are in the record
	case s.State == store.SubActive && from != store.SubRenewing, s.State == store.SubGone, s.State == store.SubOff:
		level = slog.LevelInfo
	}
	if ctx := context.Background(); k.o.Log.Enabled(ctx, level) {
		k.logger(&s).Log(ctx, level, "subscription changed", "from", string(from), "state", string(s.State), "reason", s.Reason)
	}
}
