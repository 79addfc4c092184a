package hub

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	limitHosts  = 4096             // hosts remembered
	limitWait   = 30 * time.Second // longest wait for a host's turn
	limitBurst  = 5                // seconds' worth of verifications that come at once
	limitPlaces = 64               // verifications of one host at a time
)

// limits bound how often one host is asked to verify, and how many such questions it may leave unanswered at a time:
// whoever sends requests in a stranger's name must not be amplified, and whoever hangs must not take all places (H-19).
type limits struct {
	rate float64
	mu   *sync.Mutex
	all  map[string]*limit
}

type limit struct {
	rate   *rate.Limiter
	places pool
}

func newLimits(perSecond float64) limits {
	return limits{rate: perSecond, mu: new(sync.Mutex), all: map[string]*limit{}}
}

// enter waits for a host's turn; an error if it would take too long. Whoever got it calls leave.
func (l *limits) enter(ctx context.Context, host string) (leave func(), err error) {
	of := l.of(host)
	ctx, cancel := context.WithTimeout(ctx, limitWait)
	defer cancel()
	if err := of.rate.Wait(ctx); err != nil {
		return nil, err
	}
	select {
	case of.places <- struct{}{}:
		return of.places.leave, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *limits) of(host string) *limit {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all[host] == nil && len(l.all) >= limitHosts {
		host = "" // too many strangers at once share one limit
	}
	found := l.all[host]
	if found == nil {
		found = &limit{rate.NewLimiter(rate.Limit(l.rate), max(1, int(limitBurst*l.rate))), make(pool, limitPlaces)}
		l.all[host] = found
	}
	return found
}

// tidy forgets the hosts that may be asked as often as a new one.
func (l *limits) tidy() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for host, of := range l.all {
		if len(of.places) == 0 && of.rate.Tokens() >= float64(of.rate.Burst()) {
			delete(l.all, host)
		}
	}
}
