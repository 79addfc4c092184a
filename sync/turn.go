package sync

import (
	"context"
	"errors"
	"slices"
	"sync"

	"resyncd/destination"
	"resyncd/destination/safe"
	"resyncd/sync/pull"
)

// turn is whose turn it is to change what a Follower knows. A slice has it from start to end, except while it waits for
// a document of the Source: then pushes are taken up, so that a document that hangs holds up only its own pull (P11).
//
// A pull trusts nothing over a wait but the store and its own coverage, which is told of the pushes (Puller.Pushed). A
// hole that comes up meanwhile waits for the next pull.
type turn struct {
	slice context.Context // of the slice that gives it away in waits, nil for none
	kept  int             // reasons to keep it over waits
	// reading is whose documents are being read; between: notifications are being taken up in a wait of a slice.
	reading *pull.Puller
	between bool
	heard   chan struct{} // something came into the inbox
}

// keep has the turn kept over waits, because a new history overrides a push that comes in its midst.
func (t *turn) keep() (release func()) {
	t.kept++
	return func() { t.kept-- }
}

// await has pushes taken up until resume.
func (f *Follower) await() (resume func()) {
	if t := &f.turn; t.slice == nil || t.kept > 0 || t.between {
		return func() {}
	}
	stop := make(chan struct{})
	var listener sync.WaitGroup
	listener.Go(func() { f.listen(stop) })
	return func() {
		close(stop)
		listener.Wait()
	}
}

// Heard has a slice that waits for a document take up the inbox at once. Any goroutine may call it.
func (f *Follower) Heard() { tell(f.turn.heard) }

// listen takes up the inbox until stop. After a failure deliveries stay for WorkNotify.
func (f *Follower) listen(stop <-chan struct{}) {
	t := &f.turn
	for t.slice != nil {
		select {
		case <-t.heard:
		case <-stop:
			return
		}
		if t.slice.Err() != nil {
			return
		}
		if err := f.hear(t.slice); err != nil {
			t.slice = nil
			f.s.Log.Warn(
				"a notification could not be taken up while a document is waited for; it is when that has come",
				"err", err)
		}
	}
}

func (f *Follower) hear(ctx context.Context) error {
	f.turn.between = true
	defer func() { f.turn.between = false }()
	err := safe.Do(func() error { return f.notify(ctx) }) // as the queue does for a slice; here nobody else would
	if bug, ok := errors.AsType[*safe.PanicError](err); ok {
		f.s.Log.Error("panic while a notification is taken up", "panic", bug.Value, "stack", string(bug.Stack))
	}
	return err
}

func (f *Follower) reads(p *pull.Puller, do func() error) error {
	f.watchMisses(p)
	f.turn.reading = p
	f.rec.Reading(true)
	defer func() {
		f.turn.reading = nil
		f.rec.Reading(false)
	}()
	if err := do(); err != nil {
		return err
	}
	f.countOf(p)
	return nil
}

// readSet has the documents of a set read by how, after the set was read anew.
func (f *Follower) readSet(
	ctx context.Context, id int64, offer *destination.SetOffer, how func(*pull.Puller) error,
) (*pull.Puller, error) {
	set, err := f.known(ctx, id)
	if err != nil {
		return nil, err
	}
	p, err := f.s.NewPuller(set, offer)
	if err != nil {
		return nil, err
	}
	return p, f.reads(p, func() error {
		if err := p.Start(ctx); err != nil {
			return err
		}
		return how(p)
	})
}

// asks holds the requests of other goroutines to a Follower.
type asks struct {
	mu     sync.Mutex
	open   []*PullRequest     // until they are answered
	hints  map[int64]struct{} // sets that may have changed
	closed bool
}

func (a *asks) locked(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
}

func (a *asks) request(r *PullRequest) {
	var closed bool
	a.locked(func() { a.open, closed = append(a.open, r), a.closed })
	if closed {
		a.answer([]*PullRequest{r}, errClosed)
	}
}

// take returns the requests for a slice that none has taken.
func (a *asks) take(w Work) (rs []*PullRequest) {
	a.locked(func() {
		for _, r := range a.open {
			if r.work == w && !r.taken {
				r.taken, rs = true, append(rs, r)
			}
		}
	})
	return rs
}

func (a *asks) all() (rs []*PullRequest) {
	a.locked(func() { rs = slices.Clone(a.open) })
	return rs
}

func (a *asks) answer(rs []*PullRequest, err error) {
	for _, r := range rs {
		had := 0
		a.locked(func() {
			had = len(a.open)
			a.open = slices.DeleteFunc(a.open, func(other *PullRequest) bool { return other == r })
			had -= len(a.open)
		})
		if had > 0 && r.Done != nil {
			r.Done(err)
		}
	}
}

func (a *asks) hint(set int64) {
	a.locked(func() {
		if a.hints == nil {
			a.hints = map[int64]struct{}{}
		}
		a.hints[set] = struct{}{}
	})
}

func (a *asks) takeHints() (hints map[int64]struct{}) {
	a.locked(func() { hints, a.hints = a.hints, nil })
	return hints
}

func (a *asks) hinted() (some bool) {
	a.locked(func() { some = len(a.hints) > 0 })
	return some
}

func (a *asks) close() {
	a.locked(func() { a.closed = true })
	a.answer(a.all(), errClosed)
}
