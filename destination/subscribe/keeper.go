package subscribe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"resyncd/destination"
	"resyncd/destination/fetch"
	"resyncd/destination/websub"
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
	// Changed receives each durable change of a subscription, never an older state after a newer one, from several
	// goroutines; may be nil. It must be quick and not call the Keeper.
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

// Keeper keeps the subscriptions of many Sources. Without Run its methods record what the next Run carries out.
type Keeper struct {
	o       Options
	started time.Time // of the monotonic clock

	// chainMu is held while members of chains are added, replaced and ended: two goroutines doing so would miss each
	// other's work. It is held over writes to the store, never while a peer is waited for.
	chainMu sync.Mutex

	// records are locked, each by its ID, from the write of a change until everybody knows of it: otherwise an older
	// state could be announced after a newer one. Many, so that hubs hardly wait for one another's writes.
	records [256]sync.Mutex

	mu      sync.Mutex // never held over a write or a request
	sources map[int64]*source
	replan  map[int64]bool // Sources whose subscriptions are to be brought in line with their plan
	warned  map[string]bool
	// suspected is what was done about silent hubs, which the next process may do once more.
	suspected map[channelKey]suspicion
	table     timetable
	hosts     hosts
	running   bool

	wake        chan struct{} // something may be due; capacity 1
	reload      chan struct{} // another process may have written to the store; capacity 1
	discovering chan struct{} // a running discovery holds a place
}

// source is what is known of a Source beside its records. Guarded by Keeper.mu.
type source struct {
	plan    Plan
	planned bool                            // else only unsubscriptions are carried out
	offers  map[int64][]destination.Channel // of the sets that were discovered
	asked   map[int64]*discovery
}

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
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Changed == nil {
		o.Changed = func(store.Subscription) {}
	}
	return &Keeper{
		o: o, started: time.Now(), sources: map[int64]*source{}, replan: map[int64]bool{}, warned: map[string]bool{},
		suspected: map[channelKey]suspicion{}, table: newTimetable(), hosts: hosts{},
		wake: make(chan struct{}, 1), reload: make(chan struct{}, 1),
		discovering: make(chan struct{}, discoveriesAtOnce),
	}
}

// source is called with Keeper.mu held.
func (k *Keeper) source(id int64) *source {
	s := k.sources[id]
	if s == nil {
		s = &source{}
		s.forget()
		k.sources[id] = s
	}
	return s
}

func (s *source) forget() {
	s.offers, s.asked = map[int64][]destination.Channel{}, map[int64]*discovery{}
}

// SetSource sets how a Source is to be followed. Subscriptions of a Source without a plan rest.
func (k *Keeper) SetSource(sourceID int64, p Plan) {
	if p.Lease <= 0 {
		p.Lease = leaseDefault
	}
	p.Lease = min(max(p.Lease, time.Second), leaseMost)
	k.mu.Lock()
	s := k.source(sourceID)
	s.plan, k.replan[sourceID] = p, true
	if !s.planned {
		s.planned, k.table.offset = true, 0 // spreads what became overdue (S-56)
		k.planSource(s)
	}
	k.mu.Unlock()
	k.signal()
}

// Wake makes Run read the store again, because another process changed it.
func (k *Keeper) Wake() { knock(k.reload) }

func (k *Keeper) signal() { knock(k.wake) }

func knock(door chan<- struct{}) {
	select {
	case door <- struct{}{}:
	default:
	}
}

func (k *Keeper) now() store.Micros { return store.MicrosOf(k.o.Now()) }

// F15
func (k *Keeper) uptime() time.Duration { return time.Since(k.started) }

// planOf returns the plan of a Source; of one that was dropped it is the last.
func (k *Keeper) planOf(sourceID int64) (p Plan, planned bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.source(sourceID)
	return s.plan, s.planned
}

