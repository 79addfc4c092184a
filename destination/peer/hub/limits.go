package hub

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	limitShares = 4096             // shares remembered
	limitWait   = 30 * time.Second // longest wait for a share's turn
	limitBurst  = 5                // seconds' worth of verifications that come at once
	limitPlaces = 64               // verifications of one share at a time
)

// limits bound how often one site is asked to verify, or asked so for one client, and how many such questions may stay
// unanswered at a time: whoever sends requests in a stranger's name must not be amplified, and whoever hangs must not take all places (H-19).
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

// enter waits for a share's turn; an error if it would take too long. Whoever got it calls leave.
func (l *limits) enter(ctx context.Context, share string) (leave func(), err error) {
	of := l.of(share)
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

func (l *limits) of(share string) *limit {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all[share] == nil && len(l.all) >= limitShares {
		share = "" // too many strangers at once share one limit
	}
	found := l.all[share]
	if found == nil {
		found = &limit{rate.NewLimiter(rate.Limit(l.rate), max(1, int(limitBurst*l.rate))), make(pool, limitPlaces)}
		l.all[share] = found
	}
	return found
}

// tidy forgets the shares that may be asked as often as a new one.
func (l *limits) tidy() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for share, of := range l.all {
		if len(of.places) == 0 && of.rate.Tokens() >= float64(of.rate.Burst()) {
			delete(l.all, share)
		}
	}
}
