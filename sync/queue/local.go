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

// Local says when and where jobs of this process run. It forgets with the process, which loses nothing: all that is to be
// done is in the store (inbox rows, open gaps, owed resources, requests, the time of the last pull), and the daemon puts it
// again at its start. Its methods are safe for concurrent use, also from within work.
//
// Identity: there is at most one waiting Job for a Source and a Kind; a Put of an equal one keeps the earlier Due. A Put
// while that Job runs makes it run again afterwards, so whatever was recorded before a Put is seen by a run after it.
//
// Order: jobs of one Source never run at the same time (one writer per Source). Of those whose time has come and that need
// not wait for a slot, the first by Due goes next; within a second notify goes before gap before framework before request
// before pull before conclude before scrub. No kind starves: its Due grows old.
//
// Fairness: every Source with work runs in a place of its own, so a Source whose jobs block for minutes holds up nobody's
// notifications, gaps and requests. Only slotted kinds (pull, framework, scrub) share a limited number of slots, which
// Sources get in turn; see LocalOptions for what happens to those who keep theirs. A job that waits for a slot is overtaken by
// jobs of its Source that need none.
//
// Failure: a Job whose work returns an error, or panics (F5), is repeated after 1 s, doubling to 5 min, with jitter, until
// it succeeds or is dropped. A Put meanwhile brings the repetition forward, yet not to within a second of the failure. Work
// that fails because ctx ended has not failed; its Job waits for the next Run.
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

// Put asks for a Job. It fails for a Job without a Kind only, and takes jobs even after ctx ended, so that what ends with
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

// Drop forgets all waiting jobs of a Source. One that runs is left to end and not repeated, unless it is Put again. Drop
// does not wait for that end, so work may drop its own Source. It never fails.
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

// Run carries out jobs with work, each in a goroutine of its own, until ctx ended and all work returned; it returns nil
// then. work gets ctx and must heed it. Jobs that were put before Run wait for it. A second Run beside the first is refused.
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
	err := Guarded(func() error { return work(ctx, e.Job) })
	_, panicked := errors.AsType[*PanicError](err)
	if failures, again := q.done(e, err, ctx.Err() != nil && !panicked); failures > 0 {
		q.options.Failed(e.Job, failures, again, err)
	}
}

// Guarded is work that does not take the process with it (F5): a panic is a *PanicError.
func Guarded(work func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return work()
}
