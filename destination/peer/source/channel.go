package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"time"

	"resyncd/destination/backoff"
	"resyncd/destination/fetch"
	"resyncd/destination/peer/source/faults"
	"resyncd/destination/rsdoc"
	"resyncd/destination/websub"
)

const (
	// fetchPatience is how long a traditional hub may take to fetch the topic before the next notification replaces it.
	fetchPatience = 2 * time.Second
	// feedLag lets the Change Notification of the same change go first: at the same moment, the two delay each other.
	feedLag = 5 * time.Millisecond
	// notifyQueue is how many full notifications wait for a slow hub; beyond, subscribers see a gap.
	notifyQueue = 100
	// maxNotificationBytes is about the largest notification, well below what hubs and callbacks take.
	maxNotificationBytes = 4 << 20

	notificationType = "application/xml"
	hubHops          = 5                 // how often a hub may redirect a post
)

// The kinds of channels beside those of rsdoc.
const (
	changeFeedKind rsdoc.Kind = "change-feed"
	recordFeedKind rsdoc.Kind = "record-feed"
)

// batch is what one notification tells: every event after from up to until, oldest first.
type batch struct {
	events      []event
	size        int // bytes, roughly
	from, until rsdoc.Micros
}

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

	// history has what is told, told is the number of the last event that is in a notification, and reached the instant
	// that those cover. What waits is bounded (P8): beyond, the oldest is left out, and subscribers see the hole. The
	// Source's lock guards it, as each change is in it once it can be fetched (F93).
	history *history
	told    int
	reached rsdoc.Micros
	wake    chan struct{} // gets a signal when there is more to tell

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
	s.changes = newChannel(s, hub, rsdoc.KindChangeNotification, changeTopic, s.journal.history)
	s.framework = newChannel(s, hub, rsdoc.KindFrameworkNotification, frameworkTopic, newHistory(s.begin))
	for _, f := range s.feeds() {
		f.channel = newFeedChannel(f, hub)
	}
	// Readers of an earlier Capability List have to read it again.
	s.announce(s.begin, rsdoc.ChangeUpdated, rsdoc.KindCapabilityList, capabilityList, "")
	return nil
}

