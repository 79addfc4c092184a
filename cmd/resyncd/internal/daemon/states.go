package daemon

import (
	"context"
	"sync"

	"resyncd/store"
)

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
