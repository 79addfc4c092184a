package queue

import (
	"cmp"
	"slices"
	"time"

	"resyncd/destination/backoff"
)

// Kind names the work for a Source.
type Kind string

// The kinds of jobs.
const (
	KindNotify    Kind = "notify"
	KindGap       Kind = "gap"
	KindFramework Kind = "framework" // read documents that a Framework Notification named
	KindRequest   Kind = "request"
	KindPull      Kind = "pull"
	KindConclude  Kind = "conclude" // end runs, retention, trash
	KindScrub     Kind = "scrub"    // hash mirror files again
)

// urgency is the order of jobs that are due in the same second.
var urgency = [...]Kind{
	KindNotify, KindGap, KindFramework, KindRequest, KindPull, KindConclude, KindScrub,
}

func (k Kind) rank() int {
	if i := slices.Index(urgency[:], k); i >= 0 {
		return i
	}
	return len(urgency)
}

// Slotted reports whether jobs of the Kind share slots over all Sources: those that read whole lists or hash whole
// mirrors.
func (k Kind) Slotted() bool { return k == KindPull || k == KindFramework || k == KindScrub }

// Job is one piece of work. Source and Kind are its identity.
type Job struct {
	Source int64
	Kind   Kind
	// Due is when the Job may run, zero for at once, by the wall clock or the monotonic one, whichever comes first
	// (F16).
	Due time.Time
}

func compare(a, b Job) int {
	return cmp.Or(
		cmp.Compare(a.Due.Unix(), b.Due.Unix()),
		cmp.Compare(a.Kind.rank(), b.Kind.rank()),
		cmp.Compare(a.Kind, b.Kind),
	)
}

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

// lane is the work for one Source.
type lane struct {
	waiting []entry
	pulls   *pulls // nil without a Schedule
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

func (l *lane) put(j Job, now time.Time) { l.add(entry{Job: j, ripe: remaining(j.Due, now) <= 0}) }

// add merges e with the entry of its kind that waits already: the earlier Due counts.
func (l *lane) add(e entry) *entry {
	for i := range l.waiting {
		if put := &l.waiting[i]; put.Kind == e.Kind {
			put.ripe, put.failures = put.ripe || e.ripe, max(put.failures, e.failures)
			if e.Due.Before(put.Due) {
				put.Due = e.Due
			}
			if e.floor.After(put.floor) {
				put.floor = e.floor
			}
			return put
		}
	}
	l.waiting = append(l.waiting, e)
	return &l.waiting[len(l.waiting)-1]
}

func (l *lane) failed(e entry, now time.Time) (again time.Time) {
	e.failures++
	pause := backoff.Jittered(backoff.Doubled(backOffBase, e.failures, backOffMost), 4)
	e.Due, e.ripe, e.floor = now.Add(pause), false, now.Add(min(pause, backOffBase))
	put := l.add(e)
	if put.Due.Before(put.floor) {
		return put.floor
	}
	return put.Due
}

// pull puts a planned pull that is due, and returns how long the next one is away.
func (l *lane) pull(source int64, now time.Time, setBack bool) time.Duration {
	p, at := l.pulls, wall(now)
	if p == nil {
		return forever
	}
	if setBack {
		p.setBack(at)
	}
	p.catchUp(at)
	if due, ok := p.take(at); ok {
		l.put(Job{Source: source, Kind: KindPull, Due: due}, now)
	}
	if next := p.next(); !next.IsZero() {
		return max(0, next.Sub(at))
	}
	return forever
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
