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
	sets    map[setKey]*discovery
	queue   []setKey
	running int
}

type discovery struct {
	began    time.Duration // uptime of the last one
	underway bool          // or in the queue
}

func newRediscoveries() rediscoveries { return rediscoveries{sets: map[setKey]*discovery{}} }

// awaitDiscovery reports that r has to wait first. Keeper.mu is held.
func (k *Keeper) awaitDiscovery(r *entry, now store.Micros, uptime time.Duration) (wait bool) {
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
	if !k.queueDiscovery(setKey{r.sub.SourceID, r.sub.SetID}, uptime) {
		return false
	}
	r.awaiting = true
	r.hold = uptime + min(discoveryTime, remaining(&r.sub, now)/4)
	return true
}

// queueDiscovery reports whether a discovery of the set is to come.
func (k *Keeper) queueDiscovery(key setKey, uptime time.Duration) bool {
	s := k.rediscovery.sets[key]
	if s == nil {
		s = &discovery{began: -discoveryFresh}
		k.rediscovery.sets[key] = s
	}
	if s.underway {
		return true
	}
	if uptime-s.began < discoveryFresh {
		return false
	}
	s.underway = true
	k.rediscovery.queue = append(k.rediscovery.queue, key)
	return true
}

// Keeper.mu is held.
func (k *Keeper) startDiscoveries(ctx context.Context, crew *sync.WaitGroup) {
	s := &k.rediscovery
	for s.running < discoveriesAtOnce && len(s.queue) > 0 {
		key := s.queue[0]
		s.queue = s.queue[1:]
		s.sets[key].began = k.uptime()
		s.running++
		crew.Go(func() {
			err := k.rediscover(ctx, key)
			if err != nil && ctx.Err() == nil {
				k.o.Log.Info("discovery before a renewal failed, renewing what is known",
					"source", k.sourceName(key.source), "set", key.set, "err", err)
			}
			k.discoveryDone(key)
		})
	}
}

func (k *Keeper) rediscover(ctx context.Context, key setKey) error {
	ctx, cancel := context.WithTimeout(ctx, discoveryTime)
	defer cancel()
	return safe.Do(func() error { return k.o.Rediscover(ctx, key.source, key.set) })
}

func (k *Keeper) discoveryDone(key setKey) {
	k.mu.Lock()
	k.rediscovery.running--
	if s := k.rediscovery.sets[key]; s != nil {
		s.underway = false
	}
	now, uptime := k.now(), k.uptime()
	for _, kind := range []store.ChannelKind{store.ChannelChange, store.ChannelFramework, store.ChannelFeed} {
		for _, s := range k.table.byChannel[channelKey{key, kind}] {
			if r := k.table.entries[s.ID]; r.awaiting {
				r.hold = 0
				k.schedule(r, now, uptime)
			}
		}
	}
	k.mu.Unlock()
	k.signal()
}
