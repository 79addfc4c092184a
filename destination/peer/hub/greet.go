package hub

import (
	"context"
	"time"

	"resyncd/destination/websub"
)

// A subscriber that has just answered its verification counts itself as subscribed, while the answer is still on its way
// to us and then to the disk. What is published in that moment is not to pass it by, so a publisher waits for new
// subscribers of its topic that were asked just now: a little, so that nobody can hold it up by not answering.
const (
	greetMost = 250 * time.Millisecond // that a publisher waits
	greetAge  = time.Second            // of a verification that is waited for
)

// asked notes that a new subscriber is being asked.
func (h *Hub) asked(in *intent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	topic := in.form.Topic
	if in.form.Mode != websub.ModeSubscribe || in.denied != "" || h.laneOf(pair{topic, in.form.Callback}) != nil {
		return
	}
	if h.asking[topic] == nil {
		h.asking[topic] = map[*intent]time.Time{}
	}
	h.asking[topic][in] = time.Now()
}

// settled ends that: the subscriber is recorded, or is none.
func (h *Hub) settled(in *intent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	topic := in.form.Topic
	delete(h.asking[topic], in)
	if len(h.asking[topic]) == 0 {
		delete(h.asking, topic)
	}
	close(in.over)
}

// greet waits for a topic's new subscribers.
func (h *Hub) greet(ctx context.Context, topic string) {
	h.mu.Lock()
	var over []chan struct{}
	for in, since := range h.asking[topic] {
		if time.Since(since) < greetAge*h.o.leisure {
			over = append(over, in.over)
		}
	}
	h.mu.Unlock()
	if len(over) == 0 {
		return
	}
	late := time.NewTimer(greetMost * h.o.leisure)
	defer late.Stop()
	for _, c := range over {
		select {
		case <-c:
		case <-late.C:
			return
		case <-ctx.Done():
			return
		}
	}
}
