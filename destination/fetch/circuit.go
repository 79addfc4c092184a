package fetch

import (
	"time"

	"resyncd/destination/backoff"
)

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
