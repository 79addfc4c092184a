package queue

import (
	"slices"
	"time"

	"resyncd/destination/backoff"
)

// Repetition of failed jobs: the first one after backOffBase, doubling up to backOffMost, less up to a
// quarter.
const (
	backOffBase = time.Second
	backOffMost = 5 * time.Minute
)

// entry is a Job that waits.
type entry struct {
	Job
	ripe     bool      // its time has come once; a clock set back does not take that away
	failures int       // in a row
	floor    time.Time // after a failure: not before this
}

// wait is how long e still waits at now, 0 if its time has come. Of the two clocks the one that says so first counts: the
// monotonic one stands still while the machine is suspended, the wall clock may be set back.
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

// lane is the work of one Source.
type lane struct {
	waiting []entry // few: one per kind
	listed  bool    // in Local.touched
	running Kind    // what runs, "" for nothing
	dropped bool    // while running: it is not wanted any more

	// Slots. A lane asks for one when the first of its jobs needs it, gets it even while it runs something else, so that a
	// stream of notifications cannot keep a pull out, and gives it back after the run.
	asked time.Time     // waits for a slot since; zero: it does not
	cost  time.Duration // how long it kept the slot the last time, a minute at most
	seat  seat
	since time.Time // when it got the seat
}

// seat is where the slotted Job of a lane is counted.
type seat uint8

const (
	seatNone  seat = iota
	seatSlot       // holds one of the slots
	seatAside      // runs for long; its slot went to another
)

// put adds a Job, or makes an equal one earlier.
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

// failed puts a Job back that failed once more, to wait longer, and returns when it is repeated.
func (l *lane) failed(e entry, now time.Time) time.Time {
	e.failures++
	pause := backoff.Jittered(backoff.Doubled(backOffBase, e.failures, backOffMost), 4)
	e.Due, e.ripe, e.floor = now.Add(pause), false, now.Add(min(pause, backOffBase))
	return l.back(e)
}

// back puts a Job back that has run, and returns when it is due. If it was put meanwhile, the earlier Due counts.
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

// next is the first waiting Job whose time has come, with or without those that need a slot; -1 if there is none. soon is
// how long the earliest of the others still waits, forever if there are none.
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

// take removes a waiting Job to run it.
func (l *lane) take(i int) entry {
	e := l.waiting[i]
	l.waiting = slices.Delete(l.waiting, i, i+1)
	l.running = e.Kind
	return e
}
