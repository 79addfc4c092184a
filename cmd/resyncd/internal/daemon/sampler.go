package daemon

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/console"
	"resyncd/cmd/resyncd/internal/logging"
	"resyncd/store"
	"resyncd/sync/queue"
	"resyncd/sync/report"
)

const (
	sampleEvery = time.Minute
	// clockEvery is how often the wall clock is held against the monotonic one; a difference of clockJump is told.
	clockEvery = 15 * time.Second
	clockJump  = 10 * time.Second
	// writeTime is how long a write may take, also the last one: other writes go before it, so a short time would tell
	// of failures that are none.
	writeTime = 10 * time.Second

	tidyEvery  = time.Hour
	tidyFirst  = time.Minute // after the start, which has enough to do
	tidyPause  = 100 * time.Millisecond
	scrubEvery = 10 * time.Minute
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

// maintain keeps the database small, until ctx ends.
func (d *Daemon) maintain(ctx context.Context) error {
	for pause := tidyFirst; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		more, err := d.st.Tidy(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, store.ErrCorrupt):
			return err
		case err != nil:
			d.stateTroubles(ctx, err, "housekeeping failed; tried again in an hour")
			pause = tidyEvery
		case more:
			pause = tidyPause
		default:
			pause = tidyEvery
		}
	}
}

// scrub has each Source's mirror looked at slowly, all spread over the pause between two turns (F13).
func (d *Daemon) scrub(ctx context.Context) error {
	return every(ctx, scrubEvery, func() error {
		var ids []int64
		for _, r := range d.sources.all() {
			if s := r.current(); s != nil {
				ids = append(ids, s.f.SourceID())
			}
		}
		slices.Sort(ids)
		for i, id := range ids {
			d.jobs.put(id, queue.KindScrub, time.Now().Add(scrubEvery*time.Duration(i)/time.Duration(len(ids))))
		}
		return nil
	})
}

// schedule has a Source pulled when its schedule says so. It is pulled now, which is reported, if it never was or a
// pull fell due meanwhile.
func (d *Daemon) schedule(ctx context.Context, id int64, src *config.Source) (now bool) {
	last, err := d.lastPull(ctx, id)
	if err != nil && ctx.Err() == nil {
		d.o.Log.Warn("when a Source was last pulled is not known; it is pulled now", logging.KeySource, src.Name,
			logging.Err(err))
	}
	if at := d.o.Now(); last.IsZero() || !src.Schedule.Next(last).After(at) {
		d.jobs.put(id, queue.KindPull, time.Time{})
		now, last = true, at
	}
	d.jobs.Plan(id, src.Name, src.Schedule, last)
	d.hubs.pace(id, false) // a hub that was lost before this run is still lost
	return now
}

// lastPull is when the Source was last pulled as a whole, the zero time for never.
func (d *Daemon) lastPull(ctx context.Context, id int64) (time.Time, error) {
	sets, err := d.st.Sets(ctx, id)
	if err != nil || len(sets) == 0 {
		return time.Time{}, err
	}
	first := store.NoTime
	for i := range sets {
		if sets[i].Gone > 0 { // no longer offered
			continue
		}
		if !sets[i].LastPull.Known() {
			return time.Time{}, nil
		}
		first = store.Earliest(first, sets[i].LastPull)
	}
	return first.Time(), nil
}

// jobs is when work on Sources runs.
type jobs struct{ *queue.Local }

func (j jobs) put(id int64, kind queue.Kind, due time.Time) {
	j.Put(queue.Job{Source: id, Kind: kind, Due: due})
}

// work carries out one job of the queue.
func (d *Daemon) work(ctx context.Context, j queue.Job) error {
	if r := d.sources.of(j.Source); r != nil {
		return r.work(ctx, j.Kind)
	}
	return nil
}

func (d *Daemon) jobFailed(j queue.Job, failures int, again time.Time, err error) {
	name := "a forgotten Source"
	if r := d.sources.of(j.Source); r != nil {
		name = r.name
		d.metrics.Count(console.JobFailures, name, string(j.Kind), 1)
		d.board.changed(name)
	}
	if ofState(err) {
		d.stateFailed(err)
		// Its disk may be well again long before the queue's own pause is over (F7).
		if soon := d.o.Now().Add(tryAgain); again.After(soon) {
			again = soon
			d.jobs.put(j.Source, j.Kind, soon)
		}
	}
	d.parts.logPanic(err)
	level := slog.LevelWarn
	if errors.Is(err, report.ErrNothingYet) { // its Follower has told why
		level = slog.LevelDebug
	}
	d.o.Log.Log(context.Background(), level, "work on a Source failed and is tried again", logging.KeySource, name,
		logging.KeyJob, string(j.Kind), "failures", failures, "again", again, logging.Err(err))
}
