package daemon

import (
	"context"
	"time"

	"resyncd/cmd/resyncd/internal/console"
	"resyncd/store"
)

const hours = 24

// day is what happened to one Source in each of the last hours.
type day struct {
	last int64 // the newest hour, since 1970
	of   [hours]store.Point
}

// hourOf numbers hours since 1970.
func hourOf(m store.Micros) int64 { return int64(m) / (3600 * 1e6) }

// turn makes room for a newer hour.
func (y *day) turn(hour int64) {
	if hour-y.last >= hours {
		y.of, y.last = [hours]store.Point{}, hour
	}
	for ; y.last < hour; y.last++ {
		y.of[(y.last+1)%hours] = store.Point{}
	}
}

// add takes up what happened at p.At. What is older than a day is not kept.
func (y *day) add(p *store.Point) {
	hour := hourOf(p.At)
	if y.turn(hour); y.last-hour < hours {
		y.of[hour%hours].Add(p)
	}
}

// series is what a row shows of the day that ends at now: changes and mean push latency in seconds, below 0 for none.
func (y *day) series(now time.Time, waiting store.Point) (changes []int64, latency []float64) {
	sums := *y
	sums.turn(hourOf(store.MicrosOf(now)))
	if waiting.At.Known() && waiting != (store.Point{}) {
		sums.add(&waiting)
	}
	changes, latency = make([]int64, hours), make([]float64, hours)
	for i := range hours {
		p := &sums.of[(sums.last+1+int64(i))%hours]
		changes[i], latency[i] = p.Changes, meanOf(p)
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

// loadDays reads the last day of all Sources; afterwards they grow with what the sampler writes, which must not write
// meanwhile.
func (b *board) loadDays(ctx context.Context) error {
	now := store.MicrosOf(b.d.o.Now())
	points, err := b.d.st.Points(ctx, 0, store.Hour, now-(hours-1)*3600e6-now%3600e6, now+1)
	if err != nil {
		return err
	}
	b.mu.Lock()
	b.days = map[int64]*day{}
	b.mu.Unlock()
	b.sampled(points)
	return nil
}

// sampled takes up points that were written.
func (b *board) sampled(points []store.Point) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range points {
		p := &points[i]
		y := b.days[p.SourceID]
		if y == nil {
			y = &day{last: hourOf(p.At)}
			b.days[p.SourceID] = y
		}
		y.add(p)
	}
}

// dayOf copies a Source's day.
func (b *board) dayOf(source int64) day {
	b.mu.Lock()
	defer b.mu.Unlock()
	if y := b.days[source]; y != nil {
		return *y
	}
	return day{}
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
