package callback

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"resyncd/store"
)

// shares is how many Sources can fill the inbox together, so that one that piles up does not turn
// hubs of others away.
const shares = 4

// quota tracks how full the store's inbox is.
type quota struct {
	maxBytes, maxDeliveries int64

	mu    sync.Mutex
	now   map[int64]store.InboxSize // by Source
	grown map[int64]store.InboxSize // since it was measured
}

func (f *quota) full(sourceID int64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all store.InboxSize
	for _, part := range []map[int64]store.InboxSize{f.now, f.grown} {
		for _, s := range part {
			all = plus(all, s.Deliveries, s.Bytes)
		}
	}
	own, grown := f.now[sourceID], f.grown[sourceID]
	own = plus(own, grown.Deliveries, grown.Bytes)
	return all.Bytes >= f.maxBytes || all.Deliveries >= f.maxDeliveries ||
		own.Bytes >= (f.maxBytes+shares-1)/shares || own.Deliveries >= (f.maxDeliveries+shares-1)/shares
}

func (f *quota) added(grown map[int64]store.InboxSize) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.grown == nil {
		f.grown = map[int64]store.InboxSize{}
	}
	for source, by := range grown {
		f.grown[source] = plus(f.grown[source], by.Deliveries, by.Bytes)
	}
}

// measure asks the store, if the answer may have changed.
func (f *quota) measure(ctx context.Context, s store.Inbox, always bool) error {
	f.mu.Lock()
	before := maps.Clone(f.grown)
	ask := always || len(f.grown)+len(f.now) > 0
	f.mu.Unlock()
	if !ask {
		return nil
	}
	now, err := s.InboxShares(ctx)
	if err != nil {
		return fmt.Errorf("ask how full the inbox is: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = now
	// What was added during the measurement may be in it, so it counts twice until the next.
	for source, by := range before {
		if f.grown[source] == by {
			delete(f.grown, source)
			continue
		}
		f.grown[source] = plus(f.grown[source], -by.Deliveries, -by.Bytes)
	}
	return nil
}

func plus(s store.InboxSize, deliveries, bytes int64) store.InboxSize {
	return store.InboxSize{Deliveries: s.Deliveries + deliveries, Bytes: s.Bytes + bytes}
}
