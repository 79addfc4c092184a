package queue

import (
	"slices"
	"time"

	"resyncd/destination/backoff"
)

// Failed jobs are repeated after backOffBase, doubling up to backOffMost, less up to a quarter.
const (
	backOffBase = time.Second
	backOffMost = 5 * time.Minute
)

type entry struct {
	Job
	ripe     bool      // due once; a clock set back does not change that
	failures int       // in a row
	floor    time.Time // the earliest time after a failure
}

// wait is how long e still waits. The earlier clock counts: the monotonic one stops in suspend, the wall clock may be
// set.
func (e *entry) wait(now time.Time) time.Duration {
	if !e.ripe {
		d := remaining(e.Due, now)
		if d > 0 {
			return d
		}
		e.ripe = true
	}
	return max(0, remaining(e.floor, now))
}

func remaining(t, now time.Time) time.Duration {
	return min(t.Sub(now), t.Round(0).Sub(now.Round(0)))
}

type lane struct {
	waiting []entry
	listed  bool
	running Kind
	dropped bool // not wanted any more

	// A lane asks for a slot when a job needs it and gets it even while it runs something else, so that notifications
	// cannot keep a pull out.
	asked time.Time     // since when it waits for a slot
	cost  time.Duration // of the last slot, at most costMost
	seat  seat
	since time.Time
}

type seat uint8

const (
	seatNone seat = iota
	seatSlot
	seatAside
)

func (l *lane) put(j Job, now time.Time) {
	for i := range l.waiting {
		if e := &l.waiting[i]; e.Kind == j.Kind {
			if remaining(j.Due, now) <= 0 {
				e.ripe = true
			}
			if j.Due.Before(e.Due) {
				e.Due = j.Due
			}
			return
		}
	}
	l.waiting = append(l.waiting, entry{Job: j, ripe: remaining(j.Due, now) <= 0})
}

func (l *lane) failed(e entry, now time.Time) time.Time {
	e.failures++
	pause := backoff.Jittered(backoff.Doubled(backOffBase, e.failures, backOffMost), 4)
	e.Due, e.ripe, e.floor = now.Add(pause), false, now.Add(min(pause, backOffBase))
	return l.back(e)
}

func (l *lane) back(e entry) time.Time {
	i := slices.IndexFunc(l.waiting, func(put entry) bool { return put.Kind == e.Kind })
	if i < 0 {
		l.waiting = append(l.waiting, e)
		return e.Due
	}
	put := &l.waiting[i]
	put.failures, put.floor, put.ripe = e.failures, e.floor, e.ripe || put.ripe
	if e.Due.Before(put.Due) {
		put.Due = e.Due
	}
	if put.Due.Before(put.floor) {
		return put.floor
	}
	return put.Due
}

func (l *lane) next(now time.Time, slotted bool) (first int, soon time.Duration) {
	first, soon = -1, forever
	for i := range l.waiting {
		e := &l.waiting[i]
		if wait := e.wait(now); wait > 0 {
			soon = min(soon, wait)
			continue
		}
		if (slotted || !e.Kind.Slotted()) && (first < 0 || compare(e.Job, l.waiting[first].Job) < 0) {
			first = i
		}
	}
	return first, soon
}

func (l *lane) take(i int) entry {
	e := l.waiting[i]
	l.waiting = slices.Delete(l.waiting, i, i+1)
	l.running = e.Kind
	return e
}
