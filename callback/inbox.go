package callback

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"resyncd/destination/safe"
	"resyncd/store"
)

const (
	batchCount = 512              // deliveries of one commit
	batchBytes = 16 << 20         // bytes of one commit
	commitTime = 10 * time.Second // limit of one commit
	stopTime   = 5 * time.Second  // limit of the last commits
)

// inbox writes to store.Inbox: one committer commits all waiting deliveries in one transaction and
// then answers them (performance.md 5).
type inbox struct {
	o     Options
	queue chan *pendingDelivery
	quota quota
}

type pendingDelivery struct {
	d        *store.Delivery
	reserved reservation
	done     chan error // receives one error
}

func newInbox(o Options) *inbox {
	return &inbox{
		o: o, queue: make(chan *pendingDelivery, o.limits.waiting),
		quota: quota{limits: o.limits, now: map[int64]store.InboxSize{}},
	}
}

// refuses says why a notification of that Source has no chance now.
func (i *inbox) refuses(sourceID int64) error {
	switch {
	case i.quota.full(sourceID):
		return errFull
	case len(i.queue) == cap(i.queue):
		return errBusy
	}
	return nil
}

// deliver returns nil once d is durable, and takes over what was reserved for it. It counts though
// the caller's hub may be gone; only cut ends the wait early.
func (i *inbox) deliver(d *store.Delivery, reserved *reservation, cut <-chan struct{}) error {
	w := &pendingDelivery{d: d, reserved: *reserved, done: make(chan error, 1)}
	select {
	case i.queue <- w:
		*reserved = reservation{}
	default:
		return errBusy
	}
	timer := time.NewTimer(commitPatience)
	defer timer.Stop()
	select {
	case err := <-w.done:
		return err
	case <-timer.C:
	case <-cut:
	}
	return errBusy
}

// run commits until ctx ends, then commits the rest as far as the time allows.
func (i *inbox) run(ctx context.Context, failed reportFailure) {
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
			defer cancel()
			for len(i.queue) > 0 {
				i.commit(last, i.collect(<-i.queue), failed)
			}
			return
		case first := <-i.queue:
			i.commit(context.WithoutCancel(ctx), i.collect(first), failed)
		}
	}
}

// collect adds what waits already. It never waits: a lone notification is committed at once.
func (i *inbox) collect(first *pendingDelivery) []*pendingDelivery {
	batch := []*pendingDelivery{first}
	bytes := len(first.d.Body)
	for len(batch) < batchCount && bytes < batchBytes {
		select {
		case w := <-i.queue:
			batch = append(batch, w)
			bytes += len(w.d.Body)
		default:
			return batch
		}
	}
	return batch
}

func (i *inbox) commit(ctx context.Context, batch []*pendingDelivery, failed reportFailure) {
	ctx, cancel := context.WithTimeout(ctx, commitTime)
	defer cancel()
	ds := make([]*store.Delivery, len(batch))
	for n, w := range batch {
		ds[n] = w.d
	}
	// The engine starts while the batch becomes durable. If that fails, hubs deliver again.
	notify := func(do func([]*store.Delivery)) {
		if err := safe.Do(func() error { do(ds); return nil }); err != nil {
			failed("notifications were kept, and not everyone was told", store.Subscription{}, err)
		}
	}
	err := safe.Do(func() error {
		return i.o.Store.Deliver(ctx, ds, func() { notify(i.wake) })
	})
	if err != nil {
		failed("cannot keep notifications: hubs are told to come again", store.Subscription{}, err)
	} else {
		notify(i.count)
	}
	for _, w := range batch {
		w.reserved.release()
		w.done <- err
	}
}

type reportFailure func(what string, sub store.Subscription, err error)

func (i *inbox) wake(ds []*store.Delivery) {
	woken := make(map[int64]bool, 4)
	for _, d := range ds {
		if d.Duplicate || woken[d.SourceID] || i.o.Wake == nil {
			continue
		}
		woken[d.SourceID] = true
		i.o.Wake(d.SourceID)
	}
}

func (i *inbox) count(ds []*store.Delivery) {
	grown := make(map[int64]store.InboxSize, 4)
	for _, d := range ds {
		i.o.Observe.Delivered(d.SourceID, d.Duplicate)
		if !d.Duplicate {
			grown[d.SourceID] = plus(grown[d.SourceID], 1, int64(len(d.Body)))
		}
	}
	i.quota.added(grown)
}

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
	limits

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
	return all.Bytes >= f.inboxBytes || all.Deliveries >= f.inboxDeliveries ||
		own.Bytes >= (f.inboxBytes+shares-1)/shares || own.Deliveries >= (f.inboxDeliveries+shares-1)/shares
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