// logger never shows the callback.
func (k *Keeper) logger(s *store.Subscription) *slog.Logger {
	return k.o.Log.With("source", k.sourceName(s.SourceID), "subscription", s.ID, "kind", string(s.Kind),
		"topic", fetch.RedactURL(s.Topic), "hub", fetch.RedactURL(s.Hub))
}

// Functions given to change return one of these to leave a record as it is.
var (
	errKeep      = errors.New("nothing to change")
	errMeanwhile = errors.New("changed meanwhile") // the decision was made on an older state
)

func (k *Keeper) lock(id int64) (unlock func()) {
	m := &k.records[id%int64(len(k.records))]
	m.Lock()
	return m.Unlock
}

// change applies fn to a record durably and announces the result.
func (k *Keeper) change(ctx context.Context, id int64, fn func(*store.Subscription) error) (store.Subscription, error) {
	defer k.lock(id)()
	var before store.Subscription
	s, err := k.o.Store.ChangeSubscription(ctx, id, func(s *store.Subscription) error {
		before = *s
		s.Cause = "" // of another reason than before, unless fn sets it
		err := fn(s)
		if s.Cause == "" && s.Reason == before.Reason {
			s.Cause = before.Cause
		}
		return err
	})
	switch {
	case errors.Is(err, errKeep):
		k.observe(before)
		return before, nil
	case errors.Is(err, errMeanwhile):
		k.observe(before) // the caller knew an older record
		return before, err
	case errors.Is(err, store.ErrNotFound):
		k.forget(id)
		return store.Subscription{}, fmt.Errorf("change subscription %d: %w", id, err)
	case err != nil:
		return store.Subscription{}, fmt.Errorf("change subscription %d: %w", id, err)
	}
	k.observe(s)
	if s != before {
		k.notify(before.State, s)
	}
	return s, nil
}

// reread takes a record as the store has it now, and announces one that was added.
func (k *Keeper) reread(ctx context.Context, id int64, added bool) error {
	defer k.lock(id)()
	s, err := k.o.Store.Subscription(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		k.forget(id)
		return nil
	case err != nil:
		return err
	}
	k.observe(s)
	if added {
		k.notify("", s)
	}
	return nil
}

// add records and announces a new subscription, with the rung that works at its hub (T-05).
func (k *Keeper) add(ctx context.Context, s store.Subscription) error {
	k.mu.Lock()
	if rung, known := k.table.profiles[s.Hub]; known {
		s.Profile = rung
	}
	k.mu.Unlock()
	if err := k.o.Store.AddSubscription(ctx, &s); err != nil {
		return fmt.Errorf("record a subscription to %s: %w", fetch.RedactURL(s.Topic), err)
	}
	ctx, cancel := settling(ctx) // what is recorded must be known
	defer cancel()
	return k.reread(ctx, s.ID, true)
}

