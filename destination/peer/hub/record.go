package hub

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"resyncd/destination/peer/hub/hubstate"
	"resyncd/store"
)

const (
	// progressEvery is how long what became of deliveries may stay unrecorded: after a kill that much is delivered again.
	progressEvery = 100 * time.Millisecond
	commitMost    = 1024     // submissions in one transaction
	pendingMost   = 64 << 20 // bytes of content that wait for one
	badCommits    = 20       // in a row, but for a full disk, after which Run gives up: reopening may help (F10)
)

var (
	errStopping = errors.New("the hub is not running: try again")
	errBusy     = errors.New("the hub has too much to record: try again")
)

// submission is something that is to be made durable before somebody goes on.
type submission struct {
	note  *hubstate.Notification
	pings []hubstate.Ping
	look  *hubstate.Look
	done  chan error
}

// submit makes s durable, together with whatever else waits for that.
func (h *Hub) submit(ctx context.Context, s *submission) error {
	s.done = make(chan error, 1)
	h.mu.Lock()
	var size int64
	if s.note != nil {
		size = int64(len(s.note.Body))
	}
	switch {
	case h.phase == idle || h.phase == ended:
		h.mu.Unlock()
		return errStopping
	case h.size > 0 && h.size+size > pendingMost:
		h.mu.Unlock()
		return errBusy
	}
	h.pending = append(h.pending, s)
	h.size += size
	signal(h.hasPending)
	h.mu.Unlock()
	select {
	case err := <-s.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// moved notes what became of a delivery; it is recorded a little later, with others. h.mu is held.
func (h *Hub) moved(l *lane, delivered, dropped int64) {
	p := h.progress[l.id]
	if p == nil {
		p = &hubstate.Progress{SubscriptionID: l.id}
		h.progress[l.id] = p
	}
	p.Cursor, p.Attempts, p.Next = l.cursor, l.attempts, l.next
	p.Delivered += delivered
	p.Dropped += dropped
	if len(h.progress) == 1 {
		signal(h.hasProgress)
	}
}

// record is the only one that commits notifications and progress. It ends when done is closed, with everything recorded,
// or when the state fails for good.
func (h *Hub) record(ctx context.Context, done <-chan struct{}) error {
	due := time.NewTimer(progressEvery)
	defer due.Stop()
	last := time.Time{} // when progress was last recorded
	well := true        // the commit before was made
	for bad := 0; ; {
		final := false
		select {
		case <-h.hasPending:
		case <-h.hasProgress:
			due.Reset(progressEvery)
			continue
		case <-due.C:
		case err := <-h.unsure:
			h.finish()
			return unwritable(err)
		case <-done:
			final = true
		}
		moves := final || time.Since(last) >= progressEvery
		if moves {
			last = time.Now()
		}
		err := h.commit(ctx, moves, final, well)
		well = err == nil
		switch {
		case err == nil:
			bad = 0
		case !errors.Is(err, store.ErrFull):
			bad++
		}
		if err != nil {
			due.Reset(progressEvery)
		}
		if final || bad >= badCommits {
			h.finish()
			if bad == 0 {
				return nil
			}
			return unwritable(err)
		}
	}
}

// doubt ends the hub where the state says that a write may or may not be durable: it takes no more before it is opened
// anew, which recovers (F10). Run returns the first one.
func (h *Hub) doubt(err error) {
	if errors.Is(err, store.ErrUnsure) {
		select {
		case h.unsure <- err:
		default:
		}
	}
}

// unwritable is why the hub ends.
func unwritable(err error) error { return fmt.Errorf("the hub's state cannot be written: %w", err) }

// finish refuses all that comes too late.
func (h *Hub) finish() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.phase = ended
	for _, s := range h.pending {
		s.done <- errStopping
	}
	h.pending, h.size = nil, 0
}

// commit records what waits: one transaction, or on the way out as many as it takes. well: it is likely to be.
func (h *Hub) commit(ctx context.Context, moves, all, well bool) error {
	for {
		batch, progress, more := h.take(moves)
		if len(batch) == 0 && len(progress) == 0 {
			return nil
		}
		c := hubstate.Commit{Keep: int64(h.o.QueueCap), KeepBytes: h.o.QueueBytes}
		for _, s := range batch {
			if s.note != nil {
				c.Notifications = append(c.Notifications, s.note)
			}
			c.Pings = append(c.Pings, s.pings...)
			if s.look != nil {
				c.Looks = append(c.Looks, *s.look)
			}
		}
		for _, p := range progress {
			c.Progress = append(c.Progress, *p)
		}
		// Deliveries begin while the disk confirms, which took longer than the first of them; publishers wait for it. What a
		// power cut takes back then is published again, and delivered twice.
		var a *ahead
		if well {
			a = h.announce(batch)
		}
		if a != nil {
			// The delivery goes out at once, in this thread; the transaction is what waits until another one is awake (0.07 ms).
			runtime.Gosched()
		}
		c.Readable = func() { h.recorded(batch, a) }
		err := h.o.State.Commit(ctx, &c)
		if err != nil {
			h.withdraw(a)
			h.o.Log.Error("the hub's state cannot be written", "err", err)
			h.doubt(err)
			h.putBack(progress)
		}
		for _, s := range batch {
			s.done <- err
		}
		if err != nil || !more {
			return err
		}
		if !all {
			signal(h.hasPending)
			return nil
		}
	}
}

// take takes what goes into the next transaction.
func (h *Hub) take(moves bool) (batch []*submission, progress map[int64]*hubstate.Progress, more bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := min(len(h.pending), commitMost)
	batch = h.pending[:n:n]
	h.pending = h.pending[n:]
	for _, s := range batch {
		if s.note != nil {
			h.size -= int64(len(s.note.Body))
		}
	}
	if moves && len(h.progress) > 0 {
		progress, h.progress = h.progress, map[int64]*hubstate.Progress{}
	}
	return batch, progress, len(h.pending) > 0
}

// putBack keeps progress that could not be recorded for the next try.
func (h *Hub) putBack(old map[int64]*hubstate.Progress) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, p := range old {
		if now := h.progress[id]; now != nil {
			now.Delivered += p.Delivered
			now.Dropped += p.Dropped
			continue
		}
		h.progress[id] = p
	}
}

// recorded brings memory up to what is in the state now, and wakes whoever waits for it.
func (h *Hub) recorded(batch []*submission, a *ahead) {
	var events []Event
	h.mu.Lock()
	for _, s := range batch {
		if n := s.note; n != nil && n.Number > 0 {
			if t := h.topics[n.Topic]; t != nil {
				h.recent.add(t.id, n)
				t.last = max(t.last, n.Number)
				t.digest, t.etag, t.lastModified = n.Digest, "", ""
				h.wakeTopic(t)
				events = append(events, Event{Kind: Published, Topic: t.url, Number: n.Number})
			}
		}
	}
	for _, s := range batch {
		for _, p := range s.pings {
			if t := h.topics[p.Topic]; t != nil {
				t.pinged = max(p.At, t.pinged+1)
				t.tries = 0
				h.look(t)
			}
		}
	}
	for _, s := range batch {
		if l := s.look; l != nil {
			h.looked(l)
		}
	}
	h.mu.Unlock()
	for _, e := range events {
		h.o.Observe(e)
	}
	if a != nil { // after the event of its being published come those of its deliveries
		h.mu.Lock()
		defer h.mu.Unlock()
		a.end(batch[0].note.Number)
	}
}
