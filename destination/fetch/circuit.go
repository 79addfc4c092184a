package fetch

import (
	"math/rand/v2"
	"time"
)

// A circuit opens after ten connections in a row that failed, or thirty answers of a gateway without its server.
const (
	weightConnection = 3
	weightGateway    = 1
	circuitWeight    = 30
	circuitPause     = time.Second     // first pause, doubled by each failed probe
	circuitPauseMax  = 2 * time.Minute //
)

// circuit keeps us from hammering a host that only fails (F78). Open, it lets nothing through until its pause is over,
// then one request at a time as a probe: an answer closes it, a failure doubles the pause.
type circuit struct {
	weight  int
	pause   time.Duration // 0: closed
	until   time.Time
	probing bool // one request is under way to see whether it works again
	last    error
}

func (c *circuit) open() bool { return c.pause > 0 }

func (c *circuit) close() { *c = circuit{} }

// fail counts one failure of an attempt begun at started and reports whether it opened the circuit, or opened it again.
func (c *circuit) fail(now, started time.Time, weight int, why error) bool {
	c.last = why
	if c.open() {
		if started.Before(c.until) {
			return false // sent before the circuit opened: no probe
		}
		c.pause = min(2*c.pause, circuitPauseMax)
	} else {
		if c.weight += weight; c.weight < circuitWeight {
			return false
		}
		c.pause = circuitPause
	}
	// Jitter of a quarter: replicas and Sources on one host must not come back at one moment.
	c.until = now.Add(c.pause - rand.N(c.pause/4))
	return true
}
