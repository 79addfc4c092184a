package hub

import (
	"context"
	"errors"
	"time"

	"resyncd/destination/peer/hub/hubstate"
	"resyncd/store"
)

const (
	commitMost  = 1024     // submissions in one transaction
	pendingMost = 64 << 20 // bytes of content that wait for one
)

// submission is what somebody waits for to be durable.
type submission struct {
	hubstate.Commit
	size int64 // of its content
	done chan error
}

// backlog is what the state does not have yet. Hub.mu guards it, except for its channels.
type backlog struct {
	pending  []*submission
	size     int64                        // of the content in pending
	progress map[int64]*hubstate.Progress // by subscription
	closed   bool

	hasPending chan struct{} // of one place: there is something
	due        *time.Timer   // when progress is to be recorded
	// unsure gets the error of a write that may or may not be durable: only opening the state anew recovers (F10).
	unsure chan error
}

func newBacklog() backlog {
	return backlog{
		progress: map[int64]*hubstate.Progress{}, hasPending: make(chan struct{}, 1),
		due: time.NewTimer(progressEvery), unsure: make(chan error, 1),
	}
}

// add adds a submission; its done gets the outcome.
func (b *backlog) add(s *submission) error {
	switch {
	case b.closed:
		return errStopping
	case b.size > 0 && b.size+s.size > pendingMost:
		return errBusy
	}
	b.pending = append(b.pending, s)
	b.size += s.size
	signal(b.hasPending)
	return nil
}

// progressed notes what became of a delivery; it is recorded a little later, with others.
func (b *backlog) progressed(sub *subscription, delivered, dropped int64) {
	p := b.progress[sub.ID]
	if p == nil {
		p = &hubstate.Progress{SubscriptionID: sub.ID}
		b.progress[sub.ID] = p
	}
	p.Cursor, p.Attempts, p.Next = sub.Cursor, sub.Attempts, sub.Next
	p.Delivered += delivered
	p.Dropped += dropped
	if len(b.progress) == 1 {
		b.due.Reset(progressEvery)
	}
}

// take takes what goes into the next transaction; more: there is more.
func (b *backlog) take(progress bool) (batch []*submission, moved map[int64]*hubstate.Progress, more bool) {
	n := min(len(b.pending), commitMost)
	batch = b.pending[:n:n]
	b.pending = b.pending[n:]
	for _, s := range batch {
		b.size -= s.size
	}
	if progress && len(b.progress) > 0 {
		moved, b.progress = b.progress, map[int64]*hubstate.Progress{}
	}
	return batch, moved, len(b.pending) > 0
}

// putBack keeps progress that could not be recorded for the next try.
func (b *backlog) putBack(old map[int64]*hubstate.Progress) {
	for id, p := range old {
		if now := b.progress[id]; now != nil {
			now.Delivered += p.Delivered
			now.Dropped += p.Dropped
			continue
		}
		b.progress[id] = p
	}
}

// close refuses all that comes too late.
func (b *backlog) close() {
	b.closed = true
	for _, s := range b.pending {
		s.done <- errStopping
	}
	b.pending, b.size = nil, 0
}

func (b *backlog) noteUnsure(err error) {
	if errors.Is(err, store.ErrUnsure) {
		select {
		case b.unsure <- err:
		default:
		}
	}
}

// submit makes c durable, together with whatever else waits for that.
func (h *Hub) submit(ctx context.Context, c hubstate.Commit) error {
	s := &submission{Commit: c, done: make(chan error, 1)}
	for _, n := range c.Notifications {
		s.size += int64(len(n.Body))
	}
	h.mu.Lock()
	err := h.backlog.add(s)
	h.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case err := <-s.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
