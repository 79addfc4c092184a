// Package backoff knows how long to wait before something that failed is tried again. It refuses to know what failed
// and when to give up.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Doubled is first, doubled with each failure in a row from the second on, up to most.
func Doubled(first time.Duration, failures int, most time.Duration) time.Duration {
	d := first
	for ; failures > 1 && d < most; failures-- {
		d *= 2
	}
	return min(d, most)
}

// Jittered is d less up to one part of it (4: a quarter), because everything that failed together would come back
// together.
func Jittered(d time.Duration, part int64) time.Duration {
	return d - rand.N(d/time.Duration(part)+1) //nolint:gosec // jitter, no secret
}

// Wait returns after d, or with the cause of ctx when that ends.
func Wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
