package keeper

import (
	"context"
	"sync"
	"time"

	"resyncd/store"
)

const (
	// scoutTime is how long a renewal waits for the discovery before it (S-13).
	scoutTime = 30 * time.Second
	// scoutAgain is how fresh a discovery may be to serve other renewals: short leases must not become a load for the Source.
	scoutAgain = 5 * time.Minute
	// scoutsAtOnce bounds the discoveries under way.
	scoutsAtOnce = 16
)

// scouting is the discovery that goes before renewals, on its own workers: a Source that is slow or dead holds up no
// subscription, its own for scoutTime at most. Guarded by Keeper.mu.
type scouting struct {
	sets    map[setKey]*scouted
	queue   []setKey
	running int
}

// scouted is what is known of the discoveries of a set.
type scouted struct {
	began    time.Duration // uptime of the last one
	underway bool          // or in the queue
}

func newScouting() scouting { return scouting{sets: map[setKey]*scouted{}} }

// scout reports that r has to wait for a discovery first. Keeper.mu is held.
func (k *Keeper) scout(r *row, now store.Micros, uptime time.Duration) (wait bool) {
	if r.scouts { // it has waited
		r.scouts = false
		return false
	}
	if k.o.Rediscover == nil || r.sub.State != store.SubActive || r.review || !r.sub.Renew.Known() {
		return false
	}
	if place, _ := k.table.standing(r); place != head {
		return false
	}
	if !k.scoutSet(setKey{r.sub.SourceID, r.sub.SetID}, uptime) {
		return false
	}
	r.scouts = true
	r.hold = uptime + min(scoutTime, remaining(&r.sub, now)/4)
	return true
}

// scoutSet queues a discovery of a set unless there was one lately, and reports whether one is to come.
func (k *Keeper) scoutSet(key setKey, uptime time.Duration) bool {
	s := k.scouting.sets[key]
	if s == nil {
		s = &scouted{began: -scoutAgain}
		k.scouting.sets[key] = s
	}
	if s.underway {
		return true
	}
	if uptime-s.began < scoutAgain {
		return false
	}
	s.underway = true
	k.scouting.queue = append(k.scouting.queue, key)
	return true
}

// TopicHint says that something which a hub delivered names another topic than the one subscribed: a hint that the topic
// moved, so discovery is redone soon (S-64), every five minutes at most.
func (k *Keeper) TopicHint(sub store.Subscription) {
	k.mu.Lock()
	if k.running && k.o.Rediscover != nil {
		k.scoutSet(setKey{sub.SourceID, sub.SetID}, k.uptime())
	}
	k.mu.Unlock()
	k.signal()
}

// sendScouts starts discoveries. Keeper.mu is held.
func (k *Keeper) sendScouts(ctx context.Context, crew *sync.WaitGroup) {
	s := &k.scouting
	for s.running < scoutsAtOnce && len(s.queue) > 0 {
		key := s.queue[0]
		s.queue = s.queue[1:]
		s.sets[key].began = k.uptime()
		s.running++
		crew.Go(func() {
			err := k.rediscover(ctx, key)
			if err != nil && ctx.Err() == nil {
				k.o.Log.Info("discovery before a renewal failed, renewing what is known", "source", k.sourceName(key.source), "set", key.set, "err", err)
			}
			k.scoutBack(key)
		})
	}
}

func (k *Keeper) rediscover(ctx context.Context, key setKey) (err error) {
	ctx, cancel := context.WithTimeout(ctx, scoutTime)
	defer cancel()
	defer recovered(&err)
	return k.o.Rediscover(ctx, key.source, key.set)
}

// scoutBack lets the renewals go on that waited.
func (k *Keeper) scoutBack(key setKey) {
	k.mu.Lock()
	k.scouting.running--
	if s := k.scouting.sets[key]; s != nil {
		s.underway = false
	}
	now, uptime := k.now(), k.uptime()
	for _, kind := range []store.ChannelKind{store.ChannelChange, store.ChannelFramework, store.ChannelFeed} {
		for _, r := range k.table.families[family{key, kind}] {
			if r.scouts {
				r.hold = 0
				k.schedule(r, now, uptime)
			}
		}
	}
	k.mu.Unlock()
	k.signal()
}
