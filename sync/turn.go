package sync

import (
	"context"
	"fmt"
	"resyncd/sync/pull"
	"runtime/debug"
	"sync"
)

// turn guards a Follower's knowledge. A slice holds it but gives it away while waiting for a document, so that a
// hanging document does not block pushes (P11).
//
// After a wait a pull may trust only the store, its own coverage, and what a push tells it (Puller.Pushed,
// Plan.ListedIn). Wants meet rows that are read anew under the lock of the rows.
type turn struct {
	mu sync.Mutex
	// kept counts the reasons to keep the turn over waits; only the holder touches it.
	kept int
	// reading is the puller whose documents are read; between says that a wait takes up notifications.
	reading *pull.Puller
	between bool
	heard   chan struct{}
}

// await gives the turn away for a wait and resume takes it back, as a Reader's Await.
func (t *turn) await() (resume func()) {
	if t.kept > 0 {
		return func() {}
	}
	t.mu.Unlock()
	return t.mu.Lock
}

// keep holds the turn over waits until release: a baseline of a new history would override a push that arrived in its
// midst.
func (t *turn) keep() (release func()) {
	t.kept++
	return func() { t.kept-- }
}

// Heard says that the inbox has something, beside Later(WorkNotify), so that a waiting slice takes it up at once. It
// never blocks, and any goroutine may call it.
func (f *Follower) Heard() {
	select {
	case f.turn.heard <- struct{}{}:
	default:
	}
}

func (f *Follower) alone(ctx context.Context, slice func(context.Context) error) error {
	f.turn.mu.Lock()
	defer f.turn.mu.Unlock()
	return slice(ctx)
}

// hearing runs a slice that reads documents and takes up pushes during its waits.
func (f *Follower) hearing(ctx context.Context, slice func(context.Context) error) error {
	over := make(chan struct{})
	var listener sync.WaitGroup
	defer listener.Wait()
	f.turn.mu.Lock()
	defer f.turn.mu.Unlock()
	defer close(over) // the next holder must know that the slice has ended
	listener.Go(func() { f.listen(ctx, over) })
	return slice(ctx)
}

// listen takes up the inbox during a slice's waits. After a failure the deliveries stay, and their WorkNotify reports
// it.
func (f *Follower) listen(ctx context.Context, over <-chan struct{}) {
	for {
		select {
		case <-f.turn.heard:
		case <-over:
			return
		case <-ctx.Done():
			return
		}
		if err := f.hear(ctx, over); err != nil {
			f.s.log.Warn(
				"a notification could not be taken up while a document is waited for; it is when that has come",
				"err", err)
			return
		}
	}
}

func (f *Follower) hear(ctx context.Context, over <-chan struct{}) (err error) {
	f.turn.mu.Lock()
	defer f.turn.mu.Unlock()
	select {
	case <-over:
		return nil
	default:
	}
	defer func() {
		if p := recover(); p != nil { // as the queue does for a slice (F5)
			f.s.log.Error("panic while a notification is taken up", "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	f.turn.between = true
	defer func() { f.turn.between = false }()
	return f.notify(ctx)
}

func (f *Follower) readsBy(p *pull.Puller, do func() error) error {
	f.turn.reading = p
	f.rec.Reading(true)
	defer func() {
		f.turn.reading = nil
		f.rec.Reading(false)
	}()
	return do()
}

func (f *Follower) readerOf(set int64) *pull.Puller {
	if f.turn.reading != nil && f.turn.reading.Set.ID == set {
		return f.turn.reading
	}
	return nil
}
