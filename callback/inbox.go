package callback

import (
	"context"
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
		quota: quota{
			maxBytes: o.limits.inboxBytes, maxDeliveries: o.limits.inboxDeliveries,
			now: map[int64]store.InboxSize{},
		},
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
