package subscribe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
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
		reload := false
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-k.wake:
		case <-k.reload:
			reload = true
		}
		if reload || k.uptime()-loaded >= rescanEvery {
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
		if err := k.reread(ctx, id, false); err != nil {
			return err
		}
	}
	return nil
}

// observe takes a record as it is now. The record is locked.
func (k *Keeper) observe(s store.Subscription) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.running {
		k.plan(k.table.put(s, k.source(s.SourceID)))
	}
}

func (k *Keeper) forget(id int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r := k.table.entries[id]; r != nil {
		k.table.drop(r)
		k.plan(r.channel)
	}
}

// plan follows a change of a channel, of which one member may make others due. What is due later than the next look
// need not be looked at sooner. Keeper.mu is held.
func (k *Keeper) plan(c *channel) {
	if uptime := k.uptime(); k.table.plan(c, k.now(), uptime, uptime+lookEvery) {
		k.signal()
	}
}

// planSource follows a change of Source.planned. Keeper.mu is held.
func (k *Keeper) planSource(s *source) {
	for _, c := range k.table.channels {
		if c.source == s {
			k.plan(c)
		}
	}
}

// dispatch gives due entries to free workers, and returns how long Run may sleep.
func (k *Keeper) dispatch(ctx context.Context, crew *sync.WaitGroup) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	now, uptime := k.now(), k.uptime()
	due, next := k.table.look(now, uptime, uptime+lookEvery, k.o.random)
	slices.SortFunc(due, k.hosts.compare)
	running, ofSick := k.hosts.requests()
	for _, r := range due {
		if running >= workers || k.hosts.busy(r.host, ofSick) {
			continue
		}
		if at := k.discovered(ctx, crew, r, now, uptime); at > uptime {
			next = min(next, at)
			continue
		}
		r.busy = true
		at := k.hosts.begin(r.host, uptime)
		running, ofSick = k.hosts.requests()
		crew.Go(func() { k.work(ctx, r, at) })
	}
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

// Bounds on concurrent requests (P8). Slow hubs share a part of the workers: otherwise they could take all of them.
const (
	workers        = 16
	workersPerHub  = 2
	workersForSick = workers / 2
	slow           = 5 * time.Second
	hostsKept      = 1024 // then idle hosts are forgotten
)

// hosts are those of the hubs that were asked. Guarded by Keeper.mu.
type hosts map[string]*host

type host struct {
	running int
	sick    bool
	asked   time.Duration // uptime of the last request
}

func hostOf(hub string) string {
	u, err := url.Parse(hub)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Host)
}

// requests counts those under way, and of these the ones at sick hosts.
func (l hosts) requests() (all, ofSick int) {
	for _, a := range l {
		all += a.running
		if a.sick {
			ofSick += a.running
		}
	}
	return all, ofSick
}

// busy reports that there is no worker for a host, where sick ones have some.
func (l hosts) busy(name string, ofSick int) bool {
	a := l[name]
	return a != nil && (a.running >= workersPerHub || a.sick && ofSick >= workersForSick)
}

// compare orders due entries: first the host that was asked longest ago, and there leases that may be lost.
func (l hosts) compare(a, b *entry) int {
	asked := func(r *entry) time.Duration {
		if h := l[r.host]; h != nil {
			return h.asked
		}
		return 0
	}
	urgency := func(r *entry) int {
		if r.sub.Live() {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(asked(a), asked(b)), urgency(a)-urgency(b), cmp.Compare(a.at, b.at),
		cmp.Compare(a.sub.ID, b.sub.ID))
}

// begin takes a worker; end gives it back.
func (l hosts) begin(name string, uptime time.Duration) *host {
	if l[name] == nil {
		l[name] = &host{}
	}
	l[name].running++
	l[name].asked = uptime
	return l[name]
}

func (l hosts) end(a *host, how health) {
	a.running--
	if how != unasked {
		a.sick = how == sick
	}
	if len(l) > hostsKept {
		maps.DeleteFunc(l, func(_ string, a *host) bool { return a.running == 0 })
	}
}

type health uint8

const (
	unasked health = iota
	well
	sick
)

const (
	// discoveryTime is how long a renewal waits for the discovery before it (S-13).
	discoveryTime = 30 * time.Second
	// discoveryFresh spares the Source the load of short leases.
	discoveryFresh    = 5 * time.Minute
	discoveriesAtOnce = 16
)

// discovery is the last one of a set before a renewal. Guarded by Keeper.mu.
type discovery struct {
	began    time.Duration // uptime
	underway bool          // or waiting for a place
}

// discovered returns the uptime from which r need not wait for what its set offers now. Discoveries run beside the
// workers: a slow Source must not hold up the subscriptions of others, and holds up its own for discoveryTime at most.
// Keeper.mu is held.
func (k *Keeper) discovered(ctx context.Context, crew *sync.WaitGroup, r *entry, now store.Micros,
	uptime time.Duration) time.Duration {
	if k.o.Rediscover == nil || r.sub.State != store.SubActive || !r.sub.Renew.Known() {
		return uptime
	}
	if place, _ := r.role(); place != head {
		return uptime
	}
	asked := r.channel.source.asked
	d := asked[r.sub.SetID]
	if d == nil || !d.underway && uptime-d.began >= discoveryFresh {
		d = &discovery{began: uptime, underway: true}
		asked[r.sub.SetID] = d
		f := channelOf(&r.sub)
		crew.Go(func() { k.discover(ctx, f, d) })
	}
	if !d.underway {
		return uptime
	}
	return d.began + min(discoveryTime, remaining(&r.sub, now)/4)
}

func (k *Keeper) discover(ctx context.Context, f channelKey, d *discovery) {
	defer func() {
		k.mu.Lock()
		d.underway = false
		k.mu.Unlock()
		k.signal()
	}()
	select {
	case k.discovering <- struct{}{}:
		defer func() { <-k.discovering }()
	case <-ctx.Done():
		return
	}
	if err := k.rediscover(ctx, f); err != nil && ctx.Err() == nil {
		k.o.Log.Info("discovery before a renewal failed, renewing what is known",
			"source", k.sourceName(f.source), "set", f.set, "err", err)
	}
}

func (k *Keeper) rediscover(ctx context.Context, f channelKey) error {
	ctx, cancel := context.WithTimeout(ctx, discoveryTime)
	defer cancel()
	return safe.Do(func() error { return k.o.Rediscover(ctx, f.source, f.set) })
}
