package hub

import (
	"context"

	"resyncd/destination/peer/hub/hubstate"
)

// ahead is a notification that is delivered while it is being recorded, to subscribers that have all before it: a transaction
// on an idle machine takes 0.3 ms, as long as the whole way to a subscriber. It is nobody's yet. Where it is not recorded its
// publisher is told so and publishes it again, and it is delivered twice; what no lane does before it is recorded is to move its
// cursor, because the number may then become another notification's.
type ahead struct {
	topic *topic
	note  hubstate.Notification // with the number that it is going to have; the publisher's own gets it from the state
	over  chan struct{}         // closed when it is recorded, or is not going to be
	void  bool                  // it is not going to be; Hub.mu guards it, and it does not change after over
}

// announce has the one notification of a batch delivered ahead. A batch of several is none of an idle hub, and how many of them
// waited and which were dropped is for those to count that are recorded.
func (h *Hub) announce(batch []*submission) *ahead {
	if len(batch) != 1 || batch[0].note == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[batch[0].note.Topic]
	if t == nil {
		return nil
	}
	a := &ahead{topic: t, note: *batch[0].note, over: make(chan struct{})}
	a.note.Number = t.last + 1
	t.ahead = a
	h.wakeTopic(t)
	return a
}

// end tells those who deliver a what became of it: a number in the state, or 0. h.mu is held.
func (a *ahead) end(number int64) {
	if a != nil && a.topic.ahead == a {
		a.topic.ahead = nil
		a.void = number != a.note.Number
		close(a.over)
	}
}

// withdraw ends a where its commit failed.
func (h *Hub) withdraw(a *ahead) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a.end(0)
}

// stands waits until a is recorded; false if it is not going to be. Nil was recorded before it was delivered.
func (a *ahead) stands(ctx context.Context) bool {
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

// behind reports whether there is anything that a lane has not dealt with. Hub.mu is held.
func (l *lane) behind() bool { return l.topic.last > l.cursor || l.ahead() != nil }

// ahead is what is ahead for a lane that has all before it, nil for nothing. Hub.mu is held.
func (l *lane) ahead() *ahead {
	if a := l.topic.ahead; a != nil && l.cursor == a.note.Number-1 {
		return a
	}
	return nil
}

// again ends a lane's running, and begins it anew if something waits.
func (h *Hub) again(l *lane) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l.running = false
	h.wake(l)
}
