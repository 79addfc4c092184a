package daemon

import (
	"context"
	"errors"
	"sync"
	"time"

	"resyncd/store"
	syncengine "resyncd/sync"
	"resyncd/sync/queue"
	"resyncd/sync/report"
)

// stay is one Follower's time.
type stay struct {
	f       *syncengine.Follower
	over    chan error    // why it should end; nil: as told
	leaving chan struct{} // closed when it ends: jobs under way stop
	gone    chan struct{} // closed when nothing works on it any more

	mu     sync.Mutex
	closed bool
	asked  []func(context.Context) // what requests want done between jobs
	jobs   sync.WaitGroup
}

// enter lets one job in, unless the stay has ended.
func (s *stay) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.jobs.Add(1)
	return true
}

// within is ctx, ended with the stay too. cancel must be called.
func (s *stay) within(ctx context.Context) (within context.Context, cancel context.CancelFunc) {
	within, cancel = context.WithCancel(ctx)
	go func() {
		select {
		case <-s.leaving:
			cancel()
		case <-within.Done():
		}
	}()
	return within, cancel
}

func (s *stay) isLeaving() bool {
	select {
	case <-s.leaving:
		return true
	default:
		return false
	}
}

// take returns what requests want done.
func (s *stay) take() []func(context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked
	s.asked = nil
	return asked
}

// ask has work done between jobs. It is false where the stay has ended.
func (s *stay) ask(work func(context.Context)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.asked = append(s.asked, work)
	return true
}

// work carries out one job of the queue.
func (d *Daemon) work(ctx context.Context, j queue.Job) error {
	r := d.residentOf(j.Source)
	if r == nil {
		return nil
	}
	s := r.now()
	if s == nil || !s.enter() {
		return nil // the next stay begins with everything that is to be done
	}
	defer s.jobs.Done()
	ctx, cancel := s.within(ctx)
	defer cancel()
	if j.Kind == queue.KindRequest {
		for _, work := range s.take() {
			work(ctx)
		}
		return nil
	}
	err := s.f.Do(ctx, syncengine.Work(j.Kind))
	switch {
	case s.isLeaving():
		return nil
	case errors.Is(err, store.ErrFenced), errors.Is(err, syncengine.ErrStopped):
		r.leave(err)
		return nil
	case err == nil && j.Kind == queue.KindPull:
		err = d.reached(ctx, s)
		if problem := ""; !s.isLeaving() {
			if err != nil {
				problem = err.Error()
				r.pulse.set(func() {
					if errors.Is(err, report.ErrNothingYet) && r.pulse.unread != nil {
						problem += ": " + r.pulse.unread.Error()
					}
				})
			}
			r.setProblem(problem)
			d.board.changed(r.name)
		}
	}
	return err
}

// reached makes a failure of a pull that found nothing where nothing was known before, so that a Source that was down when
// it was first asked is asked again long before its schedule says so.
func (d *Daemon) reached(ctx context.Context, s *stay) error {
	sets, err := d.st.Sets(ctx, s.f.SourceID())
	if err == nil && len(sets) == 0 {
		err = report.ErrNothingYet
	}
	return err
}

// put asks for a job; a Local takes any that has a kind.
func (d *Daemon) put(id int64, kind queue.Kind, due time.Time) {
	_ = d.queue.Put(context.Background(), queue.Job{Source: id, Kind: kind, Due: due})
}
