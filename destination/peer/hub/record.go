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
)

// writes are what the hub has to write to its state. Hub.mu guards moved and bad.
type writes struct {
	moved   map[*subscription]bool // whose progress is not recorded yet
	bad     int                    // failed writes in a row
	order   sync.Mutex             // of commits until they can be read; taken before Hub.mu
	running sync.WaitGroup
	failed  chan error // of one place: why Run is to give up
}

// commit makes c durable. Deliveries begin as soon as it can be read, while the disk confirms; publishers wait for
// that.
func (h *Hub) commit(ctx context.Context, c *hubstate.Commit) error {
	h.mu.Lock()
	if h.phase == idle || h.phase == stopped {
		h.mu.Unlock()
		return errStopping
	}
	h.writes.running.Add(1)
	h.mu.Unlock()
	defer h.writes.running.Done()
	h.writes.order.Lock() // until it can be read: memory takes up commits in the order of the state
	next := sync.OnceFunc(h.writes.order.Unlock)
	defer next()
	c.Keep, c.KeepBytes = int64(h.o.QueueCap), h.o.queueBytes
	c.Readable = func() {
		h.readable(c)
		next()
	}
	err := h.o.State.Commit(ctx, c)
	h.wrote(err)
	return err
}

// wrote notes how a write of the state ended. Run gives up over one that may or may not be durable, because only
// opening the state anew recovers, and over many that failed (F10).
func (h *Hub) wrote(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		h.writes.bad = 0
		return
	}
	h.o.Log.Error("the hub's state cannot be written", "err", err)
	if !errors.Is(err, store.ErrFull) {
		h.writes.bad++
	}
	if h.writes.bad >= badCommits || errors.Is(err, store.ErrUnsure) {
		select {
		case h.writes.failed <- fmt.Errorf("the hub's state cannot be written: %w", err):
		default:
		}
	}
}

// progressed notes what became of a delivery; it is recorded a little later, with others. h.mu is held.
func (h *Hub) progressed(sub *subscription, delivered, dropped int64) {
	sub.Delivered += delivered
	sub.Dropped += dropped
	if len(h.writes.moved) == 0 {
		time.AfterFunc(progressEvery, func() {
			h.later(func(ctx context.Context) { _ = h.recordProgress(ctx) })
		})
	}
	h.writes.moved[sub] = true
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
	if len(c.Progress) == 0 {
		return nil
	}
	err := h.commit(ctx, &c)
	if err == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, p := range c.Progress {
		h.progressed(subs[i], p.Delivered, p.Dropped)
	}
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
