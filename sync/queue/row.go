package queue

import (
	"hash/fnv"
	"time"
)

const (
	putAgain = 5 * time.Second
	// jitterShare and jitterMost bound the distance from the grid, by the time to the run after.
	jitterShare = 10
	jitterMost  = time.Minute
	catchUpMost = 10 * time.Second
)

type row struct {
	schedule Schedule
	part     float64
	anchor   time.Time // the next run counts from here; zero: never pulled
	grid     time.Time
	at       time.Time // grid and the Source's distance
	missed   bool      // the run makes up for missed ones
	last     time.Time
	every    time.Duration
	again    time.Time // the repetition of a failed put
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

func (r *row) plan(now time.Time) {
	switch {
	case !r.anchor.IsZero():
		r.aim(r.after(r.anchor))
	case !r.missed:
		r.aim(now)
		r.at = now
	}
	r.catchUp(now)
}

func (r *row) aim(grid time.Time) {
	if r.missed {
		return // the missed run goes first
	}
	r.grid, r.at = grid, r.off(grid, jitterMost)
}

func (r *row) catchUp(now time.Time) {
	if r.missed || r.at.IsZero() || !r.at.Before(now.Add(-glance)) {
		return
	}
	r.missed, r.at = true, r.off(now, catchUpMost)
}

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

// after is the run after t, or zero. A Schedule that does not go forwards ends here, not in a loop.
func (r *row) after(t time.Time) time.Time {
	next := r.schedule.Next(t)
	if next.IsZero() || !next.After(t) {
		return time.Time{}
	}
	return next.Round(0).UTC()
}

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

func (r *row) take(now time.Time) (since time.Time, ok bool) {
	since = r.next()
	if since.IsZero() || since.After(now) {
		return since, false
	}
	if !r.at.IsZero() && !r.at.After(now) {
		r.missed, r.anchor = false, r.grid
		next := r.after(r.anchor)
		if !next.IsZero() && !next.After(now) { // missed as well: one pull will do
			r.anchor = now
			next = r.after(now)
		}
		r.aim(next)
	}
	r.last, r.again = now, time.Time{}
	return since, true
}
