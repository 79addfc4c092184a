package queue

import (
	"hash/fnv"
	"time"
)

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
