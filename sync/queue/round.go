package queue

import (
	"math"
	"slices"
	"time"
)

const (
	forever = time.Duration(math.MaxInt64)
	// glance is the longest sleep: timers stop in suspend, and the wall clock may be set (F16).
	glance   = 30 * time.Second
	costMost = time.Minute
)

func (q *Local) touch(source int64, l *lane) {
	if l.running != "" || l.listed {
		return
	}
	l.listed = true
	q.touched = append(q.touched, source)
	q.signal()
}

func (q *Local) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// round decides what starts now and how long nothing else will. It looks at touched lanes, and at all when a Job may be
// due.
func (q *Local) round() (start []entry, pause time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.options.Now()
	look := q.touched
	for _, id := range look {
		if l := q.lanes[id]; l != nil {
			l.listed = false
		}
	}
	if remaining(q.timer, now) <= 0 {
		q.timer = now.Add(glance)
		for id := range q.lanes {
			look = append(look, id)
		}
	}
	run := func(l *lane, i int) { start = append(start, l.take(i)) }
	for _, id := range look {
		l := q.lanes[id]
		if l == nil || l.running != "" {
			continue
		}
		i, soon := l.next(now, true)
		if at := now.Add(min(soon, glance)); at.Before(q.timer) {
			q.timer = at
		}
		switch {
		case i < 0:
		case !l.waiting[i].Kind.Slotted() || l.seat != seatNone:
			run(l, i)
		case l.asked.IsZero():
			l.asked = now
			q.asking = append(q.asking, l)
		}
	}
	for _, l := range q.grant(now) {
		if i, _ := l.next(now, true); i >= 0 && l.running == "" {
			run(l, i)
		}
	}
	for _, id := range look {
		if l := q.lanes[id]; l != nil && l.running == "" {
			if i, _ := l.next(now, false); i >= 0 {
				run(l, i)
			}
		}
	}
	q.touched = look[:0]
	pause = min(glance, max(0, remaining(q.timer, now)))
	if len(q.asking) > 0 && q.aside < q.options.Aside {
		for _, l := range q.holding {
			pause = min(pause, max(0, q.options.Patience-now.Sub(l.since)))
		}
	}
	return start, pause
}

// grant gives free slots, and those kept too long, to the lanes that ask. The cost of a lane's last slot counts as
// later asking, so that quick ones go first and all get their turn.
func (q *Local) grant(now time.Time) (granted []*lane) {
	for len(q.asking) > 0 {
		if q.slots == 0 && !q.setAside(now) {
			break
		}
		best := 0
		for i, l := range q.asking {
			if l.asked.Add(l.cost).Before(q.asking[best].asked.Add(q.asking[best].cost)) {
				best = i
			}
		}
		l := q.asking[best]
		q.asking = slices.Delete(q.asking, best, best+1)
		l.asked, l.seat, l.since = time.Time{}, seatSlot, now
		q.slots--
		q.holding = append(q.holding, l)
		granted = append(granted, l)
	}
	return granted
}

func (q *Local) setAside(now time.Time) bool {
	if q.aside >= q.options.Aside || len(q.holding) == 0 || now.Sub(q.holding[0].since) < q.options.Patience {
		return false
	}
	q.holding[0].seat = seatAside
	q.holding = slices.Delete(q.holding, 0, 1)
	q.aside++
	q.slots++
	return true
}

func (q *Local) leave(l *lane) {
	switch l.seat {
	case seatSlot:
		q.holding = without(q.holding, l)
		q.slots++
	case seatAside:
		q.aside--
	case seatNone:
	}
	if !l.asked.IsZero() {
		q.asking = without(q.asking, l)
		l.asked = time.Time{}
	}
	l.seat = seatNone
	if len(q.asking) > 0 {
		q.signal()
	}
}

func without(ls []*lane, l *lane) []*lane {
	return slices.DeleteFunc(ls, func(other *lane) bool { return other == l })
}

// done records the end of a Job and returns its failures in a row. An interrupted Job waits for the next Run.
func (q *Local) done(e entry, err error, interrupted bool) (failures int, again time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.options.Now()
	l := q.lanes[e.Source]
	dropped := l.dropped
	l.running, l.dropped = "", false
	switch {
	case err == nil:
	case interrupted:
		if !dropped {
			l.back(e)
		}
	default:
		failures = e.failures + 1
		if !dropped {
			again = l.failed(e, now)
		}
	}
	if e.Kind.Slotted() {
		l.cost = min(costMost, now.Sub(l.since))
		q.leave(l)
	}
	if dropped && len(l.waiting) == 0 {
		delete(q.lanes, e.Source)
	}
	q.touch(e.Source, l)
	return failures, again
}
