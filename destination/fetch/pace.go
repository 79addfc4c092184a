package fetch

import (
	"net/http"
	"time"

	"resyncd/destination/backoff"
)

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
	if h.closesHost(o) && now.Add(o.wait).After(h.closedUntil) {
		h.closedUntil = now.Add(o.wait)
		h.log.Debug("host asked us to wait", "host", h.target, "wait", o.wait)
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
		h.circuit.close()
	case o.weight > 0:
		if h.circuit.fail(now, started, o.weight, why) {
			h.log.Debug("host keeps failing", "host", h.target, "pause", h.circuit.until.Sub(now), "err", why)
		}
	}
	return h.overloads >= overloadsToClose || h.trouble >= troubleMost
}

// One resource that always answers 503 must not close its host for the good ones (P11).
const overloadsToClose = 3

func (h *host) closesHost(o attemptResult) bool {
	if o.answered && !o.overload {
		h.overloads = 0
	}
	if o.wait == 0 {
		return false
	}
	h.overloads++
	return h.overloads >= overloadsToClose
}

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

func (c *circuit) close() { *c = circuit{} }

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
