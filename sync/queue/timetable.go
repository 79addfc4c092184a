package queue

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// Schedule says when something is due. Next returns the first time after a time, always later than that, or the zero time
// if there is none. A checked cron spec is one.
type Schedule interface {
	Next(after time.Time) time.Time
}

// TimetableOptions are the knobs of a Timetable; Put is needed.
type TimetableOptions struct {
	// Put takes the pulls that are due, as Queue.Put does.
	Put func(ctx context.Context, j Job) error
	// Failed is told of a pull that could not be put; it is put again a few seconds later. nil: nobody is told.
	Failed func(source int64, err error)
	// Now is the wall clock, nil for time.Now.
	Now func() time.Time
}

// Timetable puts the safety-net pull of each Source into the queue when its Schedule says so (CONTRIBUTING.md 3.8). All in UTC.
//
// Runs form a grid: each is derived from the one before, never from when a pull really ran or ended, so nothing that
// happens meanwhile, pushes least of all, can postpone one. Each Source keeps its own small distance from the grid, taken
// from its name, so that forty Sources with one schedule do not start at the same time.
//
// The wall clock counts, looked at every half minute at least: a machine that was suspended, or whose clock was set, is
// back in step by then (F16). Runs that were missed meanwhile, or before the start, are caught up by one.
type Timetable struct {
	options TimetableOptions
	wake    chan struct{}

	mu   sync.Mutex
	seen time.Time // the wall clock when it was last looked at
	rows map[int64]*row
}

// NewTimetable makes an empty Timetable.
func NewTimetable(o TimetableOptions) *Timetable {
	if o.Failed == nil {
		o.Failed = func(int64, error) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	t := &Timetable{options: o, wake: make(chan struct{}, 1), rows: map[int64]*row{}}
	t.seen = t.now()
	return t
}

// now is the wall clock alone: with a monotonic reading, times would be compared by that, which stands still while the
// machine is suspended.
func (t *Timetable) now() time.Time { return t.options.Now().Round(0).UTC() }

// Set gives a Source its Schedule, or another one. last is when the Source was last pulled as a whole, the zero time for
// never: it is then pulled at once. It counts for a Source that is new here only; the others go on from their last run,
// and one whose Schedule is the same as before keeps its times.
func (t *Timetable) Set(source int64, name string, s Schedule, last time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	r := t.rows[source]
	if r == nil {
		r = &row{last: now}
		if !last.IsZero() && !last.After(now) { // one to come tells of a clock that was wrong, not of a pull
			r.last = last.Round(0).UTC()
			r.anchor = r.last
		}
		t.rows[source] = r
	}
	r.schedule, r.part = s, partOf(name)
	r.plan(now)
	t.signal()
}

// Remove ends the pulls of a Source. One that is in the Queue already stays there.
func (t *Timetable) Remove(source int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.rows, source)
}

// Shorten has a Source pulled every so often beside its Schedule, while its hub is suspect; 0 ends that. An interval below
// a second counts as a second.
func (t *Timetable) Shorten(source int64, every time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.rows[source]
	if r == nil {
		return
	}
	if r.every = 0; every > 0 {
		r.every = max(every, time.Second)
	}
	t.signal()
}

// Next is when a Source is pulled next, the zero time for never.
func (t *Timetable) Next(source int64) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.rows[source]
	if r == nil {
		return time.Time{}
	}
	return r.next()
}

// Run puts pulls until ctx ends; it returns nil then.
func (t *Timetable) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		due, pause := t.due()
		for _, d := range due {
			if err := t.options.Put(ctx, d.job); err != nil && ctx.Err() == nil {
				t.retry(d)
				t.options.Failed(d.job.Source, err)
				pause = min(pause, putAgain)
			}
		}
		timer.Reset(pause)
		select {
		case <-ctx.Done():
		case <-t.wake:
		case <-timer.C:
		}
	}
	return nil
}

// duty is a pull that is to be put.
type duty struct {
	job Job
	row *row
}

// due takes the pulls whose time has come, in order, and says how long nothing else will be due.
func (t *Timetable) due() (due []duty, pause time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	pause = glance
	setBack := now.Before(t.seen.Add(-glance))
	t.seen = now
	for source, r := range t.rows {
		if setBack {
			r.setBack(now)
		}
		r.catchUp(now)
		if at, ok := r.take(now); ok {
			due = append(due, duty{Job{Source: source, Kind: KindPull, Due: at}, r})
		}
		if next := r.next(); !next.IsZero() {
			pause = min(pause, max(0, next.Sub(now)))
		}
	}
	slices.SortFunc(due, func(a, b duty) int {
		return cmp.Or(a.job.Due.Compare(b.job.Due), cmp.Compare(a.job.Source, b.job.Source))
	})
	return due, pause
}

// retry has a pull that could not be put come again.
func (t *Timetable) retry(d duty) {
	t.mu.Lock()
	defer t.mu.Unlock()
	d.row.again = t.now().Add(putAgain)
}

func (t *Timetable) signal() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}
