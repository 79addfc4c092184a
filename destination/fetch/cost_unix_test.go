//go:build unix

package fetch

import (
	"syscall"
	"time"
)

// cost is what a piece of work took: by the clock, and of this process's processor time.
type cost struct{ wall, cpu time.Duration }

// of adds the cost of work.
func (c *cost) of(work func()) {
	began, spent := time.Now(), processorTime()
	work()
	c.wall += time.Since(began)
	c.cpu += processorTime() - spent
}

func processorTime() time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
