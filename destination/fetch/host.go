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

// A new host begins here, so that it can complain before more is sent at once.
const startConcurrency = 64

// host limits the requests to one host and port.
type host struct {
	target string
	log    *slog.Logger
	users  atomic.Int32 // a host in use is not evicted

	mu          sync.Mutex
	max         int
	limit       float64
	inflight    int
	waiting     []chan struct{} // each of capacity 1
	closedUntil time.Time       // nothing is sent before
	overloads   int             // since the last good answer
	cutAt       time.Time       // when limit was last halved; zero while it may grow fast
	regain      float64         // slots that are soon tried again
	trouble     float64         // among the last hundred or so answers
	circuit     circuit
	bucket      *rate.Limiter
}

func newHost(target string, limit int, log *slog.Logger) *host {
	return &host{target: target, log: log, max: limit, limit: float64(min(limit, startConcurrency))}
}

// The stricter limits of several Sources hold.
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

// acquire waits for a slot, for the host to open and for a token. Beyond patience the answer is Throttled, so that a
// queue sleeps and not a goroutine.
func (h *host) acquire(ctx context.Context, patience time.Duration) error {
	for {
		if err := h.waitSlot(ctx); err != nil {
			return err
		}
		wait, why := h.closedFor()
		if wait == 0 {
			break
		}
		h.returnSlot()
		if wait > patience {
			return &Error{Kind: Throttled, RetryAfter: min(wait, retryAfterCap), Err: why}
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
			h.returnSlot()
			// The end is the caller's, not the peer's, also when the context has no time left for the wait.
			return &Error{Kind: Canceled, Err: err}
		}
	}
	return nil
}

func (h *host) waitSlot(ctx context.Context) error {
	h.mu.Lock()
	if len(h.waiting) == 0 && h.free() {
		h.takeSlot()
		h.mu.Unlock()
		return nil
	}
	ready := make(chan struct{}, 1)
	h.waiting = append(h.waiting, ready)
	h.mu.Unlock()
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-ready: // given at the same moment: pass it on
		h.freeSlot()
	default:
		h.waiting = slices.DeleteFunc(h.waiting, func(other chan struct{}) bool { return other == ready })
		h.wake() // it may have been the head of the queue
	}
	return ctx.Err()
}

// While the circuit is open, one probe is free. h.mu is held here and in the next three.
func (h *host) free() bool {
	if h.circuit.open() {
		return !h.circuit.probing
	}
	return h.inflight < max(1, int(h.limit))
}

func (h *host) takeSlot() {
	h.inflight++
	h.circuit.probing = h.circuit.open()
}

func (h *host) freeSlot() {
	h.inflight--
	h.circuit.probing = false
	h.wake()
}

func (h *host) wake() {
	for len(h.waiting) > 0 && h.free() {
		h.takeSlot()
		h.waiting[0] <- struct{}{}
		h.waiting = slices.Delete(h.waiting, 0, 1)
	}
}

// closedFor returns how long nothing may be sent, and why.
func (h *host) closedFor() (time.Duration, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closedUntil.IsZero() && h.circuit.until.IsZero() {
		return 0, nil // most hosts never complain
	}
	now := time.Now()
	if d := h.closedUntil.Sub(now); d > 0 {
		return d, fmt.Errorf("%s asked us to wait", h.target)
	}
	if d := h.circuit.until.Sub(now); d > 0 {
		return d, fmt.Errorf("%w: %s, last: %w", ErrHostDown, h.target, h.circuit.last)
	}
	return 0, nil
}

func (h *host) returnSlot() {
	h.mu.Lock()
	h.freeSlot()
	h.mu.Unlock()
}

func (h *host) release() {
	h.returnSlot()
	h.unref()
}

func (h *host) unref() { h.users.Add(-1) }

func (h *host) remembers(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.closedUntil.After(now) || h.circuit.open()
}

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

// hostsKept bounds the memory spent on hosts (P8).
const hostsKept = 4096

type hosts struct {
	mu   sync.Mutex
	all  map[string]*host
	max  int
	rate float64
	log  *slog.Logger
}

func newHosts(o Options) *hosts {
	return &hosts{all: make(map[string]*host), max: o.Concurrency, rate: o.Rate, log: o.Log}
}

// get returns the host and counts a user, until unref or release.
func (s *hosts) get(target string, p *Policy) *host {
	limit, rate := s.max, s.rate
	if p != nil && p.Concurrency > 0 {
		limit = min(limit, p.Concurrency)
	}
	if p != nil && p.Rate > 0 {
		rate = p.Rate
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.all[target]
	if h == nil {
		if len(s.all) >= hostsKept {
			s.evict(time.Now())
		}
		h = newHost(target, limit, s.log)
		s.all[target] = h
	}
	h.users.Add(1)
	h.tighten(limit, rate)
	return h
}

// evict drops every host at rest, or, if that is too little, any that are not in use.
func (s *hosts) evict(now time.Time) {
	for target, h := range s.all {
		if h.users.Load() == 0 && !h.remembers(now) {
			delete(s.all, target)
		}
	}
	for target, h := range s.all {
		if len(s.all) <= hostsKept*3/4 {
			return
		}
		if h.users.Load() == 0 {
			delete(s.all, target)
		}
	}
}
