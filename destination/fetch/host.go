package fetch

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"resyncd/destination/backoff"
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
		if err := backoff.Wait(ctx, wait); err != nil {
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

// hostsKept bounds the memory spent on hosts (P8).
const hostsKept = 4096

type hosts struct {
	mu  sync.Mutex
	all map[string]*host
	max int
	log *slog.Logger
}

func newHosts(o Options) *hosts {
	return &hosts{all: make(map[string]*host), max: o.Concurrency, log: o.Log}
}

// get returns the host and counts a user, until unref or release.
func (s *hosts) get(target string, p *Policy) *host {
	limit, rate := s.max, 0.0
	if p != nil && p.Concurrency > 0 {
		limit = min(limit, p.Concurrency)
	}
	if p != nil {
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

// evict drops every host at rest, or, if that is too little, all that are not in use.
func (s *hosts) evict(now time.Time) {
	maps.DeleteFunc(s.all, func(_ string, h *host) bool { return h.users.Load() == 0 && !h.remembers(now) })
	if len(s.all) >= hostsKept {
		maps.DeleteFunc(s.all, func(_ string, h *host) bool { return h.users.Load() == 0 })
	}
}

type attemptResult struct {
	answered bool // any status except a gateway error
	overload bool // 429 or 503: ask less
	wait     time.Duration
	weight   int // towards opening the circuit
}

// A 500 is an answer: broken resources must not close the host for the good ones (P11).
func attemptResultOf(kind Kind, status int, wait time.Duration) attemptResult {
	switch {
	case status == 0 && (kind == Transient || kind == TLS):
		return attemptResult{weight: weightConnection}
	case status == 0:
		return attemptResult{} // shows nothing about the host
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable && wait > 0:
		return attemptResult{answered: true, overload: true, wait: wait}
	case status == http.StatusServiceUnavailable:
		return attemptResult{overload: true, weight: weightGateway}
	case status == http.StatusBadGateway, status == http.StatusGatewayTimeout:
		return attemptResult{weight: weightGateway}
	}
	return attemptResult{answered: true}
}

// throttled reports that the host throttles all requests, not one now and then.
func (h *host) report(now, started time.Time, o attemptResult, why error) (throttled bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.wake()
	h.circuit.probing = false
	switch until := now.Add(o.wait); {
	case o.wait > 0:
		h.overloads++
		if h.overloads >= overloadsToClose && until.After(h.closedUntil) {
			h.closedUntil = until
			h.log.Debug("host asked us to wait", "host", h.target, "wait", o.wait)
		}
	case o.answered && !o.overload:
		h.overloads = 0
	}
	h.trouble -= h.trouble / troubleMemory
	if o.overload {
		h.trouble++
		// Complaints about requests sent before count once, otherwise one burst would halve the limit many times.
		if started.After(h.cutAt) || h.cutAt.IsZero() {
			h.regain = max(h.regain, h.limit) * regainShare
			h.limit, h.cutAt = max(1, h.limit/2), now
			h.log.Debug("asking a host less", "host", h.target, "parallel", int(h.limit))
		}
	} else if o.answered {
		h.grow()
	}
	switch {
	case o.answered:
		h.circuit = circuit{}
	case o.weight > 0:
		if h.circuit.fail(now, started, o.weight, why) {
			h.log.Debug("host keeps failing", "host", h.target, "pause", h.circuit.until.Sub(now), "err", why)
		}
	}
	return h.overloads >= overloadsToClose || h.trouble >= troubleMost
}

// One resource that always answers 503 must not close its host for the good ones (P11).
const overloadsToClose = 3

// A host that complains only now and then gets most of its slots back as fast as at first.
const (
	troubleMemory = 128
	troubleMost   = 8
	regainShare   = 7.0 / 8
)

// growth is how many slots each good answer adds while the host has not complained.
const growth = 3

// One slot per round of answers, once the host has complained.
func (h *host) grow() {
	step := 1 / h.limit
	switch {
	case h.cutAt.IsZero():
		step = growth
	case h.limit < h.regain && h.trouble < troubleMost:
		step = 1
	}
	h.limit = min(h.limit+step, float64(h.max))
}

// A circuit opens after ten failed connections in a row, or thirty answers of a gateway whose server is away.
const (
	weightConnection = 3
	weightGateway    = 1
	circuitWeight    = 30
	circuitPause     = time.Second
	circuitPauseMax  = 2 * time.Minute
)

// circuit stops requests to a host that only fails (F78). While it is open, a probe is sent after each pause.
type circuit struct {
	weight  int
	pause   time.Duration // 0: closed
	until   time.Time
	probing bool
	last    error
}

func (c *circuit) open() bool { return c.pause > 0 }

// fail counts a failure and reports whether it opened the circuit, or opened it again.
func (c *circuit) fail(now, started time.Time, weight int, why error) bool {
	c.last = why
	if c.open() {
		if started.Before(c.until) {
			return false // no probe
		}
		c.pause = min(2*c.pause, circuitPauseMax)
	} else {
		if c.weight += weight; c.weight < circuitWeight {
			return false
		}
		c.pause = circuitPause
	}
	// Replicas and Sources on one host must not come back at one moment.
	c.until = now.Add(backoff.Jittered(c.pause, 4))
	return true
}
