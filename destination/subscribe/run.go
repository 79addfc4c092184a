package subscribe

import (
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
		if k.reread() || k.uptime()-loaded >= rescanEvery {
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
	k.running = false
	k.table, k.hosts, k.rediscovery = newTimetable(), newHosts(), newRediscoveries()
}

func (k *Keeper) reread() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	again := k.rescan
	k.rescan = false
	return again
}

func (k *Keeper) load(ctx context.Context) error {
	k.mu.Lock()
	seen := k.table.observed
	k.mu.Unlock()
	all, err := k.o.Store.Subscriptions(ctx, 0, false)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	t := &k.table
	there := make(map[int64]bool, len(all))
	var changed []channelKey
	for _, s := range all {
		there[s.ID] = true
		// A change observed during the read may be newer than the read.
		if r := t.entries[s.ID]; r == nil {
			t.put(s, 0)
		} else if r.observed <= seen && r.sub != s {
			t.put(s, r.seq)
		} else {
			continue
		}
		changed = append(changed, channelOf(&s))
	}
	for id, r := range t.entries {
		if !there[id] && r.observed <= seen && !r.busy {
			t.drop(r)
			changed = append(changed, channelOf(&r.sub))
		}
	}
	for _, f := range changed {
		k.scheduleChannel(f)
	}
	return nil
}

// Keeper.mu is held.
func (k *Keeper) schedule(r *entry, now store.Micros, uptime time.Duration) {
	_, planned := k.plans[r.sub.SourceID]
	k.table.schedule(r, planned, now, uptime)
}

// observe takes a record as change seq left it, unless a later state is known.
func (k *Keeper) observe(s store.Subscription, seq uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r := k.table.entries[s.ID]; !k.running || r != nil && r.seq >= seq {
		return
	}
	r := k.table.put(s, seq)
	r.hold, r.awaiting = 0, false
	k.scheduleChannel(channelOf(&s))
}

// A change of one member may make others due. Keeper.mu is held.
func (k *Keeper) scheduleChannel(f channelKey) {
	now, uptime := k.now(), k.uptime()
	for _, s := range k.table.byChannel[f] {
		r := k.table.entries[s.ID]
		k.schedule(r, now, uptime)
		if r.waits() && r.at() < k.table.sleeps {
			k.signal()
		}
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
	t := &k.table
	t.compareClocks(now, uptime, k.o.random)
	due, next := t.dueAt(uptime, uptime+lookEvery)
	slices.SortFunc(due, k.hosts.compare)
	for _, r := range due {
		if k.hosts.busy(r) {
			continue
		}
		if k.awaitDiscovery(ctx, crew, r, now, uptime) {
			next = min(next, r.at())
			continue
		}
		r.busy = true
		at := k.hosts.begin(r)
		crew.Go(func() { k.work(ctx, r, at) })
	}
	t.sleeps = next
	return next - uptime
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
	now, uptime := k.now(), k.uptime()
	if k.table.entries[before.ID] == r {
		if hold == 0 && r.sub == before {
			hold = troubleWait // another step would change nothing either
		}
		if hold > 0 {
			r.hold = uptime + hold
		}
		k.schedule(r, now, uptime)
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
