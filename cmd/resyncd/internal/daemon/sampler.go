package daemon

import (
	"context"
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
	st   store.Chronicle
	now  func() time.Time
	told func(context.Context) // something was written

	mu      sync.Mutex
	pending map[int64]*store.Point // by Source
}

func newSampler(now func() time.Time) *sampler {
	return &sampler{now: now, told: func(context.Context) {}, pending: map[int64]*store.Point{}}
}

// add takes note of what happened just now; its At is set here.
func (s *sampler) add(p store.Point) {
	p.At = store.MicrosOf(s.now())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.merge(&p)
}

func (s *sampler) merge(p *store.Point) {
	if have := s.pending[p.SourceID]; have != nil {
		have.Add(p)
		return
	}
	s.pending[p.SourceID] = p
}

// waiting is what is not written yet for a Source; the zero point for nothing.
func (s *sampler) waiting(source int64) store.Point {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.pending[source]; p != nil {
		return *p
	}
	return store.Point{}
}

// flush writes down what has come together, also when ctx has ended. What cannot be written waits for the next time.
func (s *sampler) flush(ctx context.Context) error {
	s.mu.Lock()
	points := make([]store.Point, 0, len(s.pending))
	for _, p := range s.pending {
		points = append(points, *p)
	}
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
		s.told(whole)
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range points {
		// The older one's instant stands for both.
		if have := s.pending[points[i].SourceID]; have != nil {
			have.At = points[i].At
		}
		s.merge(&points[i])
	}
	return err
}

// sample writes the history until ctx ends, and then what is left of it. It also tells of clocks that jump (F15, F16):
// times in the history, leases and the trash go by the wall clock.
func (d *Daemon) sample(ctx context.Context) error {
	tick := time.NewTicker(clockEvery)
	defer tick.Stop()
	clock := newClockWatch(d.o.Now(), time.Now())
	written, failing := time.Now(), false
	for {
		select {
		case <-ctx.Done():
			if err := d.sampler.flush(ctx); err != nil {
				d.o.Log.Warn("the history of the last minute is lost", logging.Err(err))
			}
			return nil
		case <-tick.C:
		}
		if jump := clock.look(d.o.Now(), time.Now()); jump != 0 {
			d.clockJumped(ctx, jump)
		}
		if time.Since(written) < sampleEvery {
			continue
		}
		written = time.Now()
		err := d.sampler.flush(ctx)
		if err != nil && ctx.Err() == nil {
			d.stateFailed(err)
			if !failing { // told once, however long it lasts
				d.o.Log.Warn("the history cannot be written; it waits", logging.Err(err))
			}
		}
		failing = err != nil
	}
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
	d.board.loadDays(ctx) // of the day that ends now
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
