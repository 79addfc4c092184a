package hub

import (
	"time"

	"resyncd/destination/peer/hub/hubstate"
	"resyncd/store"
)

// pair is what a subscription is known by.
type pair struct{ topic, callback string }

// topic is a topic that has subscriptions.
type topic struct {
	hubstate.Topic
	subs map[string]*subscription // by callback

	reading  bool
	tries    int // failed readings
	nextRead time.Time
	timer    *time.Timer
}

// subscription is one with its deliveries, strictly one after another (H-18). Hub.mu guards it; the goroutine that set
// running delivers.
type subscription struct {
	hubstate.Subscription // with the counts that are not recorded yet
	topic                 *topic
	refresh               store.Micros // it is not asked again before (0.3)

	running bool
	slow    bool
	ended   bool
	timer   *time.Timer
}

// registry has every subscription and its topic. Hub.mu guards it.
type registry struct {
	topics map[string]*topic
	count  int
	bySite map[string]int // counts, by the site of the callback
}

func newRegistry() registry { return registry{topics: map[string]*topic{}, bySite: map[string]int{}} }

func (r *registry) find(key pair) *subscription {
	if t := r.topics[key.topic]; t != nil {
		return t.subs[key.callback]
	}
	return nil
}

// topic finds a topic, or makes it.
func (r *registry) topic(rec *hubstate.Topic) *topic {
	t := r.topics[rec.URL]
	if t == nil || t.ID != rec.ID {
		t = &topic{Topic: *rec, subs: map[string]*subscription{}}
		r.topics[rec.URL] = t
	}
	t.Last = max(t.Last, rec.Last)
	return t
}

// admit adds a subscription, or updates it; its topic is there.
func (r *registry) admit(rec *hubstate.Subscription) *subscription {
	t := r.topics[rec.Topic]
	sub := t.subs[rec.Callback]
	if sub == nil {
		sub = &subscription{Subscription: *rec, topic: t}
		sub.Delivered, sub.Dropped = 0, 0
		t.subs[rec.Callback] = sub
		r.count++
		r.bySite[siteOf(rec.Callback)]++
	}
	sub.Secret, sub.Old, sub.VerifyToken = rec.Secret, rec.Old, rec.VerifyToken
	sub.Verified, sub.Expires, sub.refresh = rec.Verified, rec.Expires, store.NoTime
	return sub
}

// remove removes a subscription, and its topic with the last one.
func (r *registry) remove(sub *subscription) {
	sub.ended = true
	stopTimer(sub.timer)
	t := sub.topic
	if t.subs[sub.Callback] == sub {
		delete(t.subs, sub.Callback)
		r.count--
		decrease(r.bySite, siteOf(sub.Callback))
	}
	if len(t.subs) == 0 && r.topics[t.URL] == t {
		stopTimer(t.timer)
		delete(r.topics, t.URL)
	}
}

// decrease counts one down, and forgets those that are at none.
func decrease(counts map[string]int, key string) {
	if counts[key]--; counts[key] <= 0 {
		delete(counts, key)
	}
}

// room reports why there is none for a new subscription.
func (r *registry) room(key pair, o *Options) error {
	t := r.topics[key.topic]
	switch {
	case r.find(key) != nil:
		return nil
	case r.count >= o.maxSubscriptions:
		return errCrowded
	case t != nil && len(t.subs) >= o.MaxPerTopic:
		return errCrowdedTopic
	case r.bySite[siteOf(key.callback)] >= o.MaxPerHost:
		return errCrowdedHost
	}
	return nil
}

func (r *registry) stopTimers() {
	for _, t := range r.topics {
		stopTimer(t.timer)
		for _, sub := range t.subs {
			stopTimer(sub.timer)
		}
	}
}

// recentBytes is how much content is kept in memory, so that a thousand subscribers of one topic read it once.
const recentBytes = 32 << 20

type recentKey struct{ topic, number int64 }

// recent holds the notifications that were added last. Hub.mu guards it.
type recent struct {
	all   map[recentKey]*hubstate.Notification
	order []recentKey
	size  int64
}

func weight(n *hubstate.Notification) int64 { return int64(len(n.Body)+len(n.Link)+len(n.Type)) + 256 }

func (r *recent) add(topic int64, n *hubstate.Notification) {
	key := recentKey{topic, n.Number}
	if r.all == nil {
		r.all = map[recentKey]*hubstate.Notification{}
	}
	if r.all[key] != nil {
		return
	}
	r.all[key] = n
	r.order = append(r.order, key)
	for r.size += weight(n); r.size > recentBytes && len(r.order) > 1; r.order = r.order[1:] {
		r.size -= weight(r.all[r.order[0]])
		delete(r.all, r.order[0])
	}
}

// after returns what follows number without a hole, at most limit.
func (r *recent) after(topic, number int64, limit int) []*hubstate.Notification {
	var out []*hubstate.Notification
	for len(out) < limit {
		number++
		n := r.all[recentKey{topic, number}]
		if n == nil {
			break
		}
		out = append(out, n)
	}
	return out
}
