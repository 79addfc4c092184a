package daemon

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"time"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/console"
	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/cmd/resyncd/internal/health"
	"resyncd/cmd/resyncd/internal/logging"
	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/destination/fetch"
	syncengine "resyncd/sync"
	"resyncd/sync/queue"
)

// A Source that could not be worked on is tried again after tryFirst, doubling to tryAgain: its disk is not mounted (F12) or
// the state's is full (F7: it resumes within 30 s), another process holds it (F17), its claim was lost.
const (
	tryFirst = time.Second
	tryAgain = 15 * time.Second
)

var (
	errEnding = errors.New("the daemon is ending")
	errLeft   = errors.New("the daemon left off: the Source was paused, removed or changed; run the command again")
)

// resident is one configured Source in the daemon. A goroutine of its own (live) keeps a Follower for it whenever that is
// possible; jobs of the queue, requests and hubs come to it from elsewhere.
type resident struct {
	name  string
	kick  chan struct{} // look again
	part  *part
	pulse pulse

	mu        sync.Mutex
	src       config.Source
	id        int64 // of the Source, 0: not known yet
	forgotten bool  // by the operator: left alone until the configuration is read again
	turns     int   // counts what makes a stay that is just being prepared one of yesterday
	problem   string
	warned    bool  // of a hub that cannot reach us
	stay      *stay // nil: nobody follows it now
}

func newResident(src config.Source) *resident {
	return &resident{name: src.Name, src: src, kick: make(chan struct{}, 1)}
}

func (r *resident) source() config.Source {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.src
}

// known is the Source's number in the store. Without one nothing may be asked for: 0 stands for all Sources there.
func (r *resident) known() (int64, error) {
	r.mu.Lock()
	id := r.id
	r.mu.Unlock()
	if id == 0 {
		return 0, r.errAway()
	}
	return id, nil
}

// setForgotten also ends a stay that is just being prepared.
func (r *resident) setForgotten(is bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgotten = is
	r.turns++
}

// prepare is what a stay goes by; ok is false if there is to be none.
func (r *resident) prepare() (src config.Source, turn int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.src, r.turns, !r.forgotten
}

// arrive makes s the present stay. If what it was prepared by changed meanwhile, when there was no stay to be told of
// that, it ends at once.
func (r *resident) arrive(s *stay, turn int) {
	r.mu.Lock()
	r.stay, r.problem = s, ""
	late := r.turns != turn
	r.mu.Unlock()
	if late {
		r.leave(nil)
	}
}

func (r *resident) now() *stay {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stay
}

func (r *resident) setProblem(text string) (news bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	news = r.problem != text
	r.problem = text
	return news
}

func (r *resident) lookAgain() {
	select {
	case r.kick <- struct{}{}:
	default: // it will
	}
}

// leave ends the present stay, if there is one, with err as its reason.
func (r *resident) leave(err error) {
	if s := r.now(); s != nil {
		select {
		case s.over <- err:
		default: // it is being told already
		}
	}
}

// live follows the Source whenever that is possible, until ctx ends. A Source that cannot be worked on stops no other.
func (d *Daemon) live(ctx context.Context, r *resident, first time.Duration) error {
	for pause := first; ; {
		if !r.await(ctx, pause) {
			return nil
		}
		began := time.Now()
		err := d.host(ctx, r)
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
				d.log.Error("a Source cannot be worked on; it is tried again, at the latest every "+tryAgain.String(), logging.KeySource, r.name,
					"problem", logging.Redact(problem))
			}
			if ofState(err) {
				d.stateFailed(err)
			}
			pause = min(max(2*pause, tryFirst), tryAgain)
		}
	}
}

// forGood is a pause that only a kick ends.
const forGood = time.Duration(-1)

// await waits for a pause, or for a kick; a Source that was forgotten only for the latter. It is false when ctx ended.
func (r *resident) await(ctx context.Context, pause time.Duration) bool {
	for {
		r.mu.Lock()
		if r.forgotten {
			pause = forGood
		}
		r.mu.Unlock()
		var due <-chan time.Time
		if pause >= 0 {
			timer := time.NewTimer(pause)
			defer timer.Stop()
			due = timer.C
		}
		select {
		case <-ctx.Done():
			return false
		case <-due:
			return true
		case <-r.kick:
			r.mu.Lock()
			forgotten := r.forgotten
			r.mu.Unlock()
			if !forgotten {
				return true
			}
		}
	}
}

