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

// report adapts the pace to what an attempt from started to now has met. why is its failure, for the message that
// others get while the circuit is open. throttled tells that the host complains of all of us, not of one request now and
// then.
func (h *host) report(now, started time.Time, o outcome, why error) (throttled bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.wake()
	h.circuit.probing = false
	if h.believes(o) && now.Add(o.wait).After(h.gate) {
		h.gate = now.Add(o.wait)
		h.log.Debug("host asked us to wait", "host", h.target, "wait", o.wait)
	}
	h.trouble -= h.trouble / troubleMemory
	if o.overload {
		h.trouble++
		// Sixteen answers to requests sent before the first of them are one complaint, not sixteen.
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
	return h.laments >= gateLaments || h.trouble >= troubleMost
}

// gateLaments is how many waits asked for in a row, without a good answer between, close a host. One resource that always
// answers 503 and "come back in an hour" must not keep all the good ones waiting (P11), nor must one answer in a hundred
// that says "in a second" stop the others for that second; its own wait stands in its error.
const gateLaments = 3

// believes tells whether an answer closes the gate: when the host means all of us.
func (h *host) believes(o outcome) bool {
	if o.answered && !o.overload {
		h.laments = 0
	}
	if o.wait == 0 {
		return false
	}
	h.laments++
	return h.laments >= gateLaments
}

// A host that complains of now and then only gets most of its places back as fast as they were first given, the rest one by
// one: with one answer in sixty a stray 503, one place per round alone left ten of sixteen in use. When 8 of the last 128
// answers were complaints it means what it says, and all is regained slowly.
const (
	troubleMemory = 128
	troubleMost   = 8
	regainShare   = 7.0 / 8
)

// growth is how many places each good answer adds while the host has not complained: with each round of answers there are four
// times as many, up to what the operator has set. Over a distance each further place costs the round trips of its connection too.
const growth = 3

// grow adds places for a good answer: several until the host has complained once, then one per round of answers.
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
