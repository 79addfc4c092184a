package source

import (
	"time"

	"resyncd/destination/rsdoc"
)

// clock gives out the Source's instants. No two are equal and none goes back, whatever the clock of the machine does,
// so that an instant names one change and an interval never has a hole or an overlap (F43, F74).
type clock struct {
	now  func() time.Time
	last rsdoc.Micros
}

// tick returns an instant later than all before.
func (c *clock) tick() rsdoc.Micros {
	c.last = max(rsdoc.Micros(c.now().UnixMicro()), c.last+1)
	return c.last
}