func (k *Keeper) notify(from store.SubscriptionState, s store.Subscription) {
	k.o.Changed(s)
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

// checkAgain keeps a hub's unrequested unsubscribes from causing requests (S-93).
const checkAgain = 5 * time.Minute

// Verify reports whether to confirm a hub's verification of sub, and records the confirmation before it returns true
// (S-31, S-32): answer 200 with the challenge then, 404 otherwise. It asks no peer (S-36). An error is the store's:
// answer so that the hub comes again.
func (k *Keeper) Verify(ctx context.Context, sub store.Subscription, v websub.Verification) (confirm bool, err error) {
	m := k.moment()
	_, err = k.change(ctx, sub.ID, func(s *store.Subscription) error {
		confirm = false
		if v.Topic != s.Topic {
			return errKeep
		}
		switch v.Mode {
		case websub.ModeSubscribe:
			// A subscription that was never asked for is not confirmed to anyone (S-31, S-35, S-38).
			if !counts(s) || !s.Requested.Known() {
				return errKeep
			}
			confirm = true
			return applyVerification(s, v, m)
		case websub.ModeUnsubscribe:
			switch s.State {
			case store.SubGone: // again (S-92)
				confirm = true
				return errKeep
			case store.SubUnsubscribing, store.SubOff:
				confirm = true
				unsubscribed(s, m)
				return nil
			}
			return askAgainSoon(s, m)
		}
		return errKeep
	})
	if err != nil {
		return false, fmt.Errorf("verification by a hub: %w", err)
	}
	return confirm, nil
}

// A hub spoke of ending a lease that is wanted (S-93). Anyone can say so, thus not sooner than checkAgain after the
// last request; an earlier plan stays.
func askAgainSoon(s *store.Subscription, m moment) error {
	next := max(m.now, plus(s.Requested, checkAgain))
	if !s.Live() || !s.Renew.Known() || s.Next <= next {
		return errKeep
	}
	s.Next = next
	return nil
}

// Denied records that a hub refuses sub, in any state (S-40). The reason is untrusted. Other hubs are tried; this one
// is asked again after a long wait (S-42).
func (k *Keeper) Denied(ctx context.Context, sub store.Subscription, reason string) error {
	m := k.moment()
	after, err := k.change(ctx, sub.ID, func(s *store.Subscription) error {
		text := "the hub denied the subscription"
		if said := clean(reason, s); said != "" {
			text += ": " + said
		}
		return deny(s, text, m)
	})
	if err == nil && after.State == store.SubDenied {
		_, err = k.advance(ctx, sub.ID)
	}
	if err != nil {
		return fmt.Errorf("denial by a hub: %w", err)
	}
	return nil
}

// How often a hub is asked again or replaced that holds a lease and delivers nothing (F24).
const (
	suspectSoonest = 90 * time.Second // a request needs time to work
	suspectAlone   = time.Hour        // the only hub
	suspectAgain   = 6 * time.Hour    // the same hub
	suspectNew     = time.Hour        // for a newly chosen hub
)

// suspicion is what was done last about a channel whose changes were found by pulls. Times are uptime.
type suspicion struct {
	sub          int64 // asked for anew
	asked, moved time.Duration
}

// Suspect says that pulls found changes that a live subscription should have delivered (F24, CONTRIBUTING.md 3.8). The
// hub is asked again; if that did not help, the next hub is tried.
func (k *Keeper) Suspect(ctx context.Context, subID int64) error {
	s, err := k.o.Store.Subscription(ctx, subID)
	if err == nil {
		err = k.suspect(ctx, &s)
	}
	if err != nil {
		return fmt.Errorf("suspect a hub: %w", err)
	}
	return nil
}

func (k *Keeper) suspect(ctx context.Context, s *store.Subscription) error {
	m := k.moment()
	t, _, known := k.wanted(s)
	others := known && len(t.hubs) > 1
	last, uptime := k.suspicionOf(s), k.uptime()
	asked := uptime - last.asked
	switch {
	case s.State != store.SubActive || !s.Renew.Known():
		return nil
	case min(asked, since(s.Requested, m.now)) < suspectSoonest, uptime-last.moved < suspectNew:
		return nil
	case asked >= suspectAgain, !others && asked >= suspectAlone:
		last.sub, last.asked = s.ID, uptime
		k.note(s, last)
		_, err := k.change(ctx, s.ID, func(s *store.Subscription) error {
			if s.State != store.SubActive || !s.Renew.Known() || s.Next <= m.now {
				return errKeep
			}
			s.Next = m.now
			return nil
		})
		return err
	case !others:
		return nil
	}
	moved, err := k.advance(ctx, s.ID)
	if moved {
		last.moved = uptime
		k.note(s, last)
	}
	return err
}

// Without an entry, the times lie far back.
func (k *Keeper) suspicionOf(s *store.Subscription) suspicion {
	k.mu.Lock()
	defer k.mu.Unlock()
	last, known := k.suspected[channelOf(s)]
	if !known {
		last.moved = -suspectNew
	}
	if !known || last.sub != s.ID {
		last.asked = -suspectAgain
	}
	return last
}

func (k *Keeper) note(s *store.Subscription, last suspicion) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.suspected[channelOf(s)] = last
}
