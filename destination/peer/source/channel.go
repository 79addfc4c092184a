package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"resyncd/destination/fetch"
	"resyncd/destination/peer/source/faults"
	"resyncd/destination/rsdoc"
	"resyncd/destination/websub"
)

// fetchPatience is how long a traditional hub may take to fetch the topic before the next notification replaces it.
const fetchPatience = 2 * time.Second

// feedLag lets the Change Notification of the same change go first: at the same moment, the two delay each other.
const feedLag = 5 * time.Millisecond

// The kinds of channels beside those of rsdoc.
const (
	changeFeedKind rsdoc.Kind = "change-feed"
	recordFeedKind rsdoc.Kind = "record-feed"
)

// channel makes notifications of one kind and sends them in order. The topic guards itself, and what is not said
// to have another guard is run's own.
type channel struct {
	s     *Source
	kind  rsdoc.Kind
	name  string // of the topic, below the root
	topic topic
	hub   *hub
	// render makes what the hub gets of a batch, once readers of the topic see it (P-05).
	render    func(batch) ([]byte, error)
	mediaType string
	related   []websub.Link // beside hub and self
	every     time.Duration // that changes come together for

	// What is in no notification yet, oldest first, and what was reached before. It is bounded (P8): beyond, the oldest
	// batch goes, and subscribers see the hole. The Source's lock guards it, as each change is in it once it can be
	// fetched (F93).
	batches []*batch
	reached rsdoc.Micros
	wake    chan struct{} // gets a signal when a batch is begun

	shown  batch // what the topic shows
	faults faults.Line[batch]

	send     func(context.Context, fetch.Message) (*fetch.Answer, error)
	failures int           // in a row, of posts
	pause    time.Duration // before the next post
}

// openChannels makes the two channels and one for each feed. They begin with the Source: after a restart, the
// hole is there to see.
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
	// Readers of an earlier Capability List have to read it again.
	s.announce(documentChange{
		loc: s.at(capabilityList), kind: rsdoc.KindCapabilityList, change: rsdoc.ChangeUpdated, at: s.begin,
	})
	return nil
}

func newChannel(s *Source, h *hub, kind rsdoc.Kind, name string) *channel {
	c := &channel{s: s, kind: kind, name: name, hub: h, mediaType: notificationType}
	c.render, c.every = c.show, s.options.NotifyEvery
	c.related = []websub.Link{{Target: s.at(capabilityList), Rels: []string{rsdoc.RelResourceSync}}}
	c.reached, c.wake = s.begin, make(chan struct{}, 1)
	c.send = s.options.Client.Send
	if kind != rsdoc.KindFrameworkNotification {
		c.faults = faults.NewLine(s.options.Faults, forged)
	}
	return c
}

// newFeedChannel makes the channel of a feed. Its topic only keeps whether the feed was fetched.
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

// setChannels lists those that the Capability List names.
func (s *Source) setChannels() []*channel {
	if s.changes == nil {
		return nil
	}
	return []*channel{s.changes, s.framework}
}

func (s *Source) channels() []*channel {
	all := s.setChannels()
	for _, f := range s.feeds() {
		if f.channel != nil {
			all = append(all, f.channel)
		}
	}
	return all
}

// links is the Link header on the topic and on what is posted (P-01).
func (c *channel) links() string { return websub.LinkHeader(c.hub.url, c.s.at(c.name), c.related...) }

// run publishes until ctx ends. The intervals of the next run begin anew.
func (c *channel) run(ctx context.Context) {
	for c.await(ctx) {
		for i, n := range c.faults.Pass(c.take()) {
			if i > 0 && !c.untilFetched(ctx) || !c.deliver(ctx, n) {
				return
			}
		}
	}
}

// deliver sends a notification and reports it; false when ctx has ended.
func (c *channel) deliver(ctx context.Context, n faults.Sending[batch]) bool {
	if n.Err == nil {
		n.Err = c.publish(ctx, n.What)
	}
	if ctx.Err() != nil {
		return false
	}
	log := c.log(&n.What)
	if n.Err != nil {
		log.Warn("notification given up, subscribers will see a gap", "err", n.Err)
	} else {
		log.Debug("notification sent")
	}
	return true
}

