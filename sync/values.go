package sync

import (
	"time"
)

// since is seconds of a run, for results.
func since(now func() time.Time, start time.Time) float64 {
	return now().Sub(start).Round(time.Millisecond).Seconds()
}
