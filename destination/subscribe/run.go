package subscribe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"resyncd/destination/safe"
	"resyncd/store"
)

const (
	// Timers stop while a machine is suspended, so the clocks are compared (F16).
	lookEvery = 30 * time.Second
	// Another process may have changed a record.
	rescanEvery = 6 * time.Hour
	// troubleWait is how long a record rests that could not be changed.
	troubleWait = 30 * time.Second
	// panicWait is how long a record rests after a bug (F5).
	panicWait = 10 * time.Minute
	// settleTime bounds the recording of an answer after the daemon was told to stop.
	settleTime = 5 * time.Second
)

// Run keeps all subscriptions until ctx ends, and returns nil then. It returns an error at once if the store cannot be
// read, or if it is running already. A request that is cut off is sent again by the next Run.
func (k *Keeper) Run(ctx context.Context) error {
	k.mu.Lock()
	if k.running {
		k.mu.Unlock()
		return fmt.Errorf("keep subscriptions: another Run has not ended")
	}
	k.running = true
	k.mu.Unlock()
	defer k.stop()
	if err := k.load(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("keep subscriptions: %w", err)
	}
	var crew sync.WaitGroup
	defer crew.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	loaded := k.uptime()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-k.wake:
		}
		if k.takeRescan() || k.uptime()-loaded >= rescanEvery {
			loaded = k.uptime()
			if err := k.load(ctx); err != nil && ctx.Err() == nil {
				k.o.Log.Warn("subscriptions cannot be read, going on with what is known", "err", err)
			}
		}
		k.followPlans(ctx)
		timer.Reset(k.dispatch(ctx, &crew))
	}
}

func (k *Keeper) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.running, k.table, k.hosts = false, newTimetable(), hosts{}
}

func (k *Keeper) takeRescan() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	again := k.rescan
	k.rescan = false
	return again
}

// load reads each record again that the store tells otherwise: it may have been changed here since the store was read.
func (k *Keeper) load(ctx context.Context) error {
	all, err := k.o.Store.Subscriptions(ctx, 0, false)
	if err != nil {
		return err
	}
	k.mu.Lock()
	there := make(map[int64]bool, len(all))
	var differ []int64
	for _, s := range all {
		there[s.ID] = true
		if r := k.table.entries[s.ID]; r == nil || r.sub != s {
			differ = append(differ, s.ID)
		}
	}
	for id := range k.table.entries {
		if !there[id] {
			differ = append(differ, id)
		}
	}
	k.mu.Unlock()
	for _, id := range differ {
		if err := k.reread(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// observe takes a record as it is now, and has the next look at the timetable see what became due by it. The record is
// locked.
func (k *Keeper) observe(s store.Subscription) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.running {
		k.table.put(s, k.source(s.SourceID))
		k.signal()
	}
}

func (k *Keeper) forget(id int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r := k.table.entries[id]; r != nil {
		k.table.drop(r)
	}
}

// dispatch gives due entries to free workers, and returns how long Run may sleep.
func (k *Keeper) dispatch(ctx context.Context, crew *sync.WaitGroup) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	now, uptime := k.now(), k.uptime()
	due, next := k.table.plan(now, uptime, uptime+lookEvery, k.o.random)
	slices.SortFunc(due, mostUrgent)
	for _, r := range due {
		if k.hosts.busy(r.host) {
			continue
		}
		if at := k.discovered(ctx, crew, r, now, uptime); at > uptime {
			next = min(next, at)
			continue
		}
		r.busy = true
		at := k.hosts.begin(r.host)
		crew.Go(func() { k.work(ctx, r, at) })
	}
	return next - uptime
}

// Leases that may be lost come first.
func mostUrgent(a, b *entry) int {
	if a.sub.Live() != b.sub.Live() {
		if a.sub.Live() {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.sub.ID, b.sub.ID))
}

func (k *Keeper) work(ctx context.Context, r *entry, at *host) {
	k.mu.Lock()
	before := r.sub
	k.mu.Unlock()
	how, hold := k.safeStep(ctx, before.ID)
	k.mu.Lock()
	defer k.mu.Unlock()
	r.busy = false
	k.hosts.end(at, how)
	if hold == 0 && r.sub == before {
		hold = troubleWait // another step would change nothing either
	}
	if hold > 0 {
		r.hold = k.uptime() + hold
	}
	k.signal()
}

func (k *Keeper) safeStep(ctx context.Context, id int64) (health, time.Duration) {
	var how health
	err := safe.Do(func() (err error) {
		how, err = k.step(ctx, id)
		return err
	})
	if bug, ok := errors.AsType[*safe.PanicError](err); ok {
		k.o.Log.Error("keeping a subscription panicked", "subscription", id, "err", fmt.Sprint(bug.Value),
			"stack", string(bug.Stack))
		return unasked, panicWait
	}
	if err != nil && ctx.Err() == nil {
		k.o.Log.Warn("subscription cannot be looked after, trying again soon", "subscription", id, "err", err,
			"wait", troubleWait)
		return how, troubleWait
	}
	return how, 0
}
