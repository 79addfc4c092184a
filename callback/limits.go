package callback

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"resyncd/store"
)

const (
	tallyEvery   = time.Second
	reportEvery  = time.Minute
	failureEvery = 10 * time.Second
)

// tallies counts rejections in memory and writes them once a second, so that forgeries cause no
// flood of transactions or log lines.
type tallies struct {
	o Options

	mu         sync.Mutex
	by         map[int64]*tally // by subscription; only for existing ones
	sum        store.Tally      // since the last log line
	suppressed int              // failures since the last one in the log

	reports, failures *hints
}

type tally struct {
	source, set int64
	n           store.Tally
	pull        bool // a pull is still to be requested
}

func newTallies(o Options) *tallies {
	return &tallies{
		o: o, by: make(map[int64]*tally), reports: newHints(reportEvery), failures: newHints(failureEvery),
	}
}

func (t *tallies) add(sub store.Subscription, n store.Tally) {
	t.mu.Lock()
	defer t.mu.Unlock()
	merge(&t.sum, n)
	t.merge(sub.ID, &tally{source: sub.SourceID, set: sub.SetID, n: n, pull: n.RejectedTooLarge > 0})
}

func (t *tallies) merge(id int64, more *tally) {
	if have, ok := t.by[id]; ok {
		merge(&have.n, more.n)
		have.pull = have.pull || more.pull
		return
	}
	t.by[id] = more
}

func merge(to *store.Tally, n store.Tally) {
	to.RejectedSignature += n.RejectedSignature
	to.RejectedTooLarge += n.RejectedTooLarge
	to.RejectedMalformed += n.RejectedMalformed
	to.PushMisses += n.PushMisses
}

// flush writes the counts and asks for pulls.
func (t *tallies) flush(ctx context.Context) {
	t.mu.Lock()
	by := t.by
	t.by = make(map[int64]*tally)
	t.mu.Unlock()
	var failed error
	for _, one := range by { // first, even if the counts cannot be written
		if one.pull && t.o.TooLarge != nil {
			t.o.TooLarge(one.source, one.set)
		}
		one.pull = false
	}
	for id, one := range by {
		if failed == nil {
			failed = t.o.Store.TallySubscription(ctx, id, one.n)
		}
		if failed != nil {
			t.mu.Lock()
			t.merge(id, one)
			t.mu.Unlock()
		}
	}
	if failed != nil {
		t.failure("cannot count rejected notifications: trying again", store.Subscription{}, failed)
	}
	t.report()
}

// report logs at most once a minute.
func (t *tallies) report() {
	t.mu.Lock()
	sum := t.sum
	due := sum != (store.Tally{}) && t.reports.allow(0, t.o.Now())
	if due {
		t.sum = store.Tally{}
	}
	t.mu.Unlock()
	if due {
		t.o.Log.Warn("notifications were rejected; status names the channels",
			"signature", sum.RejectedSignature, "too_large", sum.RejectedTooLarge, "malformed", sum.RejectedMalformed)
	}
}

// failure logs local failures, once within some seconds.
func (t *tallies) failure(what string, sub store.Subscription, err error) {
	t.o.Observe.Failed(err)
	t.mu.Lock()
	hidden := t.suppressed
	due := t.failures.allow(0, t.o.Now())
	if t.suppressed++; due {
		t.suppressed = 0
	}
	t.mu.Unlock()
	if !due {
		return
	}
	attrs := []any{slog.Any("err", err)}
	if sub.ID != 0 {
		attrs = append(attrs, slog.Int64("subscription", sub.ID))
	}
	if hidden > 0 {
		attrs = append(attrs, slog.Int("more_since_last", hidden))
	}
	t.o.Log.Error(what, attrs...)
}

// hints limits how often hints of a subscription pass.
type hints struct {
	pause time.Duration // least time between two

	mu sync.Mutex
	at map[int64]time.Time
}

func newHints(pause time.Duration) *hints { return &hints{pause: pause, at: make(map[int64]time.Time)} }

func (h *hints) allow(id int64, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if last, ok := h.at[id]; ok && now.Sub(last) < h.pause && !now.Before(last) {
		return false
	}
	if len(h.at) >= maxKnown {
		clear(h.at)
	}
	h.at[id] = now
	return true
}

// shares is how many Sources can fill the inbox together, so that one that piles up does not turn
// hubs of others away.
const shares = 4

// quota tracks how full the store's inbox is.
type quota struct {
	maxBytes, maxDeliveries int64

	mu  sync.Mutex
	now map[int64]store.InboxSize // by Source
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
	for source, n := range grown {
		f.now[source] = plus(f.now[source], n.Deliveries, n.Bytes)
	}
}

// measure asks the store, if the answer may have changed. What is added meanwhile is seen at the next measurement.
func (f *quota) measure(ctx context.Context, s store.Inbox, always bool) error {
	f.mu.Lock()
	ask := always || len(f.now) > 0
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
