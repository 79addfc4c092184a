package hub

import (
	"context"
	"maps"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/publicsuffix"
	"golang.org/x/time/rate"

	"resyncd/destination/gate"
	"resyncd/destination/peer/hub/hubstate"
	"resyncd/destination/websub"
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
		site := siteOf(sub.Callback)
		if r.bySite[site]--; r.bySite[site] <= 0 {
			delete(r.bySite, site)
		}
	}
	if len(t.subs) == 0 && r.topics[t.URL] == t {
		stopTimer(t.timer)
		delete(r.topics, t.URL)
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

const (
	chainMost     = 8      // requests of one pair
	waitingMost   = 10_000 // in a queue
	shareMost     = 2_000  // of them for one share
	verifications = 256    // at a time

	limitShares = 8192             // remembered
	limitWait   = 30 * time.Second // longest wait for a turn
	limitBurst  = 5                // seconds' worth at once
	limitPlaces = 64               // of one share at a time

	newWait = 250 * time.Millisecond // of a publisher
	newAge  = time.Second            // of a verification
)

// request is one to subscribe or unsubscribe, in memory only: a subscriber that is not verified asks again (S-30).
type request struct {
	form    form
	client  string        // address; "" where nobody asked
	turns   []*turn       // that it needs
	denied  string        // why the callback is refused
	refresh bool          // nobody asked: a lease nears its end
	sync    bool          // somebody waits: one attempt only
	done    chan error    // of one place
	newer   chan struct{} // closed when another one waits behind it
	over    chan struct{} // closed when it is settled
}

func (q *request) key() pair { return pair{q.form.Topic, q.form.Callback} }

// answer gives the outcome; only the first counts.
func (q *request) answer(err error) {
	select {
	case q.done <- err:
	default:
	}
}

// requests are those that are not verified yet, one after another for a pair, so that a subscriber gets what it asked
// for last. Hub.mu guards them.
type requests struct {
	chains map[pair][]*request
	// Whatever strangers ask for, existing leases are renewed and ended.
	new, existing *verifyQueue
	asking        map[*request]time.Time // new subscribers, since when
}

// awaitNew has a publisher wait for subscribers that were asked just now: they count themselves as subscribed already.
// The wait is short, so that silence does not hold the publisher up.
func (h *Hub) awaitNew(ctx context.Context, topic string) {
	h.mu.Lock()
	var over []chan struct{}
	for q, since := range h.requests.asking {
		if q.form.Topic == topic && time.Since(since) < newAge*h.o.leisure {
			over = append(over, q.over)
		}
	}
	h.mu.Unlock()
	if len(over) == 0 {
		return
	}
	late := time.After(newWait * h.o.leisure)
	for _, c := range over {
		select {
		case <-c:
		case <-late:
			return
		case <-ctx.Done():
			return
		}
	}
}

// verifyQueue is where requests wait to be verified. Its limits bound how often one site is asked, or asked for one
// client: a request in a stranger's name must not be amplified, and a silent callback must not take all places (H-19).
type verifyQueue struct {
	turn   // of all
	shares map[string]*turn
	rate   float64
}

// turn is what one site or client, or all together, may take of a queue.
type turn struct {
	waiting, most int           // Hub.mu guards them
	rate          *rate.Limiter // nil: no limit, of rate and of waiting
	places        pool
}

func newVerifyQueue(perSecond float64) *verifyQueue {
	return &verifyQueue{
		turn: turn{most: waitingMost, places: make(pool, verifications)}, shares: map[string]*turn{}, rate: perSecond,
	}
}

func (l *verifyQueue) share(name string) *turn {
	if l.shares[name] == nil && len(l.shares) >= limitShares {
		name = "" // too many strangers at once have one share
	}
	if l.shares[name] == nil {
		limiter := rate.NewLimiter(rate.Limit(l.rate), max(1, int(limitBurst*l.rate)))
		l.shares[name] = &turn{most: shareMost, rate: limiter, places: make(pool, limitPlaces)}
	}
	return l.shares[name]
}

// count counts a request as waiting, or with -1 no longer.
func (q *request) count(n int) {
	for _, t := range q.turns {
		t.waiting += n
	}
}

// enter waits for a place; false if that of a site or client would take too long, or the hub stops.
func (t *turn) enter(ctx context.Context, halt <-chan struct{}) bool {
	if t.rate != nil {
		timed, cancel := context.WithTimeout(ctx, limitWait)
		defer cancel()
		if ctx = timed; t.rate.Wait(ctx) != nil {
			return false
		}
	}
	return t.places.enter(ctx, halt)
}

// tidy forgets unused shares.
func (l *verifyQueue) tidy() {
	maps.DeleteFunc(l.shares, func(_ string, t *turn) bool {
		return t.waiting == 0 && t.rate.Tokens() >= float64(t.rate.Burst())
	})
}

// sharesOf are whom a request counts for: the client that sent it and the site of its callback. It waits in this order,
// so that no client holds the places of another site.
func sharesOf(client, callback string) []string {
	site := siteOf(callback)
	if from, err := netip.ParseAddrPort(client); err == nil {
		if known := gate.Client(from.Addr()); known.IsValid() {
			return []string{known.String(), site}
		}
	}
	return []string{site}
}

// siteOf is whom callbacks are counted for: an address, an IPv6 /64, or the name that somebody registered.
func siteOf(callback string) string {
	u, err := url.Parse(callback)
	if err != nil {
		return ""
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if ip, err := netip.ParseAddr(host); err == nil {
		if known := gate.Client(ip); known.IsValid() {
			return known.String()
		}
		return host
	}
	suffix, registry := publicsuffix.PublicSuffix(host)
	for !registry { // below a provider's name everybody has names
		_, above, more := strings.Cut(suffix, ".")
		if !more {
			break
		}
		suffix, registry = publicsuffix.PublicSuffix(above)
	}
	below, ok := strings.CutSuffix(host, "."+suffix)
	if !ok {
		return host
	}
	return below[strings.LastIndexByte(below, '.')+1:] + "." + suffix
}

// isNew reports whether a request may make another subscription. Hub.mu is held.
func (h *Hub) isNew(q *request) bool {
	return q.form.Mode == websub.ModeSubscribe && q.denied == "" && h.registry.find(q.key()) == nil
}
