package hub

import (
	"context"
	"errors"
	"fmt"
	"time"

	"resyncd/destination/peer/hub/hubstate"
	"resyncd/store"
)

const (
	// progressEvery is how much of the deliveries is made again after a kill.
	progressEvery = 100 * time.Millisecond
	badCommits    = 20 // in a row, but for a full disk, after which Run gives up: reopening may help (F10)
)

var (
	errStopping = errors.New("the hub is not running: try again")
	errBusy     = errors.New("the hub has too much to record: try again")
)

// record alone commits notifications and progress, until done is closed and all is recorded, or the state fails for
// good.
func (h *Hub) record(ctx context.Context, done <-chan struct{}) error {
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.backlog.close()
	}()
	due := h.backlog.due
	defer due.Stop()
	last := time.Time{} // when progress was last recorded
	for bad := 0; ; {
		final := false
		select {
		case <-h.backlog.hasPending:
		case <-due.C:
		case err := <-h.backlog.unsure:
			return unwritable(err)
		case <-done:
			final = true
		}
		progress := final || time.Since(last) >= progressEvery
		if progress {
			last = time.Now()
		}
		err := h.commit(ctx, progress, final)
		switch {
		case err == nil:
			bad = 0
		case !errors.Is(err, store.ErrFull):
			bad++
		}
		if err != nil {
			due.Reset(progressEvery)
		}
		if final && bad == 0 {
			return nil
		}
		if final || bad >= badCommits {
			return unwritable(err)
		}
	}
}

func unwritable(err error) error { return fmt.Errorf("the hub's state cannot be written: %w", err) }

// commit records what waits: one transaction, or on the way out as many as it takes.
func (h *Hub) commit(ctx context.Context, progress, all bool) error {
	for {
		h.mu.Lock()
		batch, moved, more := h.backlog.take(progress)
		h.mu.Unlock()
		if len(batch) == 0 && len(moved) == 0 {
			return nil
		}
		c := hubstate.Commit{Keep: int64(h.o.QueueCap), KeepBytes: h.o.queueBytes}
		for _, s := range batch {
			c.Notifications = append(c.Notifications, s.Notifications...)
			c.Pings = append(c.Pings, s.Pings...)
			c.Looks = append(c.Looks, s.Looks...)
		}
		for _, p := range moved {
			c.Progress = append(c.Progress, *p)
		}
		// Deliveries begin while the disk confirms; publishers wait for it.
		c.Readable = func() { h.readable(&c) }
		err := h.o.State.Commit(ctx, &c)
		if err != nil {
			h.o.Log.Error("the hub's state cannot be written", "err", err)
			h.backlog.noteUnsure(err)
			h.mu.Lock()
			h.backlog.putBack(moved)
			h.mu.Unlock()
		}
		for _, s := range batch {
			s.done <- err
		}
		if err != nil || !more {
			return err
		}
		if !all {
			signal(h.backlog.hasPending)
			return nil
		}
	}
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
