package daemon

import (
	"context"
	"sync"

	syncengine "resyncd/sync"
)

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
