package sync

import (
	"sync"
	"sync/atomic"
)

// asks holds the requests of other goroutines to a Follower.
type asks struct {
	pulls  sync.Map // *PullRequest, until it is answered: whether a pull has taken it
	framed sync.Map // chan error of each caller that waits for a discovery
	hints  sync.Map // ids of the sets that may have changed
	closed atomic.Bool
}

func (a *asks) request(r *PullRequest) {
	if a.pulls.Store(r, false); a.closed.Load() {
		a.answer([]*PullRequest{r}, errClosed)
	}
}

func (a *asks) take() (rs []*PullRequest) {
	for r := range a.pulls.Range {
		if a.pulls.CompareAndSwap(r, false, true) {
			rs = append(rs, r.(*PullRequest))
		}
	}
	return rs
}

// answer ends those requests that are still open.
func (a *asks) answer(rs []*PullRequest, err error) {
	for _, r := range rs {
		if _, open := a.pulls.LoadAndDelete(r); open && r.Done != nil {
			r.Done(err)
		}
	}
}

func (a *asks) asking(r *PullRequest) bool {
	_, open := a.pulls.Load(r)
	return open
}

func (a *asks) takeFramework() (waiting []chan error) {
	for w := range a.framed.Range {
		a.framed.Delete(w)
		waiting = append(waiting, w.(chan error))
	}
	return waiting
}

func (a *asks) hint(set int64) { a.hints.Store(set, true) }

func (a *asks) takeHints() map[int64]bool {
	hints := map[int64]bool{}
	for id := range a.hints.Range {
		a.hints.Delete(id)
		hints[id.(int64)] = true
	}
	return hints
}

func (a *asks) hinted() bool {
	for range a.hints.Range {
		return true
	}
	return false
}

func (a *asks) close() {
	a.closed.Store(true)
	for r := range a.pulls.Range {
		a.answer([]*PullRequest{r.(*PullRequest)}, errClosed)
	}
	for _, w := range a.takeFramework() {
		w <- errClosed // buffered
	}
}
