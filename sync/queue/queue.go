package queue

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"resyncd/destination/safe"
)

const (
	forever = time.Duration(math.MaxInt64)
	// glance is the longest sleep: timers stop in suspend, and the wall clock may be set (F16).
	glance   = 30 * time.Second
	costMost = time.Minute
)

// limits are of slotted jobs.
type limits struct {
	slots int // at once
	aside int // without a slot
	// patience is how long one keeps its slot, or dead Sources would hold up a healthy one. Then it runs on, aside.
	patience time.Duration
}

var usual = limits{slots: 16, aside: 64, patience: 2 * time.Second}

// LocalOptions configure a Local; the zero value will do.
type LocalOptions struct {
	// Failed gets each failed Job, its failures in a row and the time of its repetition (zero: none). May be nil.
	Failed func(j Job, failures int, again time.Time, err error)
	// Now is the clock, nil for time.Now.
	Now func() time.Time
}

// Local says when jobs run, for concurrent use.
type Local struct {
	options LocalOptions
	limits  limits
	wake    chan struct{}

	mu      sync.Mutex
	lanes   map[int64]*lane
	touched []int64
	timer   time.Time
	seen    time.Time // the wall clock at the last round
	active  bool
	slots   int
	aside   int
	asking  []*lane
	holding []*lane
}

// NewLocal makes an empty Local.
func NewLocal(o LocalOptions) *Local { return newLocal(o, usual) }

func newLocal(o LocalOptions, most limits) *Local {
	if o.Failed == nil {
		o.Failed = func(Job, int, time.Time, error) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	q := &Local{options: o, wake: make(chan struct{}, 1), lanes: map[int64]*lane{}, limits: most, slots: most.slots}
	q.seen = wall(o.Now())
	return q
}

func wall(t time.Time) time.Time { return t.Round(0).UTC() }

// Put asks for a Job. One without a Kind is none.
func (q *Local) Put(j Job) {
	if j.Kind == "" {
		return
	}
	now := q.options.Now()
	if j.Due.IsZero() {
		j.Due = now
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lane(j.Source)
	l.put(j, now)
	q.touch(j.Source, l)
}

func (q *Local) lane(source int64) *lane {
	l := q.lanes[source]
	if l == nil {
		l = &lane{}
		q.lanes[source] = l
	}
	return l
}

// Plan gives a Source its Schedule. last is its last whole pull, zero for never, which pulls at once; it counts for a
// new Source only.
func (q *Local) Plan(source int64, name string, s Schedule, last time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now, l := wall(q.options.Now()), q.lane(source)
	if l.pulls == nil {
		l.pulls = newPulls(now, last)
	}
	l.pulls.schedule, l.pulls.part = s, partOf(name)
	l.pulls.plan(now)
	q.touch(source, l)
}

// Shorten has a Source pulled also every so often, a second at least, while its hub is suspect; 0 ends that.
func (q *Local) Shorten(source int64, every time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lanes[source]
	if l == nil || l.pulls == nil {
		return
	}
	if l.pulls.every = 0; every > 0 {
		l.pulls.every = max(every, time.Second)
	}
	q.touch(source, l)
}

// Next is the next planned pull of a Source, zero for none.
func (q *Local) Next(source int64) time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	if l := q.lanes[source]; l != nil && l.pulls != nil {
		return l.pulls.next()
	}
	return time.Time{}
}

// Drop forgets the Schedule and the waiting jobs of a Source; a running one is not repeated unless Put again. Drop does
// not wait, so work may drop its own Source.
func (q *Local) Drop(source int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lanes[source]
	if l == nil {
		return
	}
	l.waiting, l.pulls = nil, nil
	if !l.running.Slotted() {
		q.leave(l)
	}
	if l.dropped = l.running != ""; !l.dropped {
		delete(q.lanes, source)
	}
}

// Run carries out jobs with work, each in its own goroutine, until ctx ended and all work returned; work must heed
// ctx. Run returns nil then. A second Run at the same time is refused.
func (q *Local) Run(ctx context.Context, work func(ctx context.Context, j Job) error) error {
	if err := q.begin(); err != nil {
		return err
	}
	var works sync.WaitGroup
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		start, pause := q.round()
		for _, e := range start {
			works.Go(func() { q.carryOut(ctx, e, work) })
		}
		timer.Reset(pause)
		select {
		case <-ctx.Done():
		case <-q.wake:
		case <-timer.C:
		}
	}
	works.Wait()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.active = false
	return nil
}

func (q *Local) begin() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.active {
		return errors.New("run the queue: it runs already")
	}
	q.active, q.timer = true, time.Time{}
	return nil
}

func (q *Local) carryOut(ctx context.Context, e entry, work func(context.Context, Job) error) {
	err := safe.Do(func() error { return work(ctx, e.Job) })
	_, panicked := errors.AsType[*safe.PanicError](err)
	if failures, again := q.done(e, err, ctx.Err() != nil && !panicked); failures > 0 {
		q.options.Failed(e.Job, failures, again, err)
	}
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
			l.add(e)
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
	if dropped && len(l.waiting) == 0 && l.pulls == nil {
		delete(q.lanes, e.Source)
	}
	q.touch(e.Source, l)
	return failures, again
}

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

// round decides what starts now and how long nothing else will. It looks at touched lanes, at all when one may be due.
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
	setBack := wall(now).Before(q.seen.Add(-glance))
	if q.seen = wall(now); setBack || remaining(q.timer, now) <= 0 {
		q.timer = now.Add(glance)
		for id := range q.lanes {
			look = append(look, id)
		}
	}
	run := func(l *lane, i int) { start = append(start, l.take(i)) }
	for _, id := range look {
		l := q.lanes[id]
		if l == nil {
			continue
		}
		soon := l.pull(id, now, setBack)
		if l.running == "" {
			i, wait := l.next(now, true)
			soon = min(soon, wait)
			switch {
			case i < 0:
			case !l.waiting[i].Kind.Slotted() || l.seat != seatNone:
				run(l, i)
			case l.asked.IsZero():
				l.asked = now
				q.asking = append(q.asking, l)
			}
		}
		if at := now.Add(min(soon, glance)); at.Before(q.timer) {
			q.timer = at
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
	if len(q.asking) > 0 && q.aside < q.limits.aside {
		for _, l := range q.holding {
			pause = min(pause, max(0, q.limits.patience-now.Sub(l.since)))
		}
	}
	return start, pause
}

// grant gives free slots, and those kept too long, to lanes that ask. The cost of the last slot counts as later asking,
// so that quick lanes go first.
func (q *Local) grant(now time.Time) (granted []*lane) {
	for len(q.asking) > 0 {
		if q.slots == 0 && !q.setAside(now) {
			break
		}
		l := slices.MinFunc(q.asking, func(a, b *lane) int { return a.asked.Add(a.cost).Compare(b.asked.Add(b.cost)) })
		q.asking = without(q.asking, l)
		l.asked, l.seat, l.since = time.Time{}, seatSlot, now
		q.slots--
		q.holding = append(q.holding, l)
		granted = append(granted, l)
	}
	return granted
}

func (q *Local) setAside(now time.Time) bool {
	if q.aside >= q.limits.aside || len(q.holding) == 0 || now.Sub(q.holding[0].since) < q.limits.patience {
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
