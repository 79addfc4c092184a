package sync

import (
	"maps"
	"slices"
	"sync"
)

// asks is what others ask of a Follower, from any goroutine.
type asks struct {
	mu     sync.Mutex
	next   []*PullRequest // for the next pull
	open   []*PullRequest // all that were not answered
	framed []chan error   // for a framework slice
	hints  map[int64]bool // sets of which something may have changed
	closed bool
}

// request notes a pull that is asked for, and tells whether the Follower has ended.
func (a *asks) request(r *PullRequest) (closed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.next, a.open = append(a.next, r), append(a.open, r)
	return a.closed
}

// take returns the requests for the next pull.
func (a *asks) take() []*PullRequest {
	a.mu.Lock()
	defer a.mu.Unlock()
	next := a.next
	a.next = nil
	return next
}

// unanswered are the requests that were not answered yet.
func (a *asks) unanswered() []*PullRequest {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.open)
}

// answer ends those of the requests that were not answered yet.
func (a *asks) answer(rs []*PullRequest, err error) {
	for _, r := range rs {
		if a.ends(r) && r.Done != nil {
			r.Done(err)
		}
	}
}

func (a *asks) ends(r *PullRequest) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := slices.Index(a.open, r)
	if i >= 0 {
		a.open = slices.Delete(a.open, i, i+1)
	}
	return i >= 0
}

// framework notes somebody who waits for a framework slice; takeFramework returns them.
func (a *asks) framework(done chan error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.framed = append(a.framed, done)
}

func (a *asks) takeFramework() []chan error {
	a.mu.Lock()
	defer a.mu.Unlock()
	framed := a.framed
	a.framed = nil
	return framed
}

// hint notes that something may have changed in a set; takeHints returns all that was noted.
func (a *asks) hint(set int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hints[set] = true
}

func (a *asks) takeHints() map[int64]bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	hints := a.hints
	a.hints = map[int64]bool{}
	return hints
}

// hintAgain notes hints that nothing came of.
func (a *asks) hintAgain(hints map[int64]bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.Copy(a.hints, hints)
}

func (a *asks) hinted() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.hints) > 0
}

// close answers whoever still waits.
func (a *asks) close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.answer(a.unanswered(), errClosed)
	for _, w := range a.takeFramework() {
		w <- errClosed // buffered
	}
}
