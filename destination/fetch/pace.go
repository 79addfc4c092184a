package fetch

import (
	"net/http"
	"time"
)

// outcome is what one attempt tells about its host.
type outcome struct {
	answered bool          // the host works: any status but a gateway's lament
	overload bool          // 429 or 503: ask less
	wait     time.Duration // Retry-After
	weight   int           // how much it speaks for a host that is down; 0: nothing
}

// outcomeOf sorts an attempt: kind if it had no answer, else its status.
// A 500 is an answer: one broken resource after another must not close the host for all the good ones (P11).
func outcomeOf(kind Kind, status int, wait time.Duration) outcome {
	switch {
	case status == 0 && (kind == Transient || kind == TLS):
		return outcome{weight: weightConnection}
	case status == 0:
		return outcome{} // our own cancellation or refusal tells nothing about the host
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable && wait > 0:
		return outcome{answered: true, overload: true, wait: wait}
	case status == http.StatusServiceUnavailable:
		return outcome{overload: true, weight: weightGateway}
	case status == http.StatusBadGateway, status == http.StatusGatewayTimeout:
		return outcome{weight: weightGateway}
	}
	return outcome{answered: true}
}

// report adapts the pace to what an attempt that began at started has met. why is its failure, for the message that
// others get while the circuit is open.
func (h *host) report(started time.Time, o outcome, why error) {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.wake()
	h.circuit.probing = false
	if h.believes(o) && now.Add(o.wait).After(h.gate) {
		h.gate = now.Add(o.wait)
		h.log.Debug("host asked us to wait", "host", h.target, "wait", o.wait)
	}
	if o.overload {
		// Sixteen answers to requests sent before the first of them are one complaint, not sixteen.
		if started.After(h.cutAt) || h.cutAt.IsZero() {
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
}

// gateLaments is how many long waits in a row, without a good answer between, close a host. One resource that always
// answers 503 and "come back in an hour" must not keep all the good ones waiting (P11); its own wait stands in its error.
const gateLaments = 3

// believes tells whether an answer closes the gate: a short wait does at once, a long one when the host means all of us.
func (h *host) believes(o outcome) bool {
	switch {
	case o.answered && !o.overload:
		h.laments = 0
		return false
	case o.wait > defaultMaxWait:
		h.laments++
		return h.laments >= gateLaments
	}
	return o.wait > 0
}

// grow adds a place per good answer until the host has complained once, then one per round of answers.
func (h *host) grow() {
	step := 1.0
	if !h.cutAt.IsZero() {
		step = 1 / h.limit
	}
	h.limit = min(h.limit+step, float64(h.max))
}
