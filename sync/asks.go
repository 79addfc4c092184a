package sync

import (
	"maps"
	"slices"
	"sync"
)

// asks holds the requests of other goroutines to a Follower.
type asks struct {
	mu     sync.Mutex
	next   []*PullRequest
	open   []*PullRequest
	framed []chan error
	hints  map[int64]bool
	closed bool
}

func (a *asks) request(r *PullRequest) (closed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.next, a.open = append(a.next, r), append(a.open, r)
	return a.closed
}

func (a *asks) take() []*PullRequest {
	a.mu.Lock()
	defer a.mu.Unlock()
	next := a.next
	a.next = nil
	return next
}

func (a *asks) unanswered() []*PullRequest {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.open)
}

// answer ends those requests that are still open.
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

// hintAgain keeps hints whose reading failed.
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

func (a *asks) close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.answer(a.unanswered(), errClosed)
	for _, w := range a.takeFramework() {
		w <- errClosed // buffered
	}
}
