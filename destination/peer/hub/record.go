package hub

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"resyncd/destination/peer/hub/hubstate"
	"resyncd/store"
)

const (
	// progressEvery is how much of the deliveries is made again after a kill.
	progressEvery = 100 * time.Millisecond
	badCommits    = 20 // in a row, but for a full disk, after which Run gives up: reopening may help (F10)

	commitsMost = 64 << 20 // bytes of content in commits that are not durable yet
	commitSize  = 4 << 10  // of a commit beside its content
)

// writes are what the hub has to write to its state. Hub.mu guards moved, recording, size and bad.
type writes struct {
	moved     map[*subscription]bool // whose progress is not recorded yet
	recording bool                   // progress is, or will be soon
	size      int                    // of the commits under way, bounded by commitsMost
	bad       int                    // failed commits in a row
	order     sync.Mutex             // of commits until they can be read; taken before Hub.mu
	running   sync.WaitGroup
	failed    chan error // of one place: why Run is to give up
}

// commit makes c durable. Deliveries begin as soon as it can be read, while the disk confirms; publishers wait for
// that, but no longer than ctx, so that a disk that hangs does not keep their connections.
func (h *Hub) commit(ctx context.Context, c *hubstate.Commit) error {
	size := commitSize
	for _, n := range c.Notifications {
		size += len(n.Body)
	}
	h.mu.Lock()
	w := &h.writes
	var refused error
	switch {
	case h.phase == idle || h.phase == stopped:
		refused = errStopping
	case w.size > 0 && w.size+size > commitsMost:
		refused = errBusy
	default:
		w.size += size
		w.running.Add(1)
	}
	h.mu.Unlock()
	if refused != nil {
		return refused
	}
	done := make(chan error, 1)
	go func() {
		defer w.running.Done()
		err := errUnrecorded
		h.guarded("commit", func() { err = h.write(context.WithoutCancel(ctx), c) })
		h.wrote(err, size)
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// write commits one after another until they can be read, so that memory takes them up in the order of the state.
func (h *Hub) write(ctx context.Context, c *hubstate.Commit) error {
	h.writes.order.Lock()
	next := sync.OnceFunc(h.writes.order.Unlock)
	defer next()
	c.Keep, c.KeepBytes = int64(h.o.QueueCap), h.o.queueBytes
	c.Readable = func() {
		h.readable(c)
		next()
	}
	return h.o.State.Commit(ctx, c)
}

// wrote notes how a commit ended. Run gives up over many that failed (F10).
func (h *Hub) wrote(err error, size int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.writes.size -= size
	switch {
	case err == nil:
		h.writes.bad = 0
		return
	case !errors.Is(err, store.ErrFull):
		h.writes.bad++
	}
	h.o.Log.Error("the hub's state cannot be written", "err", err)
	if h.writes.bad >= badCommits {
		h.giveUp(err)
	}
	h.noteUnsure(err)
}

// noteUnsure has Run give up over a write that may or may not be durable: only opening the state anew recovers (F10).
func (h *Hub) noteUnsure(err error) {
	if errors.Is(err, store.ErrUnsure) {
		h.giveUp(err)
	}
}

func (h *Hub) giveUp(err error) {
	select {
	case h.writes.failed <- unwritable(err):
	default:
	}
}

func unwritable(err error) error { return fmt.Errorf("the hub's state cannot be written: %w", err) }

// progressed notes what became of a delivery; it is recorded a little later, with others. h.mu is held.
func (h *Hub) progressed(sub *subscription, delivered, dropped int64) {
	sub.Delivered += delivered
	sub.Dropped += dropped
	h.writes.moved[sub] = true
	h.recordSoon()
}

// recordSoon has progress recorded unless that is under way: a disk that hangs holds one recording. h.mu is held.
func (h *Hub) recordSoon() {
	if h.writes.recording || len(h.writes.moved) == 0 {
		return
	}
	h.writes.recording = true
	time.AfterFunc(progressEvery, func() {
		h.later(func(ctx context.Context) { _ = h.recordProgress(ctx) })
	})
}

// recordProgress records what was noted; what cannot be recorded is noted once more.
func (h *Hub) recordProgress(ctx context.Context) error {
	var c hubstate.Commit
	h.mu.Lock()
	moved := h.writes.moved
	h.writes.moved = map[*subscription]bool{}
	var subs []*subscription
	for sub := range moved {
		if sub.ended {
			continue
		}
		subs = append(subs, sub)
		c.Progress = append(c.Progress, hubstate.Progress{SubscriptionID: sub.ID, Cursor: sub.Cursor,
			Attempts: sub.Attempts, Next: sub.Next, Delivered: sub.Delivered, Dropped: sub.Dropped})
		sub.Delivered, sub.Dropped = 0, 0
	}
	h.mu.Unlock()
	var err error
	if len(c.Progress) > 0 {
		err = h.commit(context.WithoutCancel(ctx), &c) // one that was left might count twice
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		for i, p := range c.Progress {
			subs[i].Delivered += p.Delivered
			subs[i].Dropped += p.Dropped
			h.writes.moved[subs[i]] = true
		}
	}
	h.writes.recording = false
	h.recordSoon()
	return err
}

// readable brings memory up to what can be read in the state now, and wakes what waits for it.
func (h *Hub) readable(c *hubstate.Commit) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range c.Notifications {
		if t := h.registry.topics[n.Topic]; t != nil && n.Number > 0 {
			h.recent.add(t.ID, n)
			t.Last = max(t.Last, n.Number)
			t.Digest, t.ETag, t.LastModified = n.Digest, "", ""
			h.wakeTopic(t)
			h.o.Log.Debug("content was published", "topic", t.URL, "number", n.Number)
		}
	}
	for _, p := range c.Pings {
		if t := h.registry.topics[p.Topic]; t != nil {
			t.Pinged = max(p.At, t.Pinged+1)
			t.tries = 0
			h.readLater(t)
		}
	}
	for i := range c.Looks {
		h.looked(&c.Looks[i])
	}
}
