package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"resyncd/destination/safe"
)

// LocalOptions configure a Local; the zero value will do.
type LocalOptions struct {
	// Slots is how many slotted jobs run at once; 0 means 16.
	Slots int
	// Patience is how long a slotted Job keeps its slot, so that dead Sources do not hold up a healthy one's pull. Then
	// it runs on, aside; 0 means 2 s.
	Patience time.Duration
	// Aside bounds the jobs that run on without a slot; 0 means 64.
	Aside int
	// Failed gets each failed Job, its failures in a row and the time of its repetition (zero: none). May be nil.
	Failed func(j Job, failures int, again time.Time, err error)
	// Now is the clock, nil for time.Now.
	Now func() time.Time
}

// Local says when jobs run, for concurrent use. The daemon puts them again from the store after a restart.
//
// Identity: one Job waits for a Source and a Kind, with the earlier Due. A Put while it runs makes it run again, to
// see whatever was recorded before the Put.
//
// Order: one job of a Source runs at a time (one writer per Source), by Due, within a second by kind.
//
// Fairness: a blocked Source holds up no other. Only slotted kinds share slots, which Sources get in turn.
//
// Failure: a failed or panicked Job (F5) is repeated after 1 s, doubling to 5 min, until it succeeds or is dropped. A
// Put brings the repetition forward, but not to within a second. Work that fails because ctx ended waits for the next
// Run.
type Local struct {
	options LocalOptions
	wake    chan struct{}

	mu      sync.Mutex
	lanes   map[int64]*lane
	touched []int64
	timer   time.Time
	active  bool
	slots   int
	aside   int
	asking  []*lane
	holding []*lane
}

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

// Put asks for a Job, even after ctx ended. It fails only for a Job without a Kind.
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

// Drop forgets the waiting jobs of a Source; a running one is not repeated unless Put again. Drop does not wait, so
// work may drop its own Source.
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
