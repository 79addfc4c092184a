package subscribe

import (
	"context"
	"sync"
	"time"

	"resyncd/destination/safe"
	"resyncd/store"
)

const (
	// discoveryTime is how long a renewal waits for the discovery before it (S-13).
	discoveryTime = 30 * time.Second
	// discoveryFresh spares the Source the load of short leases.
	discoveryFresh    = 5 * time.Minute
	discoveriesAtOnce = 16
)

// rediscoveries run before renewals, on their own workers: a slow Source must not hold up the subscriptions of others,
// and holds up its own for discoveryTime at most. Guarded by Keeper.mu.
type rediscoveries struct {
	sets   map[setKey]*discovery
	places chan struct{} // a running one holds one
}

type discovery struct {
	began    time.Duration // uptime of the last one
	underway bool          // or waiting for a place
}

func newRediscoveries() rediscoveries {
	return rediscoveries{sets: map[setKey]*discovery{}, places: make(chan struct{}, discoveriesAtOnce)}
}

// awaitDiscovery reports that r has to wait first. Keeper.mu is held.
func (k *Keeper) awaitDiscovery(ctx context.Context, crew *sync.WaitGroup, r *entry, now store.Micros,
	uptime time.Duration) (wait bool) {
	if r.awaiting { // it has waited
		r.awaiting = false
		return false
	}
	if k.o.Rediscover == nil || r.sub.State != store.SubActive || !r.sub.Renew.Known() {
		return false
	}
	if place, _ := k.table.roleOf(r); place != head {
		return false
	}
	key := setKey{r.sub.SourceID, r.sub.SetID}
	s := k.rediscovery.sets[key]
	if s == nil {
		s = &discovery{began: -discoveryFresh}
		k.rediscovery.sets[key] = s
	}
	if !s.underway {
		if uptime-s.began < discoveryFresh {
			return false
		}
		s.underway = true
		places := k.rediscovery.places
		crew.Go(func() { k.discover(ctx, key, s, places) })
	}
	r.awaiting = true
	r.hold = uptime + min(discoveryTime, remaining(&r.sub, now)/4)
	return true
}

func (k *Keeper) discover(ctx context.Context, key setKey, s *discovery, places chan struct{}) {
	select {
	case places <- struct{}{}:
		defer func() { <-places }()
	case <-ctx.Done():
		return
	}
	k.mu.Lock()
	s.began = k.uptime()
	k.mu.Unlock()
	if err := k.rediscover(ctx, key); err != nil && ctx.Err() == nil {
		k.o.Log.Info("discovery before a renewal failed, renewing what is known",
			"source", k.sourceName(key.source), "set", key.set, "err", err)
	}
	k.mu.Lock()
	s.underway = false
	now, uptime := k.now(), k.uptime()
	for _, r := range k.table.entries {
		if r.awaiting && r.sub.SourceID == key.source && r.sub.SetID == key.set {
			r.hold = 0
			k.schedule(r, now, uptime)
		}
	}
	k.mu.Unlock()
	k.signal()
}

func (k *Keeper) rediscover(ctx context.Context, key setKey) error {
	ctx, cancel := context.WithTimeout(ctx, discoveryTime)
	defer cancel()
	return safe.Do(func() error { return k.o.Rediscover(ctx, key.source, key.set) })
}
