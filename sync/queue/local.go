package queue

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// LocalOptions are the knobs of a Local; the zero value is a good one.
type LocalOptions struct {
	// Slots is how many slotted jobs (pull, framework, scrub) run at the same time; 0 means 16.
	Slots int
	// Patience is how long a slotted Job keeps its slot. One that takes longer waits for its peer more than it computes: it
	// runs on, aside, and its slot goes to the next Source. So fifty dead Sources hold a healthy one's pull up for a few
	// seconds once, not for minutes. 0 means 2 s.
	Patience time.Duration
	// Aside is how many jobs may run on without a slot; with that many aside, the others keep their slots. Slots + Aside
	// bounds what all pulls need at the same time. 0 means 64.
	Aside int
	// Failed is told of each failed Job, its failures in a row and when it is repeated (the zero time: not at all, it was
	// dropped meanwhile), to log and count it. It is called in the goroutine of the work. nil: nobody is told.
	Failed func(j Job, failures int, again time.Time, err error)
	// Now is the clock, nil for time.Now.
	Now func() time.Time
}

// Local is the Queue of one process, in memory. It forgets with the process, which loses nothing: all that is to be done is
// in the store (inbox rows, open gaps, owed resources, requests, the time of the last pull), and the daemon puts it again
// at its start.
type Local struct {
	options LocalOptions
	wake    chan struct{} // something in touched

	mu      sync.Mutex
	lanes   map[int64]*lane
	touched []int64   // to be looked at, in order
	timer   time.Time // when all are to be looked at
	active  bool
	slots   int     // free
	aside   int     // jobs that run aside
	asking  []*lane // wait for a slot
	holding []*lane // have one
}

var _ Queue = (*Local)(nil)

// NewLocal makes an empty Local.
func NewLocal(o LocalOptions) *Local {
	if o.Slots <= 0 {
		o.Slots = 16
	}
	if o.Patience <= 0 {
		o.Patience = 2 * time.Second
	}
	if o.Aside <= 0 {
		o.Aside = 64
	}
	if o.Failed == nil {
		o.Failed = func(Job, int, time.Time, error) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Local{options: o, wake: make(chan struct{}, 1), lanes: map[int64]*lane{}, slots: o.Slots}
}

// Put implements Queue. It fails for a Job without a Kind only, and takes jobs even after ctx ended, so that what ends with
// the process need not care.
func (q *Local) Put(_ context.Context, j Job) error {
	if j.Kind == "" {
		return fmt.Errorf("queue a job of source %d: it has no kind", j.Source)
	}
	now := q.options.Now()
	if j.Due.IsZero() {
		j.Due = now
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lanes[j.Source]
	if l == nil {
		l = &lane{}
		q.lanes[j.Source] = l
	}
	l.put(j, now)
	q.touch(j.Source, l)
	return nil
}

// Drop implements Queue. It never fails.
func (q *Local) Drop(_ context.Context, source int64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lanes[source]
	if l == nil {
		return nil
	}
	l.waiting = nil
	if !l.running.Slotted() {
		q.leave(l)
	}
	if l.running != "" {
		l.dropped = true
		return nil
	}
	delete(q.lanes, source)
	return nil
}

// Run implements Queue. A second Run beside the first is refused.
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

// carryOut does one Job and records how it ended.
func (q *Local) carryOut(ctx context.Context, e entry, work func(context.Context, Job) error) {
	err := guarded(ctx, e.Job, work)
	_, panicked := errors.AsType[*PanicError](err)
	if failures, again := q.done(e, err, ctx.Err() != nil && !panicked); failures > 0 {
		q.options.Failed(e.Job, failures, again, err)
	}
}

// guarded is work that does not take the process with it (F5).
func guarded(ctx context.Context, j Job, work func(context.Context, Job) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return work(ctx, j)
}
