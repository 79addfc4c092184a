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
	grown map[int64]store.InboxSize // since the last measurement began
}

func (f *quota) full(sourceID int64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all store.InboxSize
	for _, s := range f.now {
		all = plus(all, s.Deliveries, s.Bytes)
	}
	own := f.now[sourceID]
	return all.Bytes >= f.maxBytes || all.Deliveries >= f.maxDeliveries ||
		own.Bytes >= (f.maxBytes+shares-1)/shares || own.Deliveries >= (f.maxDeliveries+shares-1)/shares
}

func (f *quota) added(grown map[int64]store.InboxSize) {
	f.mu.Lock()
	defer f.mu.Unlock()
	addSizes(f.grown, grown)
	addSizes(f.now, grown)
}

func addSizes(sizes, by map[int64]store.InboxSize) {
	for source, n := range by {
		sizes[source] = plus(sizes[source], n.Deliveries, n.Bytes)
	}
}

// measure asks the store, if the answer may have changed.
func (f *quota) measure(ctx context.Context, s store.Inbox, always bool) error {
	f.mu.Lock()
	ask := always || len(f.now) > 0
	clear(f.grown)
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
	f.now = maps.Collect(maps.All(now)) // never nil
	// What was added during the measurement may be in it, so it counts twice until the next.
	addSizes(f.now, f.grown)
	return nil
}

func plus(s store.InboxSize, deliveries, bytes int64) store.InboxSize {
	return store.InboxSize{Deliveries: s.Deliveries + deliveries, Bytes: s.Bytes + bytes}
}

// memoryLimit bounds the memory of notifications on their way into the inbox (P8), in all and for
// each subscription.
type memoryLimit struct {
	most, share int64

	mu   sync.Mutex
	used int64
	by   map[int64]int64 // subscription -> bytes
}

func newMemoryLimit(most int64) *memoryLimit {
	return &memoryLimit{most: most, share: most / 4, by: make(map[int64]int64)}
}

// reservation is the memory of one notification.
type reservation struct {
	of  *memoryLimit
	sub int64
	n   int64
}

const noteOverhead = 8 << 10

func (m *memoryLimit) reserve(sub int64) *reservation { return &reservation{of: m, sub: sub} }

func (l *reservation) extend(n int64) bool {
	if l.n == 0 {
		n += noteOverhead / 2
	}
	m := l.of
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.used+n > m.most || m.by[l.sub]+n > m.share {
		return false
	}
	m.used += n
	m.by[l.sub] += n
	l.n += n
	return true
}

// transfer moves the reservation to a new owner, who releases it.
func (l *reservation) transfer() *reservation {
	other := *l
	l.n = 0
	return &other
}

// release may be called again.
func (l *reservation) release() {
	if l.n == 0 {
		return
	}
	m := l.of
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used -= l.n
	if m.by[l.sub] -= l.n; m.by[l.sub] <= 0 {
		delete(m.by, l.sub)
	}
	l.n = 0
}
