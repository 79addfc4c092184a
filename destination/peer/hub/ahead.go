package hub

import (
	"context"

	"resyncd/destination/peer/hub/hubstate"
)

// ahead is a notification that is delivered while it is being recorded. No subscription may move its cursor over it
// before, because its number may become that of another one.
type ahead struct {
	topic *topic
	note  hubstate.Notification // with the number that it is going to have
	over  chan struct{}         // closed when it is recorded or void
	void  bool                  // it is not recorded; Hub.mu guards it until over
}

// announce has the one notification of a batch delivered ahead.
func (h *Hub) announce(batch []*submission) *ahead {
	if len(batch) != 1 || batch[0].note == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.registry.topics[batch[0].note.Topic]
	if t == nil {
		return nil
	}
	a := &ahead{topic: t, note: *batch[0].note, over: make(chan struct{})}
	a.note.Number = t.last + 1
	t.ahead = a
	h.wakeTopic(t)
	return a
}

// end closes a with its number in the state, or 0. h.mu is held.
func (a *ahead) end(number int64) {
	if a != nil && a.topic.ahead == a {
		a.topic.ahead = nil
		a.void = number != a.note.Number
		close(a.over)
	}
}

// recorded waits until a is recorded; false if it is not going to be. Nil is recorded.
func (a *ahead) recorded(ctx context.Context) bool {
	if a == nil {
		return true
	}
	select {
	case <-a.over:
		return !a.void
	case <-ctx.Done():
		return false
	}
}

// behind reports whether anything waits. Hub.mu is held.
func (sub *subscription) behind() bool { return sub.topic.last > sub.cursor || sub.ahead() != nil }

// ahead is what comes next, nil if that is recorded. Hub.mu is held.
func (sub *subscription) ahead() *ahead {
	if a := sub.topic.ahead; a != nil && sub.cursor == a.note.Number-1 {
		return a
	}
	return nil
}
