package daemon

import (
	"context"
	"sync"
	"time"

	"resyncd/store"
)

// leases knows since when hubs have held leases for the changes of sets, without a break as far as we know.
type leases struct {
	now  func() time.Time
	mu   sync.Mutex
	set  map[int64]map[int64]store.Micros // set, subscription that is wanted: since, NoTime while there is no lease
	bare map[int64]int64                  // sets that lost their last lease: their Sources
}

func newLeases(now func() time.Time) *leases {
	return &leases{now: now, set: map[int64]map[int64]store.Micros{}, bare: map[int64]int64{}}
}

// turn is what a change of a subscription means for its set.
type turn uint8

const (
	noTurn turn = iota
	won         // a hub tells of its changes, and none did before
	lost        // no hub does any more, although one should
	left        // none is to
)

// load takes up what was agreed before the daemon started: held at least since it was last verified.
func (l *leases) load(ctx context.Context, st store.Subscriptions) error {
	subs, err := st.Subscriptions(ctx, 0, false)
	for i := range subs {
		l.keep(&subs[i], subs[i].Verified)
	}
	return err
}

func (l *leases) note(sub *store.Subscription) turn { return l.keep(sub, store.MicrosOf(l.now())) }

func (l *leases) keep(sub *store.Subscription, since store.Micros) turn {
	if sub.Kind == store.ChannelFramework {
		return noTurn
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	held := l.set[sub.SetID]
	if held == nil {
		held = map[int64]store.Micros{}
		l.set[sub.SetID] = held
	}
	before := earliest(held).Known()
	switch {
	case sub.State == store.SubOff, sub.State == store.SubUnsubscribing, sub.State == store.SubGone:
		delete(held, sub.ID)
	case !sub.Live():
		held[sub.ID] = store.NoTime
	default:
		if at, known := held[sub.ID]; !known || !at.Known() {
			held[sub.ID] = since
		}
	}
	switch after := earliest(held).Known(); {
	case len(held) == 0:
		delete(l.set, sub.SetID)
		delete(l.bare, sub.SetID)
		return left
	case before == after:
		return noTurn
	case after:
		delete(l.bare, sub.SetID)
		return won
	}
	l.bare[sub.SetID] = sub.SourceID
	return lost
}

// lacking reports whether a set of the Source lost its last lease, so that pulls have to stand in for pushes.
func (l *leases) lacking(source int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, of := range l.bare {
		if of == source {
			return true
		}
	}
	return false
}

// since is FollowOptions.Subscribed.
func (l *leases) since(set int64) store.Micros {
	l.mu.Lock()
	defer l.mu.Unlock()
	return earliest(l.set[set])
}

// earliest is since when the first of a set's leases has been held, NoTime for none.
func earliest(held map[int64]store.Micros) store.Micros {
	first := store.NoTime
	for _, at := range held {
		if at.Known() && (!first.Known() || at < first) {
			first = at
		}
	}
	return first
}

// states remembers how subscriptions were, so that what they come to is counted once.
type states struct {
	mu   sync.Mutex
	last map[int64]lastState
}

type lastState struct {
	state    store.SubscriptionState
	verified store.Micros
}

// shortLease is from when a lease is worth a remark, in seconds (F23).
const shortLease = 60

// load takes up how they were when the daemon started.
func (s *states) load(ctx context.Context, st store.Subscriptions) error {
	subs, err := st.Subscriptions(ctx, 0, true)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = make(map[int64]lastState, len(subs))
	for i := range subs {
		s.last[subs[i].ID] = lastState{subs[i].State, subs[i].Verified}
	}
	return err
}

// note reports what is new about a subscription: that it came to its state, and that a lease began.
func (s *states) note(sub *store.Subscription) (came, leased bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		s.last = map[int64]lastState{}
	}
	before, known := s.last[sub.ID]
	now := lastState{sub.State, sub.Verified}
	if sub.State == store.SubGone { // nothing follows on that
		delete(s.last, sub.ID)
		return true, false
	}
	s.last[sub.ID] = now
	if !known {
		before.verified = store.NoTime
	}
	return before.state != now.state, now.verified.Known() && now.verified != before.verified
}
