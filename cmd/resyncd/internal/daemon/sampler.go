package daemon

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"resyncd/cmd/resyncd/internal/console"
	"resyncd/cmd/resyncd/internal/logging"
	"resyncd/store"
)

const (
	sampleEvery = time.Minute
	// clockEvery is how often the wall clock is held against the monotonic one; a difference of clockJump is told.
	clockEvery = 15 * time.Second
	clockJump  = 10 * time.Second
)

// sampler adds up what happens to Sources and writes it down once a minute. Whatever happens costs an addition; a store
// that cannot be written keeps one point waiting for each Source.
type sampler struct {
	st  store.Chronicle
	now func() time.Time

	mu      sync.Mutex
	pending map[int64]store.Point   // by Source
	past    map[int64][]store.Point // the last day by the hour, as it is written
}

func newSampler(now func() time.Time) *sampler {
	return &sampler{now: now, pending: map[int64]store.Point{}}
}

// add takes note of what happened just now; its At is set here.
func (s *sampler) add(p store.Point) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum, waits := s.pending[p.SourceID]
	if !waits {
		sum = store.Point{SourceID: p.SourceID, At: store.MicrosOf(s.now())}
	}
	sum.Add(&p)
	s.pending[p.SourceID] = sum
}

// waiting is what is not written yet for a Source; the zero point for nothing.
func (s *sampler) waiting(source int64) store.Point {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pending[source]
}

// day is a Source's last day by the hour.
func (s *sampler) day(now time.Time, source int64) []store.Point {
	s.mu.Lock()
	defer s.mu.Unlock()
	return lastDay(now, s.past[source], s.pending[source])
}

// load reads the last day of all Sources. What was read before stays where that fails.
func (s *sampler) load(ctx context.Context) error {
	now := store.MicrosOf(s.now())
	points, err := s.st.Points(ctx, 0, store.Hour, now-(hours-1)*3600e6-now%3600e6, now+1)
	if err != nil {
		return err
	}
	past := map[int64][]store.Point{}
	for _, p := range points {
		past[p.SourceID] = append(past[p.SourceID], p)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.past = past
	return nil
}

// flush writes down what has come together, also when ctx has ended. What cannot be written waits for the next time.
func (s *sampler) flush(ctx context.Context) error {
	s.mu.Lock()
	points := slices.Collect(maps.Values(s.pending))
	clear(s.pending)
	s.mu.Unlock()
	if len(points) == 0 {
		return nil
	}
	// A write that is broken off may have been carried out, and would count twice when it is tried again.
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTime)
	defer cancel()
	err := s.st.AddPoints(whole, points)
	if err == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range points { // the older one's instant stands for both
		newer := s.pending[p.SourceID]
		p.Add(&newer)
		s.pending[p.SourceID] = p
	}
	return err
}

// sample writes the history until ctx ends, and then what is left of it. It also tells of clocks that jump (F15, F16):
// times in the history, leases and the trash go by the wall clock.
func (d *Daemon) sample(ctx context.Context) error {
	clock := newClockWatch(d.o.Now(), time.Now())
	written, failing := time.Now(), false
	d.loadDay(ctx)
	_ = every(ctx, clockEvery, func() error { // which never fails
		if jump := clock.look(d.o.Now(), time.Now()); jump != 0 {
			d.clockJumped(ctx, jump)
		}
		if time.Since(written) < sampleEvery {
			return nil
		}
		written = time.Now()
		err := d.sampler.flush(ctx)
		d.stateTroublesOnce(ctx, err, &failing, "the history cannot be written; it waits")
		if err == nil {
			d.loadDay(ctx)
		}
		return nil
	})
	if err := d.sampler.flush(ctx); err != nil {
		d.o.Log.Warn("the history of the last minute is lost", logging.Err(err))
	}
	return nil
}

// loadDay has pages show the day that ends now, as it is written.
func (d *Daemon) loadDay(ctx context.Context) {
	d.stateTroubles(ctx, d.sampler.load(ctx), "the history of the last day cannot be read; it is tried again")
}

// writeTime is how long a write may take, also the last one: other writes go before it, so a short time would tell of
// failures that are none.
const writeTime = 10 * time.Second

func (d *Daemon) clockJumped(ctx context.Context, by time.Duration) {
	d.metrics.Count(console.ClockJumps, "", "", 1)
	what := "the wall clock was set forward, or the machine slept"
	if by < 0 {
		what = "the wall clock was set back"
	}
	d.o.Log.Warn(what, "by", by.Round(time.Second))
	d.loadDay(ctx)
	d.board.changedAll()
}

// clockWatch holds the wall clock against the monotonic one.
type clockWatch struct{ wall, steady time.Time }

func newClockWatch(wall, steady time.Time) *clockWatch { return &clockWatch{wall.Round(0), steady} }

// look is how far the wall clock jumped since the last look, 0 for nothing worth telling.
func (c *clockWatch) look(wall, steady time.Time) time.Duration {
	wall = wall.Round(0) // a time of time.Now would be compared by its monotonic reading
	jump := wall.Sub(c.wall) - steady.Sub(c.steady)
	c.wall, c.steady = wall, steady
	if jump.Abs() < clockJump {
		return 0
	}
	return jump
}

const hours = 24

// hourOf numbers hours since 1970.
func hourOf(m store.Micros) int64 { return int64(m) / (3600 * 1e6) }

// lastDay is the day that ends at now by the hour.
func lastDay(now time.Time, past []store.Point, waiting store.Point) []store.Point {
	last := hourOf(store.MicrosOf(now))
	sums := make([]store.Point, hours)
	for _, p := range append(past[:len(past):len(past)], waiting) {
		if ago := last - hourOf(p.At); ago >= 0 && ago < hours {
			sums[hours-1-ago].Add(&p)
		}
	}
	return sums
}
