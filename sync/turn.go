package sync

import (
	"context"
	"errors"
	"sync"

	"sync/atomic"

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
	mu sync.Mutex
	// kept is how many reasons there are to keep the turn over waits. Only who has the turn touches it.
	kept int
	// reading is whose documents are being read; between: notifications are being taken up in a wait of a slice.
	reading *pull.Puller
	between bool
	heard   chan struct{} // something came into the inbox
}

// await gives the turn away for a wait; resume takes it back.
func (t *turn) await() (resume func()) {
	if t.kept > 0 {
		return func() {}
	}
	t.mu.Unlock()
	return t.mu.Lock
}

// keep has the turn kept over waits, because a new history overrides a push that comes in its midst.
func (t *turn) keep() (release func()) {
	t.kept++
	return func() { t.kept-- }
}

// Heard has a slice that waits for a document take up the inbox at once. It never blocks and may be called from any
// goroutine.
func (f *Follower) Heard() { tell(f.turn.heard) }

func (f *Follower) alone(ctx context.Context, slice func(context.Context) error) error {
	f.turn.mu.Lock()
	defer f.turn.mu.Unlock()
	return slice(ctx)
}

// hearing carries out a slice that reads documents, and takes up what is pushed while it waits for them.
func (f *Follower) hearing(ctx context.Context, slice func(context.Context) error) error {
	waits, over := context.WithCancel(ctx)
	var listener sync.WaitGroup
	defer listener.Wait()
	f.turn.mu.Lock()
	defer f.turn.mu.Unlock()
	defer over() // so that whoever gets the turn next knows that the slice has ended
	listener.Go(func() { f.listen(waits) })
	return slice(ctx)
}

// listen takes up the inbox in the waits of a slice. After a failure the deliveries stay for the WorkNotify that was
// asked for with them.
func (f *Follower) listen(ctx context.Context) {
	for {
		select {
		case <-f.turn.heard:
		case <-ctx.Done():
			return
		}
		if err := f.hear(ctx); err != nil {
			f.s.Log.Warn(
				"a notification could not be taken up while a document is waited for; it is when that has come",
				"err", err)
			return
		}
	}
}

func (f *Follower) hear(ctx context.Context) error {
	f.turn.mu.Lock()
	defer f.turn.mu.Unlock()
	if ctx.Err() != nil {
		return nil
	}
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
		if _, open := a.framed.LoadAndDelete(w); open { // a second answer would block for ever
			waiting = append(waiting, w.(chan error))
		}
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
