package daemon

import (
	"context"
	"time"

	"resyncd/cmd/resyncd/internal/console"
	"resyncd/cmd/resyncd/internal/logging"
	"resyncd/store"
)

const hours = 24

// hourOf numbers hours since 1970.
func hourOf(m store.Micros) int64 { return int64(m) / (3600 * 1e6) }

// series is what a row shows of the day that ends at now: changes and mean push latency in seconds, below 0 for none.
func series(now time.Time, past []store.Point, waiting store.Point) (changes []int64, latency []float64) {
	last := hourOf(store.MicrosOf(now))
	var sums [hours]store.Point
	for _, p := range append(past[:len(past):len(past)], waiting) {
		if ago := last - hourOf(p.At); ago >= 0 && ago < hours {
			sums[hours-1-ago].Add(&p)
		}
	}
	changes, latency = make([]int64, hours), make([]float64, hours)
	for i := range sums {
		changes[i], latency[i] = sums[i].Changes, meanOf(&sums[i])
	}
	return changes, latency
}

// meanOf is the mean push latency of a point in seconds, below 0 without pushes.
func meanOf(p *store.Point) float64 {
	if p.Pushes == 0 {
		return -1
	}
	return float64(p.Latency) / float64(p.Pushes) / 1e6
}

// loadDays reads the last day of all Sources. What was read before stays where that fails.
func (b *board) loadDays(ctx context.Context) {
	now := store.MicrosOf(b.d.o.Now())
	points, err := b.d.st.Points(ctx, 0, store.Hour, now-(hours-1)*3600e6-now%3600e6, now+1)
	if err != nil {
		if ctx.Err() == nil {
			b.d.stateFailed(err)
			b.d.o.Log.Warn("the history of the last day cannot be read; it is tried again", logging.Err(err))
		}
		return
	}
	past := map[int64][]store.Point{}
	for _, p := range points {
		past[p.SourceID] = append(past[p.SourceID], p)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.past = past
}

// pastOf is a Source's last day as it was last read.
func (b *board) pastOf(source int64) []store.Point {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.past[source]
}

// pointOf is a point as pages show it.
func pointOf(p *store.Point) console.Point {
	out := console.Point{
		At: p.At.Time(), Changes: p.Changes, Failed: p.Failed, Bytes: p.Bytes, Pushes: p.Pushes, Misses: p.Misses,
		Latency: meanOf(p), LatencyMost: -1,
	}
	if p.Pushes > 0 {
		out.LatencyMost = float64(p.LatencyMost) / 1e6
	}
	return out
}
