package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"resyncd/destination/peer/source/faults"
	"resyncd/destination/rsdoc"
	"resyncd/destination/websub"
)

// fetchPatience is how long a hub that was told in the traditional way may take to fetch the topic before something new
// goes on top of it.
const fetchPatience = 2 * time.Second

// feedLag is how long the feed of changes lets the Change Notification of the same change go first: at the same moment,
// the two would delay each other.
const feedLag = 5 * time.Millisecond

// The kinds of a channel beside KindChangeNotification and KindFrameworkNotification of rsdoc.
const (
	changeFeedKind rsdoc.Kind = "change-feed"
	recordFeedKind rsdoc.Kind = "record-feed"
)

// notification is what became of one notification, as tests hear it.
type notification struct {
	kind rsdoc.Kind // of the channel
	// from and until are its interval; each from is the until of the one before.
	from, until rsdoc.Micros
	entries     int
	// err is nil for one that the hub has taken. faults.ErrDropped and errBehind tell others from a refusal.
	err error
}

// errBehind is in notification.err where more waited than notifyQueue allows. It may then be about several in a row.
var errBehind = errors.New("dropped: the hub is too far behind")

// channel makes notifications of one kind out of what happens, and sends them in order. Its goroutine is run; the
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

	sender sender
	shown  batch // what the topic shows
	faults faults.Line[batch]
}

// openChannels makes the two channels and one for each feed, all beginning at the Source's own beginning: what an
// earlier run told last is not known any more, and the hole between the two is there for all to see.
func (s *Source) openChannels() error {
	if s.options.Publish == PublishOff {
		return nil
	}
	if s.options.Client == nil {
		return errors.New("a Source with a hub needs a Client to reach it")
	}
	hub, err := newHub(&s.options)
	if err != nil {
		return err
	}
	s.changes = newChannel(s, hub, rsdoc.KindChangeNotification, changeTopic)
	s.framework = newChannel(s, hub, rsdoc.KindFrameworkNotification, frameworkTopic)
	for _, f := range s.feeds() {
		f.channel = newFeedChannel(f, hub)
	}
	// A new run has a new history: whoever knows the Capability List from the one before has to read it again.
	s.announce(documentChange{
		loc: s.at(capabilityList), kind: rsdoc.KindCapabilityList, change: rsdoc.ChangeUpdated, at: s.begin,
	})
	return nil
}

func newChannel(s *Source, h *hub, kind rsdoc.Kind, name string) *channel {
	c := &channel{s: s, kind: kind, name: name, hub: h, mediaType: notificationType}
	c.render, c.every = c.show, s.options.NotifyEvery
	c.related = []websub.Link{{Target: h.up, Rels: []string{rsdoc.RelResourceSync}}}
	c.out = newOutbox(s.options.NotifyMax, s.options.notifyQueue, s.begin)
	c.sender = sender{send: s.options.Client.Send, log: s.options.Logger, kind: kind}
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
	c.render = f.newEntries
	if f.kind == changeFeedKind {
		c.every = max(c.every, feedLag)
	}
	if h.traditional {
		c.render = func(b batch) ([]byte, error) {
			return c.topic.show(func(bool) ([]byte, rsdoc.Micros, error) { return nil, b.until, nil })
		}
	}
	return c
}

// setChannels lists those of the set of resources, which its Capability List names; none without a hub.
func (s *Source) setChannels() []*channel {
	if s.changes == nil {
		return nil
	}
	return []*channel{s.changes, s.framework}
}

// channels lists them all; none without a hub.
func (s *Source) channels() []*channel {
	all := s.setChannels()
	for _, f := range s.feeds() {
		if f.channel != nil {
			all = append(all, f.channel)
		}
	}
	return all
}

// links is the Link header of the channel, the same on its topic and on what is posted (P-01).
func (c *channel) links() string { return websub.LinkHeader(c.hub.url, c.s.at(c.name), c.related...) }

// run publishes until ctx ends. What is not sent by then never is; nobody will believe it was, because the next run's
// intervals begin anew.
func (c *channel) run(ctx context.Context) {
	for c.await(ctx) {
		b, ok := c.take()
		if !ok {
			continue
		}
		for i, n := range c.faults.Pass(b) {
			if i > 0 && !c.untilFetched(ctx) || !c.deliver(ctx, n) {
				return
			}
		}
	}
}

// deliver sends a notification and reports what became of it; false when ctx has ended.
func (c *channel) deliver(ctx context.Context, n faults.Sending[batch]) bool {
	if n.Err == nil {
		n.Err = c.publish(ctx, n.What)
	}
	if ctx.Err() != nil {
		return false
	}
	c.report(&n.What, n.What.len(), n.Err)
	return true
}

// report hands a notification to the tests that listen.
func (c *channel) report(b *batch, entries int, err error) {
	if c.s.options.onNotify != nil {
		c.s.options.onNotify(notification{kind: c.kind, from: b.from, until: b.until, entries: entries, err: err})
	}
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

// untilFetched gives a hub that was told in the traditional way the time to fetch the topic: the next notification must
// not take the place of one that nobody has read. Changes that happen meanwhile come together in the next one.
func (c *channel) untilFetched(ctx context.Context) bool {
	fetched := c.topic.fetched()
	if !c.hub.traditional || fetched == nil {
		return ctx.Err() == nil
	}
	select {
	case <-ctx.Done():
		return false
	case <-fetched:
	case <-time.After(fetchPatience):
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
	c.report(&lost, n, errBehind)
}

// publish puts a notification on the topic and then tells the hub (P-05).
func (c *channel) publish(ctx context.Context, b batch) error {
	body, err := c.render(b)
	if err != nil {
		return err
	}
	return c.sender.deliver(ctx, c.hub.message(c, body), c.lookForLoss)
}

// show puts a notification on the topic. One that a traditional hub has not fetched yet is joined to it, so that nothing
// is lost; where that would make it too large, or where another reader was taken for the hub, subscribers see a gap.
func (c *channel) show(b batch) ([]byte, error) {
	return c.topic.show(func(fetched bool) ([]byte, rsdoc.Micros, error) {
		whole := b
		if c.hub.traditional && !fetched && b.from == c.shown.until && b.up == c.shown.up &&
			b.len()+c.shown.len() <= c.s.options.NotifyMax && b.size+c.shown.size <= maxNotificationBytes {
			whole = c.shown.join(b)
		}
		body, err := c.notification(whole)
		c.shown = whole
		return body, whole.until, err
	})
}

// notification writes a Change or Framework Notification. The latter has no interval: what it names is read
// again, and a missed one is made good by the next poll.
func (c *channel) notification(b batch) ([]byte, error) {
	d := document{head: rsdoc.NewHead(rsdoc.List, c.kind)}
	d.head.Links = []rsdoc.Link{rsdoc.NewLink(rsdoc.RelUp, b.up)}
	if c.kind == rsdoc.KindFrameworkNotification {
		d.entries = documentEntries(b.documents)
	} else {
		d.head.From, d.head.Until = b.from, b.until
		d.entries = c.s.changeEntries(b.changes)
	}
	var body bytes.Buffer
	if err := c.s.write(&body, d); err != nil {
		return nil, fmt.Errorf("write a notification: %w", err)
	}
	return body.Bytes(), nil
}

// forged says in an honest interval that everything was deleted.
func forged(b batch) batch {
	changes := make([]change, len(b.changes))
	for i, c := range b.changes {
		c.kind, c.live = rsdoc.ChangeDeleted, false
		changes[i] = c
	}
	b.changes = changes
	return b
}
