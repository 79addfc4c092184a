package sync

import (
	"time"
)

func since(now func() time.Time, start time.Time) float64 {
	return now().Sub(start).Round(time.Millisecond).Seconds()
}
