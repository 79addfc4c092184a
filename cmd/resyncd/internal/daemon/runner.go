package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/console"
	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/cmd/resyncd/internal/health"
	"resyncd/cmd/resyncd/internal/logging"
	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/destination/fetch"
	"resyncd/store"
	syncengine "resyncd/sync"
	"resyncd/sync/queue"
	"resyncd/sync/report"
)

// A Source that could not be worked on is tried again after tryFirst, doubling to tryAgain: its disk is not mounted
// (F12) or the state's is full (F7: it resumes within 30 s), another process holds it (F17), its claim was lost.
const (
	tryFirst = time.Second
	tryAgain = 15 * time.Second
)

// runner has one configured Source followed whenever that is possible (keep); jobs of the queue, requests and hubs come
// to it from elsewhere. A Source that is to be fetched in another way gets another runner.
type runner struct {
	d     *Daemon
	name  string
	src   atomic.Pointer[config.Source] // replaced where only what is agreed with hubs changed
	woken chan struct{}                 // look again
	part  *part                         // nil: not started yet
	seen  *sightings
	// warned of a hub that cannot reach us.
	warned atomic.Bool

	mu      sync.Mutex
	id      int64 // of the Source, 0: not known yet
	problem string
	run     *run // nil: nobody follows it now
}

func newRunner(d *Daemon, src config.Source) *runner {
	r := &runner{
		d: d, name: src.Name, woken: make(chan struct{}, 1),
		seen: &sightings{found: map[int64]string{}, gaps: map[int64]store.GapState{}},
	}
	r.src.Store(&src)
	return r
}

// known is the Source's number in the store. Without one nothing may be asked for: 0 stands for all Sources there.
func (r *runner) known() (int64, error) {
	r.mu.Lock()
	id := r.id
	r.mu.Unlock()
	if id == 0 {
		return 0, r.errIdle()
	}
	return id, nil
}

// errIdle says that nobody follows the Source at the moment, and why.
func (r *runner) errIdle() error {
	if problem := r.trouble(); problem != "" {
		return fmt.Errorf("the daemon cannot work on %s: %s", r.name, problem)
	}
	return &exit.Error{Code: exit.Held, Err: fmt.Errorf("the daemon does not work on %s just now", r.name)}
}

// set makes s the current run, nil for none.
func (r *runner) set(s *run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.run = s; s != nil {
		r.problem = ""
	}
}

func (r *runner) current() *run {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.run
}

func (r *runner) trouble() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.problem
}

func (r *runner) setProblem(text string) (news bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	news = r.problem != text
	r.problem = text
	return news
}

func (r *runner) wake() {
	offer(r.woken, struct{}{}) // else it will look
}

// stop ends the current run, if there is one, with err as its reason.
func (r *runner) stop(err error) {
	if s := r.current(); s != nil {
		offer(s.over, err) // else it is being told already
	}
}

// keep follows the Source whenever that is possible, until ctx ends. A Source that cannot be worked on stops no other.
func (r *runner) keep(ctx context.Context, first time.Duration) error {
	d := r.d
	for pause := first; ; {
		if !r.await(ctx, pause) {
			return nil
		}
		began := time.Now()
		err := r.follow(ctx)
		if time.Since(began) > pause { // it was well for a while
			pause = 0
		}
		d.board.changed(r.name)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, syncengine.ErrStopped):
			r.setProblem("")
			pause = forGood // until it is resumed
		case err == nil:
			pause = 0
		default:
			d.metrics.Count(console.SourceFailures, r.name, health.TroubleReason(err), 1)
			if problem := exit.Advised(err); r.setProblem(problem) { // told once, however long it lasts
				d.o.Log.Error("a Source cannot be worked on; it is tried again, at the latest every "+tryAgain.String(),
					logging.KeySource, r.name, "problem", logging.Redact(problem))
			}
			if ofState(err) {
				d.stateFailed(err)
			}
			pause = min(max(2*pause, tryFirst), tryAgain)
		}
	}
}

// forGood is a pause that only wake ends.
const forGood = time.Duration(-1)

// await waits for a pause or to be woken. It is false when ctx ended.
func (r *runner) await(ctx context.Context, pause time.Duration) bool {
	var due <-chan time.Time
	if pause >= 0 {
		due = time.After(pause)
	}
	select {
	case <-ctx.Done():
		return false
	case <-due:
	case <-r.woken:
	}
	return true
}