// host follows the Source for one stay: until ctx ends or it is told to leave (nil), or it cannot be worked on.
func (d *Daemon) host(ctx context.Context, r *resident) (err error) {
	src, turn, ok := r.prepare()
	if !ok {
		return nil
	}
	o := mirror.Over(d.engine, mirror.Configured(d.config(), src))
	defer func() { err = errors.Join(err, o.Close()) }()
	known, err := d.st.EnsureSource(ctx, src.Name, src.URL)
	if err != nil {
		return err
	}
	d.know(r, known.ID)
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
	o.Target.Client, o.Target.Policy = d.client, mirror.PolicyOf(&src)
	o.Target.Policy.Meter = new(fetch.Meter) // one client serves all, and each result tells what its own Source cost
	var f *syncengine.Follower
	err = d.guarded(func() (err error) { // a bug over one Source's state must not end the others
		f, err = d.engine.Follow(ctx, o.Target, d.followOptions(r, known.ID, &src))
		return err
	})
	if err != nil {
		return err
	}
	running, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	s := &stay{f: f, over: make(chan error, 1), leaving: make(chan struct{}), gone: make(chan struct{})}
	defer close(s.gone)
	ran := make(chan error, 1)
	r.pulse.set(func() { r.pulse.halted = nil }) // before it can meet a disk that fails
	go func() { ran <- d.guarded(func() error { return f.Run(running) }) }()
	r.arrive(s, turn)
	d.board.changed(r.name)
	d.begin(ctx, r, s, &src)
	select {
	case <-ctx.Done():
	case err = <-s.over:
	case err = <-ran:
		ran <- nil
		if err == nil {
			err = errors.New("its Follower ended")
		}
	}
	d.depart(r, s)
	stop(err) // a Follower that failed places nothing more
	return errors.Join(err, <-ran, f.Close())
}

// guarded is work that does not take the process with it (F5). Where it panicked is in the log only.
func (d *Daemon) guarded(work func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &queue.PanicError{Value: v, Stack: debug.Stack()}
			d.logPanic(err)
		}
	}()
	return work()
}

// logPanic writes where work panicked, if that is why it failed.
func (d *Daemon) logPanic(err error) {
	if p, ok := errors.AsType[*queue.PanicError](err); ok {
		d.log.Error("panic, which costs no other work; please report it", "panic", p.Value, "stack", string(p.Stack))
	}
}

// begin lets jobs come to a new stay, and asks for the first ones: what waits in the inbox, what is offered now, and a
// pull that fell due while nobody followed the Source.
func (d *Daemon) begin(ctx context.Context, r *resident, s *stay, src *config.Source) {
	d.put(s.f.SourceID(), queue.KindNotify, time.Time{})
	if !d.schedule(ctx, s.f.SourceID(), src) {
		d.look(r, s) // channels may have come or gone
	}
}

// look has what the Source offers read anew, beside whatever else there is to do.
func (d *Daemon) look(r *resident, s *stay) {
	if !s.enter() {
		return
	}
	go func() {
		defer s.jobs.Done()
		ctx, cancel := s.within(context.Background())
		defer cancel()
		if err := s.f.Rediscover(ctx); err != nil && !s.isLeaving() {
			d.log.Debug("what a Source offers could not be read anew", logging.KeySource, r.name, logging.Err(err))
		}
	}()
}

// depart ends a stay: no new job, none under way.
func (d *Daemon) depart(r *resident, s *stay) {
	r.mu.Lock()
	r.stay = nil
	r.mu.Unlock()
	d.unschedule(s.f.SourceID())
	close(s.leaving)
	s.mu.Lock()
	s.closed = true
	s.asked = nil
	s.mu.Unlock()
	s.jobs.Wait()
	_ = d.queue.Drop(context.Background(), s.f.SourceID()) // a Local never fails
}

func (d *Daemon) residentOf(id int64) *resident {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.byID[id]
}

func (d *Daemon) residentNamed(name string) *resident {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.residents[name]
}

// know notes which Source of the store a resident is, and has its channels kept.
func (d *Daemon) know(r *resident, id int64) {
	d.mu.Lock()
	r.mu.Lock()
	if r.id != id {
		delete(d.byID, r.id)
	}
	r.id = id
	d.byID[id] = r
	src := r.src
	r.mu.Unlock()
	d.mu.Unlock()
	d.keeper.SetSource(id, plan(&src))
}
