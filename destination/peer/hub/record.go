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

	waitingBytes = 64 << 20 // of the commits that wait for the next transaction
	commitBytes  = 4 << 10  // of a commit beside its content
)

// writes are what the hub has to write to its state. Hub.mu guards all but the last two.
type writes struct {
	moved     map[*subscription]bool // whose progress is not recorded yet
	recording bool                   // progress is, or will be soon
	waiting   []*waitingCommit
	size      int  // of those
	writing   bool // somebody writes what waits
	bad       int  // failed transactions in a row
	running   sync.WaitGroup
	failed    chan error // of one place: why Run is to give up
}

type waitingCommit struct {
	*hubstate.Commit
	done chan error // of one place
}

// commit makes c durable, together with whatever else waits for that. Deliveries begin as soon as it can be read, while
// the disk confirms; publishers wait for that, but no longer than ctx: a disk that hangs does not keep connections.
func (h *Hub) commit(ctx context.Context, c *hubstate.Commit) error {
	own := &waitingCommit{c, make(chan error, 1)}
	if err := h.awaitWrite(own); err != nil {
		return err
	}
	select {
	case err := <-own.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *Hub) awaitWrite(c *waitingCommit) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	w, size := &h.writes, c.size()
	switch {
	case h.phase == idle || h.phase == stopped:
		return errStopping
	case w.size > 0 && w.size+size > waitingBytes:
		return errBusy
	}
	w.waiting = append(w.waiting, c)
	w.size += size
	if !w.writing {
		w.writing = true
		w.running.Go(h.write)
	}
	return nil
}

func (c *waitingCommit) size() int {
	size := commitBytes
	for _, n := range c.Notifications {
		size += len(n.Body)
	}
	return size
}

// write commits what waits, all in one transaction, until nothing does.
func (h *Hub) write() {
	for {
		h.mu.Lock()
		batch := h.writes.waiting
		h.writes.waiting, h.writes.size, h.writes.writing = nil, 0, len(batch) > 0
		h.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		err := errUnrecorded
		h.guarded("commit", func() { err = h.writeBatch(batch) })
		h.wrote(err)
		for _, c := range batch {
			c.done <- err
		}
	}
}

func (h *Hub) writeBatch(batch []*waitingCommit) error {
	c := &hubstate.Commit{Keep: int64(h.o.QueueCap), KeepBytes: h.o.queueBytes}
	for _, one := range batch {
		c.Notifications = append(c.Notifications, one.Notifications...)
		c.Progress = append(c.Progress, one.Progress...)
		c.Pings = append(c.Pings, one.Pings...)
		c.Looks = append(c.Looks, one.Looks...)
	}
	c.Readable = func() { h.readable(c) }
	return h.o.State.Commit(context.Background(), c)
}

// wrote notes how a transaction ended. Run gives up over many that failed (F10).
func (h *Hub) wrote(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
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
		h.later(func(context.Context) { _ = h.recordProgress() })
	})
}

// recordProgress records what was noted; what cannot be recorded is noted once more.
func (h *Hub) recordProgress() error {
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
		c.Progress = append(c.Progress, sub.Subscription)
		sub.Delivered, sub.Dropped = 0, 0
	}
	h.mu.Unlock()
	var err error
	if len(c.Progress) > 0 {
		err = h.commit(context.Background(), &c) // one that was left might count twice
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
		if t := h.registry.topics[p.URL]; t != nil {
			t.Pinged = max(p.Pinged, t.Pinged+1)
			t.tries = 0
			h.readLater(t)
		}
	}
	for i := range c.Looks {
		h.looked(&c.Looks[i])
	}
}