// follow works on the Source for one run: until ctx ends or it is told to stop (nil), or it cannot be worked on.
func (r *runner) follow(ctx context.Context) (err error) {
	d := r.d
	src := r.src.Load()
	o := mirror.Over(d.engine, mirror.Configured(d.sources.config(), *src))
	defer func() { err = errors.Join(err, o.Close()) }()
	known, err := d.st.EnsureSource(ctx, r.name, src.URL)
	if err != nil {
		return err
	}
	d.sources.bind(r, known.ID)
	d.keeper.SetSource(known.ID, plan(r.src.Load()))
	if known.Paused {
		return syncengine.ErrStopped
	}
	if known.Unclean {
		d.metrics.Count(console.UncleanStarts, r.name, "", 1)
	}
	if err := o.Identify(ctx); err != nil {
		return err
	}
	if err := o.MakeMirror(ctx); err != nil {
		return err
	}
	o.Fill()
	o.Target.Client, o.Target.Policy = d.client, mirror.PolicyOf(src)
	o.Target.Policy.Meter = new(fetch.Meter) // one client serves all, and each result tells what its own Source cost
	var f *syncengine.Follower
	err = d.parts.guarded(func() (err error) { // a bug over one Source's state must not end the others
		f, err = d.engine.Follow(ctx, o.Target, r.followOptions(known.ID))
		return err
	})
	if err != nil {
		return err
	}
	running, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	s := newRun(f)
	defer close(s.ended)
	defer r.seen.note(func() { r.seen.packages = nil }) // what is cut tells no end
	ran := make(chan error, 1)
	r.seen.note(func() { r.seen.halted = nil }) // before it can meet a disk that fails
	go func() { ran <- d.parts.guarded(func() error { return f.Run(running) }) }()
	r.set(s)
	d.board.changed(r.name)
	// Jobs may come now. The first ones: what waits in the inbox, what is offered now, and a pull that fell due
	// while nobody followed the Source.
	d.jobs.put(f.SourceID(), queue.KindNotify, time.Time{})
	if !d.schedule(ctx, f.SourceID(), r.src.Load()) {
		r.rediscover() // channels may have come or gone
	}
	select {
	case <-ctx.Done():
	case err = <-s.over:
	case err = <-ran:
		ran <- nil
		if err == nil {
			err = errors.New("its Follower ended")
		}
	}
	r.set(nil)
	s.end()
	d.jobs.Drop(f.SourceID())
	cancel(err) // a Follower that failed places nothing more
	return errors.Join(err, <-ran, f.Close())
}

// rediscover has what the Source offers read anew, where it is followed, beside whatever else there is to do.
func (r *runner) rediscover() {
	s := r.current()
	if s == nil || !s.enter() {
		return
	}
	go func() {
		defer s.jobs.Done()
		ctx, cancel := until(context.Background(), s.ending)
		defer cancel()
		if err := s.f.Rediscover(ctx); err != nil && !s.isEnding() {
			r.d.o.Log.Debug("what a Source offers could not be read anew", logging.KeySource, r.name, logging.Err(err))
		}
	}()
}

// work carries out one job of the queue.
func (r *runner) work(ctx context.Context, kind queue.Kind) error {
	s := r.current()
	if s == nil || !s.enter() {
		return nil // the next run begins with everything that is to be done
	}
	defer s.jobs.Done()
	ctx, cancel := until(ctx, s.ending)
	defer cancel()
	if !s.take(ctx) {
		return nil
	}
	defer s.release()
	err := s.f.Do(ctx, syncengine.Work(kind))
	switch {
	case s.isEnding():
		return nil
	case errors.Is(err, store.ErrFenced), errors.Is(err, syncengine.ErrStopped):
		r.stop(err)
		return nil
	case err == nil && kind == queue.KindPull:
		return r.pulled(ctx, s)
	}
	return err
}

// pulled makes a failure of a pull that found nothing where nothing was known before, so that a Source that was down
// when it was first asked is asked again long before its schedule says so.
func (r *runner) pulled(ctx context.Context, s *run) error {
	sets, err := r.d.st.Sets(ctx, s.f.SourceID())
	if err == nil && len(sets) == 0 {
		err = report.ErrNothingYet
	}
	if s.isEnding() {
		return err
	}
	problem := ""
	if err != nil {
		problem = err.Error()
		r.seen.note(func() {
			if errors.Is(err, report.ErrNothingYet) && r.seen.unread != nil {
				problem += ": " + r.seen.unread.Error()
			}
		})
	}
	r.setProblem(problem)
	r.d.board.changed(r.name)
	return err
}

// run is the time for which one Follower works on a Source.
type run struct {
	f      *syncengine.Follower
	over   chan error    // why it should end; nil: as told
	ending chan struct{} // closed when it ends: jobs under way stop
	ended  chan struct{} // closed when nothing works on it any more

	turn chan struct{} // holds one while a job, or what an operator wants done between two, has the Follower
	mu   sync.Mutex    // held while a job comes in, and while ending is closed
	jobs sync.WaitGroup
}

func newRun(f *syncengine.Follower) *run {
	return &run{f: f, over: make(chan error, 1), ending: make(chan struct{}), ended: make(chan struct{}),
		turn: make(chan struct{}, 1)}
}

// enter lets one job in, unless the run has ended.
func (s *run) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isEnding() {
		return false
	}
	s.jobs.Add(1)
	return true
}

// end stops the jobs under way, waits for them and lets no new one in.
func (s *run) end() {
	s.mu.Lock()
	close(s.ending)
	s.mu.Unlock()
	s.jobs.Wait()
}

// until is ctx, ended with something else too. cancel must be called.
func until(ctx context.Context, ending <-chan struct{}) (within context.Context, cancel context.CancelFunc) {
	within, cancel = context.WithCancel(ctx)
	go func() {
		select {
		case <-ending:
			cancel()
		case <-within.Done():
		}
	}()
	return within, cancel
}

func (s *run) isEnding() bool {
	select {
	case <-s.ending:
		return true
	default:
		return false
	}
}

// take waits for the Follower to be free. It is false where ctx ended before.
func (s *run) take(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case s.turn <- struct{}{}:
		return true
	}
}

func (s *run) release() { <-s.turn }