// log is the log, about a notification.
func (c *channel) log(b *batch) *slog.Logger {
	return c.s.options.Logger.With("kind", c.kind, "changes", b.len(),
		"from", b.from.String(), "until", b.until.String())
}

// await returns when there is something to publish; false when ctx ends.
func (c *channel) await(ctx context.Context) bool {
	for c.waiting() == 0 {
		select {
		case <-ctx.Done():
			return false
		case <-c.wake:
		case <-c.faults.Late():
			if !c.untilFetched(ctx) || !c.deliver(ctx, c.faults.Release()) {
				return false
			}
		}
	}
	return c.gather(ctx) && c.untilFetched(ctx)
}

// gather lets changes come together, or until a notification is full.
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
		case <-c.wake:
		}
	}
	return true
}

// untilFetched gives a traditional hub the time to fetch the topic.
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
	return len(c.batches)
}

// take takes the next notification out; there is one. The last interval ends now, at an instant that no change has.
func (c *channel) take() batch {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	b := c.oldest()
	if len(c.batches) == 0 {
		b.until = c.s.clock.tick()
		c.reached = b.until
	}
	return b
}

// publish puts a notification on the topic, then notifies the hub (P-05).
func (c *channel) publish(ctx context.Context, b batch) error {
	body, err := c.render(b)
	if err != nil {
		return err
	}
	return c.post(ctx, c.hub.message(c, body))
}

// show puts a notification on the topic, joined to one that a traditional hub has not fetched yet. Where that is too
// large, subscribers see a gap.
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

// notification writes a Change or Framework Notification. The latter has no interval: a missed one is made
// good by the next poll.
func (c *channel) notification(b batch) ([]byte, error) {
	head, entries := rsdoc.NewHead(rsdoc.List, c.kind), documentEntries(b.documents)
	head.Links = []rsdoc.Link{rsdoc.NewLink(rsdoc.RelUp, b.up)}
	if c.kind != rsdoc.KindFrameworkNotification {
		head.From, head.Until = b.from, b.until
		entries = c.s.changeEntries(b.changes)
	}
	var body bytes.Buffer
	if err := c.s.write(&body, head, entries); err != nil {
		return nil, fmt.Errorf("write a notification: %w", err)
	}
	return body.Bytes(), nil
}

// forged is a notification with its interval, in which everything was deleted.
func forged(b batch) batch {
	changes := make([]change, len(b.changes))
	for i, c := range b.changes {
		c.kind, c.live = rsdoc.ChangeDeleted, false
		changes[i] = c
	}
	b.changes = changes
	return b
}

// topic is what the topic URI of a channel shows.
type topic struct {
	mu     sync.Mutex
	body   []byte
	at     rsdoc.Micros
	number uint64
	// read is closed when somebody fetches the body.
	read chan struct{}
	done bool // read is closed
}

// show replaces the body. Nobody fetches it while build works, which gets whether the present one was fetched.
func (t *topic) show(build func(fetched bool) ([]byte, rsdoc.Micros, error)) ([]byte, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	body, at, err := build(t.read == nil || t.done)
	if err != nil {
		return nil, err
	}
	t.body, t.at, t.read, t.done = body, at, make(chan struct{}), false
	t.number++
	return body, nil
}

func (t *topic) fetched() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.read
}

func (t *topic) current(fetch bool) (body []byte, at rsdoc.Micros, number uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if fetch && t.read != nil && !t.done {
		close(t.read)
		t.done = true
	}
	return t.body, t.at, t.number
}

// text is the topic: the links that name hub and topic (P-01, R-04), and the latest notification.
func (c *channel) text(fetched bool) text {
	body, at, number := c.topic.current(fetched)
	if number == 0 {
		at = c.s.begin
	}
	return text{
		tag: fmt.Sprintf("n%d", number), modified: at, mediaType: c.mediaType,
		body: body, links: c.links(),
	}
}
