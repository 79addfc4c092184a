package source

import (
	"context"
	"time"

	"resyncd/destination/peer/source/faults"
	"resyncd/destination/rsdoc"
	"resyncd/destination/websub"
)

// fetchPatience is how long a hub that was told in the traditional way may take to fetch the topic before something new
// goes on top of it.
const fetchPatience = 2 * time.Second

// feedLag is how long the feed of changes lets the Change Notification of the same change go first. Told at the same moment, the
// two took turns on the processors of the Source and of its hub: 0.1 of the 2.2 ms that a push takes in all.
const feedLag = 5 * time.Millisecond

// channel makes notifications of one kind out of what happens, and tells them in order. Its goroutine is run; the
// outbox belongs to whoever holds the Source's lock, the topic guards itself, and the rest is run's own.
type channel struct {
	s     *Source
	kind  rsdoc.Kind
	name  string // of the topic, below the root
	out   outbox
	topic topic
	hub   *hub
	// render makes what the hub is told of a batch, once whoever fetches the topic sees it (P-05).
	render    func(batch) ([]byte, error)
	mediaType string
	related   []websub.Link // beside hub and self
	every     time.Duration // that changes come together for

	teller teller
	shown  batch // what the topic says
	faults faults.Line[batch]
}

func newChannel(s *Source, h *hub, kind rsdoc.Kind, name string) *channel {
	c := &channel{s: s, kind: kind, name: name, hub: h, mediaType: notificationType}
	c.render, c.every = c.show, s.options.NotifyEvery
	c.related = []websub.Link{{Target: h.up, Rels: []string{rsdoc.RelResourceSync}}}
	c.out = newOutbox(s.options.NotifyMax, s.options.NotifyQueue, s.begin)
	c.teller = teller{send: s.options.Client.Send, log: s.options.Logger, kind: kind}
	if kind != rsdoc.KindFrameworkNotification {
		c.faults = faults.NewLine(s.options.Faults, forged)
	}
	return c
}

// newFeedChannel makes the channel of a feed. Its topic is the feed, which is served whether anybody is told or not; what
// the channel keeps as its topic only tells whether it was fetched since.
func newFeedChannel(f *webFeed, h *hub) *channel {
	c := newChannel(f.s, h, f.kind, f.name)
	c.mediaType, c.related = f.faults.MediaType(), nil
	c.render = f.news
	if f.kind == KindChangeFeed {
		c.every = max(c.every, feedLag)
	}
	if h.traditional {
		c.render = func(b batch) ([]byte, error) {
			return c.topic.show(func(bool) ([]byte, rsdoc.Micros, error) { return nil, b.until, nil })
		}
	}
	return c
}

// links is the Link header of the channel, the same on its topic and on what is posted (P-01).
func (c *channel) links() string { return websub.LinkHeader(c.hub.url, c.s.at(c.name), c.related...) }

// run publishes until ctx ends. What is not told by then never is; nobody will believe it was, because the next run's
// intervals begin anew.
func (c *channel) run(ctx context.Context) {
	for c.await(ctx) {
		b, ok := c.take()
		if !ok {
			continue
		}
		for i, t := range c.faults.Pass(b) {
			if i > 0 && !c.untilFetched(ctx) || !c.deliver(ctx, t) {
				return
			}
		}
	}
}

// deliver tells the hub and reports what became of it; false when ctx has ended.
func (c *channel) deliver(ctx context.Context, t faults.Sending[batch]) bool {
	if t.Err == nil {
		t.Err = c.tell(ctx, t.What)
	}
	if ctx.Err() != nil {
		return false
	}
	c.s.report(t.What.notification(c.kind, t.Err))
	return true
}

// await returns when there is something to publish and it has waited as long as it should; false when ctx ends.
func (c *channel) await(ctx context.Context) bool {
	for c.waiting() == 0 {
		select {
		case <-ctx.Done():
			return false
		case <-c.out.wake:
		case <-c.faults.Late():
			if !c.untilFetched(ctx) || !c.deliver(ctx, c.faults.Release()) {
				return false
			}
		}
	}
	return c.gather(ctx) && c.untilFetched(ctx)
}

// gather lets changes come together for a time, or until a notification is full.
func (c *channel) gather(ctx context.Context) bool {
	if c.every <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(c.every)
	defer timer.Stop()
	for c.waiting() < 2 {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
			return true
		case <-c.out.wake:
		}
	}
	return true
}

// untilFetched gives a hub that was told in the traditional way the time to fetch what it was told of. A topic can say
// only one thing at a time, so the next notification must not take the place of one that nobody has read; and of a feed
// that nobody has read yet there is nothing more to tell. Changes that happen meanwhile come together in the next one.
// See also show.
func (c *channel) untilFetched(ctx context.Context) bool {
	fetched := c.topic.fetched()
	if !c.hub.traditional || fetched == nil {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(fetchPatience)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-fetched:
	case <-timer.C:
	}
	return true
}

func (c *channel) waiting() int {
	c.s.mu.RLock()
	defer c.s.mu.RUnlock()
	return len(c.out.waiting)
}

// take removes the next notification from the outbox, and reports what the outbox had to drop before it.
func (c *channel) take() (batch, bool) {
	c.s.mu.Lock()
	lost, n := c.out.dropped()
	b, ok := c.out.take(&c.s.clock)
	c.s.mu.Unlock()
	c.reportLoss(lost, n)
	return b, ok
}

// lookForLoss reports what the outbox had to drop while the hub keeps failing.
func (c *channel) lookForLoss() {
	c.s.mu.Lock()
	lost, n := c.out.dropped()
	c.s.mu.Unlock()
	c.reportLoss(lost, n)
}

func (c *channel) reportLoss(lost batch, n int) {
	if n == 0 {
		return
	}
	c.s.options.Logger.Warn("notifications dropped, subscribers will see a gap", "kind", c.kind, "changes", n,
		"from", lost.from.String(), "until", lost.until.String())
	told := lost.notification(c.kind, ErrNotifyBehind)
	told.Changes = n
	c.s.report(told)
}

// tell puts a notification on the topic and then tells the hub (P-05).
func (c *channel) tell(ctx context.Context, b batch) error {
	body, err := c.render(b)
	if err != nil {
		return err
	}
	return c.teller.tell(ctx, c.hub.message(c, body), c.lookForLoss)
}

// show puts a notification on the topic. In the traditional way the hub fetches it at a time of its own choosing. If the
// one before has not been fetched by then, the new one takes it in: its interval begins earlier, and nothing is lost. If
// that makes it too large it stands alone, and the hub's subscribers see a gap. Any GET counts as the hub's: where another
// reader was taken for it, a gap shows too, never a silent loss.
func (c *channel) show(b batch) ([]byte, error) {
	return c.topic.show(func(fetched bool) ([]byte, rsdoc.Micros, error) {
		whole := b
		if c.hub.traditional && !fetched && b.from == c.shown.until && b.up == c.shown.up &&
			b.len()+c.shown.len() <= c.s.options.NotifyMax && b.size+c.shown.size <= maxNotificationBytes {
			whole = c.shown.join(b)
		}
		body, err := c.s.notificationBody(c.kind, whole)
		c.shown = whole
		return body, whole.until, err
	})
}
