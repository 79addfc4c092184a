package queue

import (
	"hash/fnv"
	"time"
)

const (
	// putAgain is the pause after a pull that could not be put.
	putAgain = 5 * time.Second
	// jitterShare and jitterMost bound how far a Source keeps from the grid: a tenth of the distance to the run after.
	jitterShare = 10
	jitterMost  = time.Minute
	// catchUpMost bounds the same for a run that was missed: it is late already.
	catchUpMost = 10 * time.Second
)

// row is one Source's line of the timetable. Its times are wall clock, UTC.
type row struct {
	schedule Schedule
	part     float64       // 0 <= part < 1, by the Source's name
	anchor   time.Time     // place on the grid, or pull, from which the next run is counted; zero: never pulled
	grid     time.Time     // place of the next run on the grid, zero for none
	at       time.Time     // the next run: grid and the Source's distance from it
	missed   bool          // that run makes up for missed ones
	last     time.Time     // when a pull was last put
	every    time.Duration // the shortened interval, 0 for none
	again    time.Time     // when a pull that could not be put comes again
}

// partOf spreads names evenly over [0, 1), the same way every time.
func partOf(name string) float64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	x := h.Sum64()
	x ^= x >> 33 // FNV alone leaves the high bits of short names close together
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return float64(x>>11) / (1 << 53)
}

// plan derives the next run from the anchor.
func (r *row) plan(now time.Time) {
	switch {
	case !r.anchor.IsZero():
		r.aim(r.after(r.anchor))
	case !r.missed:
		r.aim(now)
		r.at = now // nobody wants to wait for the first one
	}
	r.catchUp(now)
}

// aim takes a place on the grid as the next run's.
func (r *row) aim(grid time.Time) {
	if r.missed {
		return // first what was missed, at the time that was said
	}
	r.grid, r.at = grid, r.off(grid, jitterMost)
}

// catchUp has a run that was missed, or several, made up for by one soon.
func (r *row) catchUp(now time.Time) {
	if r.missed || r.at.IsZero() || !r.at.Before(now.Add(-glance)) {
		return
	}
	r.missed, r.at = true, r.off(now, catchUpMost)
}

// setBack adapts to a clock that went back to now: no run is further away than if it were planned now.
func (r *row) setBack(now time.Time) {
	if r.last.After(now) {
		r.last = now
	}
	if soon := now.Add(putAgain); r.again.After(soon) {
		r.again = soon
	}
	if r.anchor.After(now) {
		r.anchor = now
	}
	switch {
	case r.missed:
		r.at = r.off(now, catchUpMost)
		r.grid = r.at
		return
	case r.anchor.IsZero():
		r.grid, r.at = now, now
		return
	}
	if grid := r.after(now); r.at.After(now) && !grid.IsZero() && grid.Before(r.grid) {
		r.aim(grid)
	}
}

// after is the run after a time, the zero time for none. A Schedule that does not go forwards ends here rather than in a
// loop.
func (r *row) after(t time.Time) time.Time {
	next := r.schedule.Next(t)
	if next.IsZero() || !next.After(t) {
		return time.Time{}
	}
	return next.Round(0).UTC()
}

// off is a run at the Source's own distance from its place on the grid.
func (r *row) off(grid time.Time, most time.Duration) time.Time {
	if grid.IsZero() {
		return grid
	}
	distance := most
	if next := r.after(grid); !next.IsZero() {
		distance = min(most, next.Sub(grid)/jitterShare)
	}
	return grid.Add(time.Duration(r.part * float64(distance)))
}

// next is the next pull, of the Schedule or of the shortened one; zero for none.
func (r *row) next() time.Time {
	next := r.at
	for _, t := range []time.Time{r.short(), r.again} {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	return next
}

func (r *row) short() time.Time {
	if r.every == 0 {
		return time.Time{}
	}
	return r.last.Add(r.every)
}

// take reports whether a pull is due, and since when; it is taken then, and the next one planned.
func (r *row) take(now time.Time) (since time.Time, ok bool) {
	since = r.next()
	if since.IsZero() || since.After(now) {
		return since, false
	}
	if !r.at.IsZero() && !r.at.After(now) {
		r.missed, r.anchor = false, r.grid
		next := r.after(r.anchor)
		if !next.IsZero() && !next.After(now) { // missed as well: one pull is enough for both
			r.anchor = now
			next = r.after(now)
		}
		r.aim(next)
	}
	r.last, r.again = now, time.Time{}
	return since, true
}
