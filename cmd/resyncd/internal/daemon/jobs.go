package daemon

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"resyncd/cmd/resyncd/internal/console"
	"resyncd/cmd/resyncd/internal/logging"
	"resyncd/sync/queue"
	"resyncd/sync/report"
)

// jobs are when work on Sources runs: the queue and the schedule that fills it.
type jobs struct {
	queue *queue.Local
	table *queue.Timetable
}

func newJobs(now func() time.Time, failed func(queue.Job, int, time.Time, error)) *jobs {
	q := queue.NewLocal(queue.LocalOptions{Now: now, Failed: failed})
	return &jobs{queue: q, table: queue.NewTimetable(queue.TimetableOptions{Put: q.Put, Now: now})}
}

// put asks for a job; a Local takes any that has a kind.
func (j *jobs) put(id int64, kind queue.Kind, due time.Time) {
	_ = j.queue.Put(context.Background(), queue.Job{Source: id, Kind: kind, Due: due})
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
