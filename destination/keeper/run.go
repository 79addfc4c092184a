package keeper

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"resyncd/store"
)

const (
	// lookEvery is how often the clocks are compared: timers stop while a machine is suspended (F16).
	lookEvery = 30 * time.Second
	// rescanEvery is how often the store is read again, in case another process changed a record.
	rescanEvery = 6 * time.Hour
	// troubleWait is how long a record rests that could not be changed, or whose turn changed nothing.
	troubleWait = 30 * time.Second
	// panicWait is the same after a bug (F5).
	panicWait = 10 * time.Minute
	// settleTime is how long the outcome of a request may take to record after the daemon was told to stop.
	settleTime = 5 * time.Second
)

// Run keeps all subscriptions until ctx ends, and returns nil then. It returns an error at once if the store cannot be
// read, or if it is running already. Workers end with it; a request that is under way is cut off, and sent again by the
// next Run.
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

// stop forgets the timetable: the next Run reads the store.
func (k *Keeper) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.running = false
	k.table, k.lanes, k.scouting = newTimetable(), newLanes(), newScouting()
}

func (k *Keeper) reread() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	again := k.rescan
	k.rescan = false
	return again
}

// load reads all records into the timetable.
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
	var changed []family
	for _, s := range all {
		there[s.ID] = true
		// What was observed while we read may be newer than what we read.
		if r := t.rows[s.ID]; r == nil {
			t.put(s, 0)
		} else if r.observed <= seen && r.sub != s {
			t.put(s, r.turn)
		} else {
			continue
		}
		changed = append(changed, familyOf(&s))
	}
	for id, r := range t.rows {
		if !there[id] && r.observed <= seen && !r.busy {
			t.drop(r)
			changed = append(changed, familyOf(&r.sub))
		}
	}
	now, uptime := k.now(), k.uptime()
	for _, f := range changed {
		for _, r := range t.families[f] {
			k.schedule(r, now, uptime)
		}
	}
	return nil
}

// schedule plans a row. Keeper.mu is held.
func (k *Keeper) schedule(r *row, now store.Micros, uptime time.Duration) {
	_, planned := k.plans[r.sub.SourceID]
	k.table.schedule(r, planned, now, uptime)
}

// observe takes a record as it was left by the change with that turn, unless a later one is known.
func (k *Keeper) observe(s store.Subscription, turn uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r := k.table.rows[s.ID]; !k.running || r != nil && r.turn >= turn {
		return
	}
	r := k.table.put(s, turn)
	r.hold, r.scouts = 0, false
	k.scheduleFamily(familyOf(&s))
}

// scheduleFamily plans the members of a family, each of which may be due by what became of another. Keeper.mu is held.
func (k *Keeper) scheduleFamily(f family) {
	now, uptime := k.now(), k.uptime()
	for _, r := range k.table.families[f] {
		k.schedule(r, now, uptime)
	}
	if len(k.table.due) > 0 && k.table.due[0].at < k.table.sleeps {
		k.signal()
	}
}

// forget drops a record that is not in the store any more.
func (k *Keeper) forget(id int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r := k.table.rows[id]; r != nil {
		k.table.drop(r)
	}
}

// dispatch gives what is due to workers, as far as there are any, and returns how long there is nothing else to do.
func (k *Keeper) dispatch(ctx context.Context, crew *sync.WaitGroup) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	now, uptime := k.now(), k.uptime()
	t := &k.table
	t.adjust(now, uptime, k.o.Dice)
	for len(t.due) > 0 && t.due[0].at <= uptime {
		r := t.due[0]
		t.unlist(r)
		if k.scout(r, now, uptime) {
			k.schedule(r, now, uptime)
			continue
		}
		r.busy = true
		k.lanes.enter(r)
	}
	k.sendScouts(ctx, crew)
	for {
		r, lane := k.lanes.next()
		if r == nil {
			break
		}
		crew.Go(func() { k.attend(ctx, r, lane) })
	}
	wait := lookEvery
	if len(t.due) > 0 {
		wait = min(wait, t.due[0].at-uptime)
	}
	t.sleeps = uptime + wait
	return wait
}

// attend is a worker's turn with one row.
func (k *Keeper) attend(ctx context.Context, r *row, lane *lane) {
	k.mu.Lock()
	before := r.sub
	k.mu.Unlock()
	how, hold := k.guarded(ctx, before.ID)
	k.mu.Lock()
	defer k.mu.Unlock()
	r.busy = false
	k.lanes.leave(lane, how)
	now, uptime := k.now(), k.uptime()
	if k.table.rows[before.ID] == r {
		if hold == 0 && r.sub == before {
			hold = troubleWait // nothing came of it, so another turn at once would be no better
		}
		if hold > 0 {
			r.hold = uptime + hold
		}
		k.schedule(r, now, uptime)
	}
	k.signal()
}

// guarded is step, with a bug in it kept from ending the daemon (F5).
func (k *Keeper) guarded(ctx context.Context, id int64) (how health, hold time.Duration) {
	defer func() {
		if p := recover(); p != nil {
			k.o.Log.Error("keeping a subscription panicked", "subscription", id, "err", fmt.Sprint(p), "stack", string(debug.Stack()))
			how, hold = unasked, panicWait
		}
	}()
	how, err := k.step(ctx, id)
	if err != nil && ctx.Err() == nil {
		k.o.Log.Warn("subscription cannot be looked after, trying again soon", "subscription", id, "err", err, "wait", troubleWait)
		hold = troubleWait
	}
	return how, hold
}
