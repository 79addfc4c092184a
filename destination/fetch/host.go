package fetch

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// startConcurrency is where a new host begins, if the operator allows it that much (the default is 16, from the first moment).
// Whoever allows 256 has a round of answers in which the host may complain before that many are asked.
const startConcurrency = 64

// host is how politely one host (name and port) is asked: places that adapt between 1 and a maximum, a gate that
// Retry-After closes, a rate, and a circuit.
type host struct {
	target string
	log    *slog.Logger
	users  atomic.Int32 // waiting or holding a place; a host in use is not forgotten

	mu       sync.Mutex
	max      int
	limit    float64 // places now
	inflight int
	waiting  []*waiter // first come first served
	waiters  sync.Pool // of them, as nearly each small resource waits: there are more workers than places
	gate     time.Time // nothing is asked before
	laments  int       // waits asked for since the last good answer
	cutAt    time.Time // when limit was last halved; zero while it may still grow fast
	regain   float64   // places that are soon tried again after a complaint
	trouble  float64   // complaints among the last hundred or so answers
	circuit  circuit
	bucket   *rate.Limiter
}

// waiter is who waits for a place.
type waiter struct{ ready chan struct{} }

func newHost(target string, limit int, log *slog.Logger) *host {
	h := &host{target: target, log: log, max: limit, limit: float64(min(limit, startConcurrency))}
	h.waiters.New = func() any { return &waiter{ready: make(chan struct{}, 1)} }
	return h
}

// tighten applies the limits of the Source that asks; where Sources share a host the stricter one holds.
func (h *host) tighten(limit int, perSecond float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if limit < h.max {
		h.max = limit
		h.limit = min(h.limit, float64(limit))
	}
	if perSecond <= 0 {
		return
	}
	if h.bucket == nil {
		h.bucket = rate.NewLimiter(rate.Limit(perSecond), 1)
	} else if rate.Limit(perSecond) < h.bucket.Limit() {
		h.bucket.SetLimit(rate.Limit(perSecond))
	}
}

// acquire waits for a place, an open gate and a token. It waits for the gate at most patience in all; beyond it the
// answer is Throttled with the time to wait, so that a queue sleeps and not a goroutine. On error no place is held.
func (h *host) acquire(ctx context.Context, patience time.Duration) error {
	for {
		if err := h.place(ctx); err != nil {
			return err
		}
		wait, why := h.shut()
		if wait == 0 {
			break
		}
		h.leave()
		if wait > patience {
			return &kinded{kind: Throttled, retryAfter: min(wait, retryAfterCap), err: why}
		}
		patience -= wait
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
	h.mu.Lock()
	bucket := h.bucket
	h.mu.Unlock()
	if bucket != nil {
		if err := bucket.Wait(ctx); err != nil {
			h.leave()
			// Also when the context has no time left for the wait: that is our own end, not the peer's.
			return &kinded{kind: Canceled, err: err}
		}
	}
	return nil
}

// place takes one of the places, queueing for it.
func (h *host) place(ctx context.Context) error {
	h.mu.Lock()
	if len(h.waiting) == 0 && h.free() {
		h.take()
		h.mu.Unlock()
		return nil
	}
	w := h.waiters.Get().(*waiter)
	defer h.waiters.Put(w) // not in line any more, with nothing in its channel
	h.waiting = append(h.waiting, w)
	h.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-w.ready: // handed over at the same moment: pass it on
		h.giveBack()
	default:
		h.waiting = slices.DeleteFunc(h.waiting, func(other *waiter) bool { return other == w })
		h.wake() // it may have been the head of the queue
	}
	return ctx.Err()
}

// free reports whether one more may start now. While the circuit is open that is one probe at a time, whatever large
// transfers of better days are still under way. h.mu is held, here and in the next three.
func (h *host) free() bool {
	if h.circuit.open() {
		return !h.circuit.probing
	}
	return h.inflight < max(1, int(h.limit))
}

func (h *host) take() {
	h.inflight++
	h.circuit.probing = h.circuit.open()
}

func (h *host) giveBack() {
	h.inflight--
	h.circuit.probing = false
	h.wake()
}

// wake hands free places to those who wait longest.
func (h *host) wake() {
	for len(h.waiting) > 0 && h.free() {
		w := h.waiting[0]
		h.waiting = slices.Delete(h.waiting, 0, 1)
		h.take()
		w.ready <- struct{}{}
	}
}

// shut returns how long nothing may be asked, and why; 0 if the host may be asked.
func (h *host) shut() (time.Duration, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gate.IsZero() && h.circuit.until.IsZero() {
		return 0, nil // most hosts never complain: not even a look at the clock
	}
	now := time.Now()
	if d := h.gate.Sub(now); d > 0 {
		return d, fmt.Errorf("%s asked us to wait", h.target)
	}
	if d := h.circuit.until.Sub(now); d > 0 {
		return d, fmt.Errorf("%w: %s, last: %w", ErrHostDown, h.target, h.circuit.last)
	}
	return 0, nil
}

// leave gives the place back but stays a user.
func (h *host) leave() {
	h.mu.Lock()
	h.giveBack()
	h.mu.Unlock()
}

// release gives the place back for good.
func (h *host) release() {
	h.leave()
	h.unref()
}

func (h *host) unref() { h.users.Add(-1) }

// remembers reports whether forgetting the host would make us ruder.
func (h *host) remembers(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.gate.After(now) || h.circuit.open()
}

// sleep waits, or returns the context's error.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
