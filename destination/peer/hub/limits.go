package hub

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	limitHosts = 4096             // hosts remembered
	limitWait  = 30 * time.Second // longest wait for a host's turn
	limitBurst = 5                // seconds' worth of verifications that come at once
)

// limits bound how often one host is asked to verify: whoever sends requests in a stranger's name must not be amplified
// (H-19).
type limits struct {
	rate float64
	mu   *sync.Mutex
	all  map[string]*rate.Limiter
}

func newLimits(perSecond float64) limits {
	return limits{rate: perSecond, mu: new(sync.Mutex), all: map[string]*rate.Limiter{}}
}

// wait waits for a host's turn; an error if it would take too long.
func (l *limits) wait(ctx context.Context, host string) error {
	l.mu.Lock()
	limiter := l.all[host]
	if limiter == nil {
		if len(l.all) >= limitHosts {
			host = "" // too many strangers at once share one limit
			limiter = l.all[host]
		}
		if limiter == nil {
			limiter = rate.NewLimiter(rate.Limit(l.rate), max(1, int(limitBurst*l.rate)))
			l.all[host] = limiter
		}
	}
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, limitWait)
	defer cancel()
	return limiter.Wait(ctx)
}

// tidy forgets the hosts that may be asked as often as a new one.
func (l *limits) tidy() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for host, limiter := range l.all {
		if limiter.Tokens() >= float64(limiter.Burst()) {
			delete(l.all, host)
		}
	}
}
