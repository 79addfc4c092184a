package sync

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"

	"resyncd/sync/pull"
)

// turn is whose turn it is to change what a Follower knows. A slice has it from its start to its end, but for the moments in
// which it waits for a document of the Source: then what the Source pushes is taken up, so that a document that hangs holds
// up nobody but the pull that asked for it (P11).
//
// That is safe because a pull trusts nothing over a wait but the store and its own coverage. Wants meet rows that are read
// anew under the lock of the rows, and newest wins in any order; what a push adds to the set's coverage the pull is told before
// it goes on (puller.pushed), and so is the baseline of rows that it listed already (planner.keepsListed). A hole that comes up
// meanwhile waits for the next pull, as ever.
type turn struct {
	mu sync.Mutex
	// kept is how many reasons there are to keep the turn over waits. Only who has the turn touches it.
	kept int
	// reading is whose documents are being read; between: notifications are being taken up in a wait of a slice.
	reading *pull.Puller
	between bool
	heard   chan struct{} // something came into the inbox
}

// await gives the turn away for a wait; resume takes it back. It is a Reader's Await.
func (t *turn) await() (resume func()) {
	if t.kept > 0 {
		return func() {}
	}
	t.mu.Unlock()
	return t.mu.Lock
}

// keep has the turn kept over waits until release: a baseline that begins a new history overrides what is newer than itself,
// a push that came in the midst of it too.
func (t *turn) keep() (release func()) {
	t.kept++
	return func() { t.kept-- }
}

// Heard says that something came into the inbox, beside Later(WorkNotify) of whoever drives the Follower: a slice that waits
// for a document takes it up at once. It never blocks and may be called from any goroutine.
func (f *Follower) Heard() {
	select {
	case f.turn.heard <- struct{}{}:
	default:
	}
}

// alone carries out a slice that reads no documents.
func (f *Follower) alone(ctx context.Context, slice func(context.Context) error) error {
	f.turn.mu.Lock()
	defer f.turn.mu.Unlock()
	return slice(ctx)
}

// hearing carries out a slice that reads documents, and takes up what is pushed while it waits for them.
func (f *Follower) hearing(ctx context.Context, slice func(context.Context) error) error {
	over := make(chan struct{})
	var listener sync.WaitGroup
	defer listener.Wait()
	f.turn.mu.Lock()
	defer f.turn.mu.Unlock()
	defer close(over) // so that whoever gets the turn next knows that the slice has ended
	listener.Go(func() { f.listen(ctx, over) })
	return slice(ctx)
}

// listen takes up the inbox in the waits of a slice, until that is over. A failure costs no more than that: the deliveries
// stay, and the WorkNotify that was asked for with them meets it too and tells of it.
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
			f.s.Log.Warn("a notification could not be taken up while a document is waited for; it is when that has come", "err", err)
			return
		}
	}
}

// hear takes up the inbox once, in a wait of a slice.
func (f *Follower) hear(ctx context.Context, over <-chan struct{}) (err error) {
	f.turn.mu.Lock()
	defer f.turn.mu.Unlock()
	select {
	case <-over:
		return nil
	default:
	}
	defer func() {
		if p := recover(); p != nil { // as the queue does for a slice (F5); here nobody else would
			f.s.Log.Error("panic while a notification is taken up", "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	f.turn.between = true
	defer func() { f.turn.between = false }()
	return f.notify(ctx)
}

// readsBy has a puller known as the one that reads, while do carries out its reading.
func (f *Follower) readsBy(p *pull.Puller, do func() error) error {
	f.turn.reading = p
	f.rec.Reading(true)
	defer func() {
		f.turn.reading = nil
		f.rec.Reading(false)
	}()
	return do()
}

// readerOf is the puller that is reading documents of a set, nil for none.
func (f *Follower) readerOf(set int64) *pull.Puller {
	if f.turn.reading != nil && f.turn.reading.Set.ID == set {
		return f.turn.reading
	}
	return nil
}
