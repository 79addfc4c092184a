package queue

import (
	"cmp"
	"hash/fnv"
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
	KindPull      Kind = "pull"
	KindConclude  Kind = "conclude" // end runs, retention, trash
	KindScrub     Kind = "scrub"    // hash mirror files again
)

// urgency is the order of jobs that are due in the same second.
var urgency = [...]Kind{KindNotify, KindGap, KindFramework, KindPull, KindConclude, KindScrub}

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

// wait is how long e still waits. The earlier clock counts: the monotonic one stops in suspend.
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

const (
	// jitterShare and jitterMost bound the distance from the grid, by the time to the run after.
	jitterShare = 10
	jitterMost  = time.Minute
	catchUpMost = 10 * time.Second
)

// Schedule says when something is due. Next returns a later time, or zero for none.
type Schedule interface {
	Next(after time.Time) time.Time
}

// pulls is when a Source is pulled.
type pulls struct {
	schedule Schedule
	part     float64
	anchor   time.Time // the next run counts from here; zero: never pulled
	grid     time.Time
	at       time.Time // grid and the Source's distance
	missed   bool      // the run makes up for missed ones
	last     time.Time
	every    time.Duration // of the pulls between, 0 for none
}

func newPulls(now, last time.Time) *pulls {
	p := &pulls{last: now}
	if !last.IsZero() && !last.After(now) { // a time to come is a wrong clock's
		p.last, p.anchor = wall(last), wall(last)
	}
	return p
}

func partOf(name string) float64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	x := h.Sum64()
	x ^= x >> 33 // FNV leaves the high bits of short names close together
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return float64(x>>11) / (1 << 53)
}

func (p *pulls) plan(now time.Time) {
	switch {
	case !p.anchor.IsZero():
		p.aim(p.after(p.anchor))
	case !p.missed:
		p.aim(now)
		p.at = now
	}
	p.catchUp(now)
}

func (p *pulls) aim(grid time.Time) {
	if p.missed {
		return // the missed run goes first
	}
	p.grid, p.at = grid, p.off(grid, jitterMost)
}

func (p *pulls) catchUp(now time.Time) {
	if p.missed || p.at.IsZero() || !p.at.Before(now.Add(-glance)) {
		return
	}
	p.missed, p.at = true, p.off(now, catchUpMost)
}

func (p *pulls) setBack(now time.Time) {
	if p.last.After(now) {
		p.last = now
	}
	if p.anchor.After(now) {
		p.anchor = now
	}
	switch {
	case p.missed:
		p.at = p.off(now, catchUpMost)
		p.grid = p.at
		return
	case p.anchor.IsZero():
		p.grid, p.at = now, now
		return
	}
	if grid := p.after(now); p.at.After(now) && !grid.IsZero() && grid.Before(p.grid) {
		p.aim(grid)
	}
}

// after is the run after t, or zero. A Schedule that does not go forwards ends here, not in a loop.
func (p *pulls) after(t time.Time) time.Time {
	next := p.schedule.Next(t)
	if next.IsZero() || !next.After(t) {
		return time.Time{}
	}
	return wall(next)
}

func (p *pulls) off(grid time.Time, most time.Duration) time.Time {
	if grid.IsZero() {
		return grid
	}
	distance := most
	if next := p.after(grid); !next.IsZero() {
		distance = min(most, next.Sub(grid)/jitterShare)
	}
	return grid.Add(time.Duration(p.part * float64(distance)))
}

func (p *pulls) next() time.Time {
	if p.every > 0 {
		if between := p.last.Add(p.every); p.at.IsZero() || between.Before(p.at) {
			return between
		}
	}
	return p.at
}

func (p *pulls) take(now time.Time) (since time.Time, ok bool) {
	since = p.next()
	if since.IsZero() || since.After(now) {
		return since, false
	}
	if !p.at.IsZero() && !p.at.After(now) {
		p.missed, p.anchor = false, p.grid
		next := p.after(p.anchor)
		if !next.IsZero() && !next.After(now) { // missed as well: one pull will do
			p.anchor = now
			next = p.after(now)
		}
		p.aim(next)
	}
	p.last = now
	return since, true
}
