package queue

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// Schedule says when something is due. Next returns a later time, or zero for none.
type Schedule interface {
	Next(after time.Time) time.Time
}

// TimetableOptions configure a Timetable; Put is needed.
type TimetableOptions struct {
	Put func(ctx context.Context, j Job) error
	// Failed gets failed puts, which are repeated. May be nil.
	Failed func(source int64, err error)
	// Now is the wall clock, nil for time.Now.
	Now func() time.Time
}

// Timetable puts the pull of each Source when its Schedule says so (CONTRIBUTING.md 3.8), in UTC.
//
// Each run derives from the one before, so that nothing can postpone one. Sources keep a small distance from the grid,
// or those with one schedule would start together.
//
// The wall clock is checked at least every half minute, after suspends and changes too (F16). One run makes up for all
// missed ones.
type Timetable struct {
	options TimetableOptions
	wake    chan struct{}

	mu   sync.Mutex
	seen time.Time
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

func (t *Timetable) now() time.Time { return t.options.Now().Round(0).UTC() }

// Set gives a Source its Schedule. last is its last whole pull, zero for never, which pulls at once; it counts for a
// new Source only.
func (t *Timetable) Set(source int64, name string, s Schedule, last time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	r := t.rows[source]
	if r == nil {
		r = &row{last: now}
		if !last.IsZero() && !last.After(now) { // a time to come is a wrong clock's
			r.last = last.Round(0).UTC()
			r.anchor = r.last
		}
		t.rows[source] = r
	}
	r.schedule, r.part = s, partOf(name)
	r.plan(now)
	t.signal()
}

// Remove ends the pulls of a Source, except one in the Queue.
func (t *Timetable) Remove(source int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.rows, source)
}

// Shorten has a Source pulled also every so often, a second at least, while its hub is suspect; 0 ends that.
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

// Next is the next pull of a Source.
func (t *Timetable) Next(source int64) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.rows[source]
	if r == nil {
		return time.Time{}
	}
	return r.next()
}

// Run puts pulls until ctx ends.
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

type duty struct {
	job Job
	row *row
}

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
