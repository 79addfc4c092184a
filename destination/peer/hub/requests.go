package hub

import (
	"context"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/publicsuffix"
	"golang.org/x/time/rate"

	"resyncd/destination/gate"
	"resyncd/destination/websub"
)

const (
	chainMost     = 8      // requests of one pair
	waitingMost   = 10_000 // in a queue
	shareMost     = 2_000  // of them for one share
	verifications = 256    // at a time

	limitShares = 4096             // remembered
	limitWait   = 30 * time.Second // longest wait for a turn
	limitBurst  = 5                // seconds' worth at once
	limitPlaces = 64               // of one share at a time

	newWait = 250 * time.Millisecond // of a publisher
	newAge  = time.Second            // of a verification
)

// request is one to subscribe or unsubscribe, in memory only: a subscriber that is not verified asks again (S-30).
type request struct {
	form    form
	client  string       // address; "" where nobody asked
	queue   *verifyQueue // where it waits
	shares  []string
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

func newRequests(perSecond float64) requests {
	return requests{
		chains: map[pair][]*request{}, new: newVerifyQueue(perSecond), existing: newVerifyQueue(perSecond),
		asking: map[*request]time.Time{},
	}
}

// add adds a request; first: no other of its pair waits.
func (r *requests) add(q *request, exists bool) (first bool, err error) {
	q.done, q.newer, q.over = make(chan error, 1), make(chan struct{}), make(chan struct{})
	q.queue, q.shares = r.new, sharesOf(q.client, q.form.Callback)
	if exists {
		q.queue = r.existing
	}
	chain := r.chains[q.key()]
	if len(chain) >= chainMost || q.queue.full(q.shares) {
		return false, errTooMany
	}
	r.chains[q.key()] = append(chain, q)
	q.queue.count(q.shares)
	if n := len(chain); n > 0 {
		close(chain[n-1].newer)
	}
	return len(chain) == 0, nil
}

// next drops the first requests of a pair and returns the one behind them.
func (r *requests) next(key pair, drop int) *request {
	chain := r.chains[key]
	for _, q := range chain[:drop] {
		q.queue.uncount(q.shares)
	}
	if chain = chain[drop:]; len(chain) == 0 {
		delete(r.chains, key)
		return nil
	}
	r.chains[key] = chain
	return chain[0]
}

func (r *requests) answerAll(err error) {
	for _, chain := range r.chains {
		for _, q := range chain {
			q.answer(err)
		}
	}
}

// settled notes that a request is recorded, or never will be.
func (r *requests) settled(q *request) {
	delete(r.asking, q)
	close(q.over)
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
	waiting int
	shares  map[string]int // that wait
	places  pool

	rate   float64
	mu     sync.Mutex
	limits map[string]*limit // by share
}

type limit struct {
	rate   *rate.Limiter
	places pool
}

func newVerifyQueue(perSecond float64) *verifyQueue {
	return &verifyQueue{
		shares: map[string]int{}, places: make(pool, verifications), rate: perSecond, limits: map[string]*limit{},
	}
}

// full reports whether one more may not wait.
func (l *verifyQueue) full(shares []string) bool {
	for _, share := range shares {
		if l.shares[share] >= shareMost {
			return true
		}
	}
	return l.waiting >= waitingMost
}

func (l *verifyQueue) count(shares []string) {
	l.waiting++
	for _, share := range shares {
		l.shares[share]++
	}
}

func (l *verifyQueue) uncount(shares []string) {
	l.waiting--
	for _, share := range shares {
		decrease(l.shares, share)
	}
}

// enter waits for a share's turn; an error if that would take too long.
func (l *verifyQueue) enter(ctx context.Context, share string) (leave func(), err error) {
	of := l.limit(share)
	ctx, cancel := context.WithTimeout(ctx, limitWait)
	defer cancel()
	if err := of.rate.Wait(ctx); err != nil {
		return nil, err
	}
	select {
	case of.places <- struct{}{}:
		return of.places.leave, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *verifyQueue) limit(share string) *limit {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.limits[share] == nil && len(l.limits) >= limitShares {
		share = "" // too many strangers at once share one limit
	}
	found := l.limits[share]
	if found == nil {
		found = &limit{rate.NewLimiter(rate.Limit(l.rate), max(1, int(limitBurst*l.rate))), make(pool, limitPlaces)}
		l.limits[share] = found
	}
	return found
}

// tidy forgets unused limits.
func (l *verifyQueue) tidy() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for share, of := range l.limits {
		if len(of.places) == 0 && of.rate.Tokens() >= float64(of.rate.Burst()) {
			delete(l.limits, share)
		}
	}
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
