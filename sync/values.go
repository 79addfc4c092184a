package sync

import (
	"time"
)

// since returns the seconds of a run.
func since(now func() time.Time, start time.Time) float64 {
	return now().Sub(start).Round(time.Millisecond).Seconds()
}
