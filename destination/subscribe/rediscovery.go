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
		crew.Go(func() { k.discover(ctx, channelOf(&r.sub), d) })
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