func newChannel(s *Source, h *hub, kind rsdoc.Kind, name string, tells *history) *channel {
	c := &channel{
		s: s, kind: kind, name: name, hub: h, mediaType: notificationType, history: tells, told: tells.total(),
	}
	tells.readers = append(tells.readers, c)
	c.render, c.every = c.show, s.options.NotifyEvery
	c.related = []websub.Link{{Target: s.at(capabilityList), Rels: []string{rsdoc.RelResourceSync}}}
	c.reached, c.wake = s.begin, make(chan struct{}, 1)
	c.send = s.options.Client.Send
	if kind != rsdoc.KindFrameworkNotification {
		c.faults = faults.NewLine(s.options.Faults, forged)
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
	return c.s.options.Logger.With("kind", c.kind, "changes", len(b.events),
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
	for !c.full() {
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

// waiting is how many events wait.
func (c *channel) waiting() int {
	c.s.mu.RLock()
	defer c.s.mu.RUnlock()
	return c.history.total() - c.told
}

// full reports whether more waits than one notification tells.
func (c *channel) full() bool {
	c.s.mu.RLock()
	defer c.s.mu.RUnlock()
	return c.told+len(c.next().events) < c.history.total()
}

// added hears of a new event; the Source is locked.
func (c *channel) added() {
	if c.history.total()-c.told > c.s.options.notifyQueue*c.s.options.NotifyMax {
		b := c.oldest()
		c.log(&b).Warn("notifications dropped, subscribers will see a gap")
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// take takes the next notification out; there is one. The last interval ends now, at an instant that no change has.
func (c *channel) take() batch {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	b := c.oldest()
	if c.told == c.history.total() {
		b.until = c.s.instant()
		c.reached = b.until
	}
	return b
}

// oldest takes out the notification that has waited longest; the Source is locked.
func (c *channel) oldest() batch {
	b := c.next()
	c.told += len(b.events)
	c.reached = b.until
	if c.kind == rsdoc.KindFrameworkNotification { // nobody else reads it
		c.history.forget(c.told)
	}
	return b
}

// next lays out the next notification; the Source is locked. The two values of `up` never share one.
func (c *channel) next() batch {
	b := batch{from: c.reached, until: c.reached}
	events := c.history.span(c.told, min(c.history.total(), c.told+c.s.options.NotifyMax))
	for i, e := range events {
		size := c.size(&e)
		if i > 0 && (b.size+size > maxNotificationBytes || c.s.up(&e) != c.s.up(&events[0])) {
			break
		}
		b.events, b.size, b.until = events[:i+1], b.size+size, e.at
	}
	return b
}

// size is about what an event takes in a notification.
func (c *channel) size(e *event) int {
	switch {
	case e.edit != nil:
		size := 500 + len(e.edit.Subject) + len(e.edit.Author)
		for _, f := range e.edit.Fields {
			size += 60 + len(f.Name) + 2*len(f.Value)
		}
		return size
	case e.document != nil:
		return 400 + len(e.loc) + len(e.index)
	}
	uri := len(c.s.options.Base) + 3*len(e.name) // an escaped byte has three
	if c.kind == changeFeedKind {
		return 800 + 4*uri
	}
	if o := &c.s.options; o.Collections || o.Duplicate != "" || o.Patches {
		return 800 + 3*uri + len(o.Duplicate) + 80*len(o.Hashes)
	}
	return 400 + uri + 80*len(c.s.options.Hashes)
}

// up is where the root's `up` leads in a notification of an event.
func (s *Source) up(e *event) string {
	if e.document != nil && e.document.kind == rsdoc.KindCapabilityList {
		return s.Description()
	}
	return s.at(capabilityList)
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
		if old := &c.shown; c.hub.traditional && !fetched && b.from == old.until && len(old.events) > 0 &&
			c.s.up(&b.events[0]) == c.s.up(&old.events[0]) && b.size+old.size <= maxNotificationBytes &&
			len(b.events)+len(old.events) <= c.s.options.NotifyMax {
			whole.from, whole.size = old.from, b.size+old.size
			whole.events = slices.Concat(old.events, b.events)
		}
		body, err := c.notification(whole)
		c.shown = whole
		return body, whole.until, err
	})
}

// notification writes a Change or Framework Notification. The latter has no interval: a missed one is made
// good by the next poll.
func (c *channel) notification(b batch) ([]byte, error) {
	head := rsdoc.NewHead(rsdoc.List, c.kind)
	head.Links = []rsdoc.Link{rsdoc.NewLink(rsdoc.RelUp, c.s.up(&b.events[0]))}
	if c.kind != rsdoc.KindFrameworkNotification {
		head.From, head.Until = b.from, b.until
	}
	var body bytes.Buffer
	if err := c.s.write(&body, head, c.s.eventEntries(b.events)); err != nil {
		return nil, fmt.Errorf("write a notification: %w", err)
	}
	return body.Bytes(), nil
}

// forged is a notification with its interval, in which everything was deleted.
func forged(b batch) batch {
	b.events = slices.Clone(b.events)
	for i, e := range b.events {
		b.events[i].kind, b.events[i].record = rsdoc.ChangeDeleted, &record{name: e.name}
	}
	return b
}

// How a hub that does not take a notification is tried again (P-03).
const (
	firstPause = time.Second
	maxPause   = time.Minute
	maxAsked   = time.Hour // the longest Retry-After that is believed
	// refusals is how many end one notification, which must not stop all others (P11); a hub that is being set up
	// refuses for a moment.
	refusals = 3
)

// errRefused: the same again is not likely to help.
var errRefused = errors.New("refused")

type hub struct {
	url         string
	traditional bool
	policy      *fetch.Policy
}

// newHub reads the options. The operator wrote the hub down, so it may be on a private address.
func newHub(o *Options) (*hub, error) {
	u, err := url.Parse(o.Hub)
	if err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	h := &hub{url: o.Hub, traditional: o.Publish == PublishTraditional}
	h.policy = &fetch.Policy{Trusted: []string{u.Host}}
	if o.PublisherToken != "" {
		h.policy.Auth = &fetch.Auth{Bearer: o.PublisherToken}
		h.policy.AuthOrigin = u.Scheme + "://" + u.Host
	}
	return h, nil
}

func (h *hub) message(c *channel, body []byte) fetch.Message {
	m := fetch.Message{Method: http.MethodPost, URL: h.url, Policy: h.policy, Repeat: hubHops, Body: body}
	if h.traditional {
		// Both names of the topic: hubs know one or the other (P-03).
		topic := c.s.at(c.name)
		form := url.Values{"hub.mode": {string(websub.ModePublish)}, "hub.url": {topic}, "hub.topic": {topic}}
		m.Header = http.Header{"Content-Type": {websub.FormType}}
		m.Body = []byte(form.Encode())
		return m
	}
	m.Header = http.Header{"Content-Type": {c.mediaType}, "Link": {c.links()}}
	return m
}

// post posts a message until the hub takes it, keeps refusing, or ctx ends. A repetition has the same bytes, because
// the first may have arrived.
func (c *channel) post(ctx context.Context, m fetch.Message) error {
	for refused := 0; ; {
		if backoff.Wait(ctx, c.pause) != nil || ctx.Err() != nil {
			return ctx.Err()
		}
		answer, err := c.send(ctx, m)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			err = refusal(answer)
		}
		if err == nil {
			if c.failures > 0 {
				c.s.options.Logger.Info("hub takes notifications again", "kind", c.kind, "failures", c.failures)
			}
			c.failures, c.pause = 0, 0
			return nil
		}
		c.failed(answer, err)
		if errors.Is(err, errRefused) {
			if refused++; refused == refusals {
				return err
			}
		}
	}
}

// failed chooses the next pause: doubling, with jitter, or what the hub asks for.
func (c *channel) failed(answer *fetch.Answer, err error) {
	c.failures++
	if c.failures == 1 {
		c.s.options.Logger.Warn("hub does not take notifications, trying again", "kind", c.kind, "err", err)
	}
	c.pause = backoff.Doubled(firstPause, c.failures, maxPause)
	c.pause += rand.N(c.pause / 5)
	if answer != nil {
		c.pause = max(c.pause, min(answer.RetryAfter, maxAsked))
	}
}

// refusal is nil where the hub has taken the message: any 2xx (P-03).
func refusal(a *fetch.Answer) error {
	const most = 200
	body := a.Body[:min(len(a.Body), most)]
	switch {
	case a.Status/100 == 2:
		return nil
	case a.Status/100 == 5, a.Status == http.StatusTooManyRequests, a.Status == http.StatusRequestTimeout,
		a.Status == http.StatusTooEarly:
		return fmt.Errorf("tell the hub: status %d: %q", a.Status, body)
	case a.Status == http.StatusUnauthorized, a.Status == http.StatusForbidden:
		return fmt.Errorf("tell the hub: status %d, it may want a publisher token or not know the topic: %w: %q",
			a.Status, errRefused, body)
	}
	return fmt.Errorf("tell the hub: status %d: %w: %q", a.Status, errRefused, body)
}
