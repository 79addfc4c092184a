package source

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"resyncd/destination/rsdoc"
)

// Publish is how a hub is told.
type Publish string

// The ways. The empty one is PublishResourceSync where there is a hub and PublishOff where there is none.
const (
	// PublishResourceSync posts the notification itself to the hub, and of a feed what is new.
	PublishResourceSync Publish = "resourcesync"
	// PublishTraditional posts that the topic has changed, and the hub fetches it (P-03).
	PublishTraditional Publish = "traditional"
	// PublishOff has neither channels nor their topics, and its feeds name no hub.
	PublishOff Publish = "off"
)

// Defaults of Options about notifications.
const (
	DefaultNotifyMax   = 1_000
	DefaultNotifyQueue = 100
)

// The kinds of a Notification beside KindChangeNotification and KindFrameworkNotification of rsdoc.
const (
	// KindChangeFeed tells of what is new in the feed of changes.
	KindChangeFeed rsdoc.Kind = "change-feed"
	// KindRecordFeed tells of what is new in the record feed.
	KindRecordFeed rsdoc.Kind = "record-feed"
)

// Notification is what became of one notification, as OnNotify hears it.
type Notification struct {
	// Kind tells the channel: one of rsdoc or of the two above.
	Kind rsdoc.Kind
	// From and Until are its interval; each From is the Until of the one before. Only a Change Notification states
	// them.
	From, Until rsdoc.Micros
	// Changes is the number of entries.
	Changes int
	// At is when the hub had it, or when it was given up.
	At time.Time
	// Err is nil for one that the hub has taken. faults.ErrDropped and ErrNotifyBehind tell others from a refusal.
	Err error
}

// ErrNotifyBehind is in Notification.Err where more waited than NotifyQueue allows. From, Until and Changes may then be
// those of several in a row.
var ErrNotifyBehind = errors.New("dropped: the hub is too far behind")

// publishes tells whether there are channels.
func (o *Options) publishes() bool { return o.Hub != "" && o.Publish != PublishOff }

// checkNotify fills in the defaults about notifications, or tells what is wrong with them. The Client is for New to miss:
// like Base it may come later.
func (o *Options) checkNotify() error {
	setDefault(&o.NotifyMax, DefaultNotifyMax)
	setDefault(&o.NotifyQueue, DefaultNotifyQueue)
	if o.NotifyMax < 1 || o.NotifyMax > DefaultListSize {
		return fmt.Errorf("%d changes in a notification: want 1 to %d", o.NotifyMax, DefaultListSize)
	}
	if o.NotifyQueue < 1 || o.NotifyEvery < 0 {
		return errors.New("a negative queue of notifications, or time between them")
	}
	if o.Publish == "" {
		o.Publish = PublishOff
		if o.Hub != "" {
			o.Publish = PublishResourceSync
		}
	}
	switch o.Publish {
	case PublishResourceSync, PublishTraditional:
	case PublishOff:
		return nil
	default:
		return fmt.Errorf("publish %q: want resourcesync, traditional or off", o.Publish)
	}
	if o.Hub == "" {
		return fmt.Errorf("publish %s: there is no hub to tell", o.Publish)
	}
	hub, err := url.Parse(o.Hub)
	if err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	if hub.Scheme != "http" && hub.Scheme != "https" || hub.Host == "" || hub.Fragment != "" || hub.User != nil {
		return fmt.Errorf("hub %q: want http://HOST[:PORT][/PATH] or https, without user or fragment", hub.Redacted())
	}
	return nil
}

// openChannels makes the two channels and one for each feed, all beginning at the Source's own beginning: what an
// earlier run told last is not known any more, and the hole between the two is there for all to see.
func (s *Source) openChannels() error {
	if !s.options.publishes() {
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
	s.tell(news{loc: s.at(capabilityList), kind: rsdoc.KindCapabilityList, change: rsdoc.ChangeUpdated, at: s.begin})
	return nil
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

// report hands a notification to OnNotify.
func (s *Source) report(n Notification) {
	if s.options.OnNotify == nil {
		return
	}
	n.At = s.options.Now()
	s.reporting.Lock()
	defer s.reporting.Unlock()
	s.options.OnNotify(n)
}
