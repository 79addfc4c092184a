package daemon

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/console"
	"resyncd/cmd/resyncd/internal/logging"
	"resyncd/store"
	"resyncd/sync/queue"
	"resyncd/sync/report"
)

const (
	tidyEvery  = time.Hour
	tidyFirst  = time.Minute // after the start, which has enough to do
	tidyPause  = 100 * time.Millisecond
	scrubEvery = 10 * time.Minute
)

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

// put asks for a job; a Local takes any that has a kind.
func (j jobs) put(id int64, kind queue.Kind, due time.Time) {
	_ = j.Put(context.Background(), queue.Job{Source: id, Kind: kind, Due: due})
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
