package callback

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"resyncd/store"
)

const (
	batchCount = 512              // deliveries of one commit
	batchBytes = 16 << 20         // and their bytes
	commitTime = 10 * time.Second // what a commit may take
	stopTime   = 5 * time.Second  // what all that waits may take at the end
)

// inbox is the way into store.Inbox: deliveries wait in a bounded queue for the one committer, which takes all that are
// there into one transaction (speed.md 5: six times as many as with one each), and everyone is answered after it.
type inbox struct {
	o     Options
	queue chan *waiting

	mu     sync.RWMutex // held for reading while something is put into the queue
	closed bool

	size fill
}

// waiting is a delivery before its commit.
type waiting struct {
	d    *store.Delivery
	loan *loan
	done chan error // one is sent
}

func newInbox(o Options) *inbox {
	return &inbox{
		o: o, queue: make(chan *waiting, o.MaxWaiting),
		size: fill{maxBytes: o.InboxMaxBytes, maxDeliveries: o.InboxMaxDeliveries},
	}
}

// refuses is how long to wait before a notification for that Source has a chance, 0 if it has one now.
func (i *inbox) refuses(sourceID int64) time.Duration {
	i.mu.RLock()
	closed := i.closed
	i.mu.RUnlock()
	switch {
	case closed:
		return whileStarting
	case i.size.full(sourceID):
		return whileFull
	case len(i.queue) == cap(i.queue):
		return whileBusy
	}
	return 0
}

// keep returns nil once d is durable. The caller's hub may be gone meanwhile; the delivery counts all the same. Only cut
// ends the waiting early.
func (i *inbox) keep(d *store.Delivery, loan *loan, cut <-chan struct{}) error {
	w := &waiting{d: d, loan: loan, done: make(chan error, 1)}
	if !i.put(w) {
		loan.giveBack()
		return errBusy
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case err := <-w.done:
		return err
	case <-timer.C:
	case <-cut:
	}
	return errBusy
}

func (i *inbox) put(w *waiting) bool {
	i.mu.RLock()
	defer i.mu.RUnlock()
	if i.closed {
		return false
	}
	select {
	case i.queue <- w:
		return true
	default:
		return false
	}
}

// run commits until ctx ends, then what still waits.
func (i *inbox) run(ctx context.Context, failed failure) {
	var batch []*waiting
	for {
		select {
		case <-ctx.Done():
			i.mu.Lock()
			i.closed = true
			i.mu.Unlock()
			i.finish(ctx, failed)
			return
		case first := <-i.queue:
			// Who was just answered, and whose notification is being read, goes first where there are more of them than cores: then
			// commits hold more, and there are fewer of them. It takes no time where nobody waits for this core.
			runtime.Gosched()
			batch = i.gather(batch[:0], first)
			i.commit(context.WithoutCancel(ctx), batch, failed)
			clear(batch)
		}
	}
}

// finish commits the rest of a closed queue. What does not fit into the time is answered with 503.
func (i *inbox) finish(ctx context.Context, failed failure) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	for {
		select {
		case first := <-i.queue:
			i.commit(ctx, i.gather(nil, first), failed)
		default:
			return
		}
	}
}

// gather adds what waits already, up to the bounds of a batch. It never waits itself: a lone notification is committed
// at once, and while one commit runs the next batch gathers by itself.
func (i *inbox) gather(batch []*waiting, first *waiting) []*waiting {
	batch = append(batch, first)
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

// commit makes a batch durable and tells those who wait for it.
func (i *inbox) commit(ctx context.Context, batch []*waiting, failed failure) {
	ctx, cancel := context.WithTimeout(ctx, commitTime)
	defer cancel()
	ds := make([]*store.Delivery, len(batch))
	for n, w := range batch {
		ds[n] = w.d
	}
	// What is in the state is taken up while it becomes durable: on an ordinary disk that takes as long as all that comes of
	// it. Should it not become durable, hubs deliver it again.
	told := func(do func([]*store.Delivery)) {
		if err := protect("tell of notifications", func() error { do(ds); return nil }); err != nil {
			failed("notifications were kept, and not everyone was told", store.Subscription{}, err)
		}
	}
	err := protect("keep notifications", func() error {
		return i.o.Store.Deliver(ctx, ds, func() {
			told(i.wake)
			// Whoever was woken goes on at once, in this thread: the sync that follows holds it, and until another thread was awake
			// and had found the woken one behind it took 0.3 ms of a push on an ext4.
			runtime.Gosched()
		})
	})
	if err != nil {
		failed("cannot keep notifications: hubs are told to come again", store.Subscription{}, err)
	} else {
		told(i.count)
	}
	for _, w := range batch {
		w.loan.giveBack()
		w.done <- err
	}
}

// failure says that something of ours failed.
type failure func(what string, sub store.Subscription, err error)

// protect keeps a panic of what f calls from ending the process, and all that it does (F5).
func protect(what string, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: panic: %v\n%s", what, p, debug.Stack())
		}
	}()
	return f()
}

// wake has what is in the inbox taken up.
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

// count counts what has become durable.
func (i *inbox) count(ds []*store.Delivery) {
	grown := make(map[int64]store.InboxSize, 4)
	for _, d := range ds {
		i.o.Observe.notification(d.SourceID, Verdict(d.Verdict))
		if !d.Duplicate {
			grown[d.SourceID] = plus(grown[d.SourceID], 1, int64(len(d.Body)))
		}
	}
	i.size.added(grown)
}
