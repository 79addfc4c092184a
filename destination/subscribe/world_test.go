package subscribe

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"resyncd/destination"
	"resyncd/destination/fetch"
	"resyncd/destination/rsdoc"
	"resyncd/destination/websub"
	"resyncd/store"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is what a Keeper lives in: its store, its callback server, and hubs that behave as their host name says.
type world struct {
	t      testing.TB
	st     *memory
	k      *Keeper
	skew   time.Duration // of the wall clock
	behave map[string]behaviour

	mu       sync.Mutex
	dice     *rand.Rand
	log      []request
	keepLog  bool
	mayLapse bool                 // the world does what costs leases, such as denying
	lastAsk  map[string]time.Time // by callback
	leases   map[string]*lease    // by topic and callback
	total    map[string]int       // requests by host
	breaches []string
	unsubbed []string // tokens of verified unsubscriptions
}

// request is one form that a hub received.
type request struct {
	at   time.Time
	host string
	form url.Values

	policy *fetch.Policy
}

// lease is what a hub holds.
type lease struct {
	host    string
	granted time.Time
	until   time.Time
	topic   string
	token   string
	secret  string
}

// behaviour is a hub: it answers a request, and says what else it does.
type behaviour func(w *world, r request) *fetch.Answer

const callbackBase = "https://me.example/cb/"

func newWorld(t testing.TB, seed uint64) *world {
	w := &world{t: t, st: newMemory(), behave: map[string]behaviour{}, dice: rand.New(rand.NewPCG(seed, 1)),
		lastAsk: map[string]time.Time{}, leases: map[string]*lease{}, total: map[string]int{}, keepLog: true}
	w.k = w.newKeeper(w.st)
	return w
}

func (w *world) newKeeper(st store.Subscriptions) *Keeper {
	return New(Options{Store: st, Send: w.send, Callback: func(token string) string { return callbackBase + token },
		Now: func() time.Time { return time.Now().Add(w.clockSkew()) }, random: w.random})
}

func (w *world) clockSkew() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.skew
}

func (w *world) jump(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.skew += d
}

func (w *world) random() float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dice.Float64()
}

// run starts the Keeper; stop ends it and waits.
func (w *world) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	k := w.k
	go func() { done <- k.Run(ctx) }()
	return func() {
		began := time.Now()
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("Run: %v", err)
		}
		if took := time.Since(began); took > time.Second {
			w.t.Errorf("Run ended %v after its context", took)
		}
	}
}

func (w *world) breach(format string, args ...any) {
	if len(w.breaches) < 20 {
		w.breaches = append(w.breaches, time.Now().Format("2006-01-02T15:04:05.000 ")+fmt.Sprintf(format, args...))
	}
}

// send is the network.
func (w *world) send(ctx context.Context, m fetch.Message) (*fetch.Answer, error) {
	form, err := url.ParseQuery(string(m.Body))
	if err != nil || m.Method != http.MethodPost || m.Header.Get("Content-Type") != formType || m.Repeat != 5 {
		w.t.Errorf("bad message %+v: %v", m, err)
	}
	u, _ := url.Parse(m.URL)
	r := request{at: time.Now(), host: u.Host, form: form, policy: m.Policy}
	w.check(r)
	w.mu.Lock()
	act := w.behave[u.Host]
	w.mu.Unlock()
	if act == nil {
		return nil, &fetch.Error{Op: "post", URL: m.URL, Kind: fetch.Transient, Err: fmt.Errorf("no hub at %s", u.Host)}
	}
	type result struct{ a *fetch.Answer }
	done := make(chan result, 1)
	go func() { done <- result{act(w, r)} }()
	timeout := time.NewTimer(m.Timeout)
	defer timeout.Stop()
	select {
	case <-ctx.Done():
		return nil, &fetch.Error{Op: "post", URL: m.URL, Kind: fetch.Canceled, Err: ctx.Err()}
	case <-timeout.C:
		return nil, &fetch.Error{Op: "post", URL: m.URL, Kind: fetch.Stalled, Err: fmt.Errorf("no answer within %v", m.Timeout)}
	case res := <-done:
		if res.a == nil {
			return nil, &fetch.Error{Op: "post", URL: m.URL, Kind: fetch.Transient, Err: fmt.Errorf("connection refused")}
		}
		return res.a, nil
	}
}

// check holds each request to the rules that hold always: F23, S-20, S-21, S-23.
func (w *world) check(r request) {
	cb, topic, mode := r.form.Get("hub.callback"), r.form.Get("hub.topic"), r.form.Get("hub.mode")
	sub, err := w.st.SubscriptionByToken(context.Background(), strings.TrimPrefix(cb, callbackBase))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.total[r.host]++
	if w.keepLog {
		w.log = append(w.log, r)
	}
	if last, ok := w.lastAsk[cb]; ok && r.at.Sub(last) < gap {
		w.breach("%s %s asked again after %v", mode, r.host, r.at.Sub(last))
	}
	w.lastAsk[cb] = r.at
	if err != nil || sub.Topic != topic {
		w.breach("request that the store does not know: %v", r.form)
	}
	if mode == "subscribe" && sub.State != store.SubRequesting && sub.State != store.SubRenewing && sub.State != store.SubLapsed {
		w.breach("subscribe sent in state %s", sub.State)
	}
	for name, v := range r.form {
		if len(v) != 1 || v[0] == "" {
			w.breach("parameter %s=%q", name, v)
		}
	}
	if s := r.form.Get("hub.secret"); s != sub.Secret && mode == "subscribe" || mode == "unsubscribe" && s != "" {
		w.breach("%s with secret %q", mode, s)
	}
}

// verify is the hub's GET: it goes to the callback server, which asks the keeper. It reports whether it was confirmed.
func (w *world) verify(r request, leaseText string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	token := strings.TrimPrefix(r.form.Get("hub.callback"), callbackBase)
	sub, err := w.st.SubscriptionByToken(ctx, token)
	if err != nil {
		return false
	}
	q := url.Values{"hub.mode": {r.form.Get("hub.mode")}, "hub.topic": {r.form.Get("hub.topic")}, "hub.challenge": {"c"}}
	if leaseText != "" {
		q.Set("hub.lease_seconds", leaseText)
	}
	v, err := websub.ParseVerification(q.Encode())
	if err != nil {
		w.t.Errorf("verification: %v", err)
	}
	w.mu.Lock()
	k := w.k
	w.mu.Unlock()
	if k == nil { // nobody listens
		return false
	}
	began := time.Now()
	ok, err := k.Verify(ctx, sub, v)
	if time.Since(began) > time.Second {
		w.t.Errorf("verification took %v (S-36)", time.Since(began))
	}
	if err != nil {
		return false
	}
	return ok
}

// serve does what a good hub does with a request once it is accepted: verify, keep, forget.
func (w *world) serve(r request, leaseText string, real time.Duration) bool {
	if !w.verify(r, leaseText) {
		return false
	}
	w.hold(r, real)
	return true
}

// hold keeps what was verified, and counts a lease that had lapsed as one, if it could have been kept.
func (w *world) hold(r request, real time.Duration) {
	cb, topic := r.form.Get("hub.callback"), r.form.Get("hub.topic")
	key := topic + " " + cb
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.form.Get("hub.mode") == "unsubscribe" {
		delete(w.leases, key)
		w.unsubbed = append(w.unsubbed, strings.TrimPrefix(cb, callbackBase))
		return
	}
	now := time.Now()
	if l := w.leases[key]; l != nil && l.until.Before(now) && w.keepable(l) {
		w.breach("lease of %s at %s lapsed: granted %v, until %v", topic, r.host, l.granted, l.until)
	}
	w.leases[key] = &lease{host: r.host, granted: now, until: now.Add(real), topic: topic,
		token: strings.TrimPrefix(cb, callbackBase), secret: r.form.Get("hub.secret")}
}

// keepable reports whether a lease could have been kept: it is long enough for one request in five seconds, and its hub
// took requests for long enough in the time for renewals.
func (w *world) keepable(l *lease) bool {
	length := l.until.Sub(l.granted)
	if w.mayLapse || length < 15*time.Second {
		return false
	}
	from := l.granted.Add(length * 8 / 10)
	up := time.Duration(0)
	for at := from; at.Before(l.until); at = at.Add(time.Minute) {
		if outage(l.host, at) {
			up = 0
		} else if up += time.Minute; up > 7*time.Minute {
			return true
		}
	}
	return !strings.HasPrefix(l.host, "flaky")
}

// live counts the leases of a topic at hubs.
func (w *world) live(topic string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.leases {
		if l.topic == topic && l.until.After(time.Now()) {
			n++
		}
	}
	return n
}

// source makes a Source with one set of the same id, and one change channel.
func (w *world) source(id int64, hubs ...string) string {
	topic := fmt.Sprintf("https://source.example/%d/changes", id)
	w.k.SetSource(id, Plan{Name: fmt.Sprint("s", id), Push: true, Secret: true})
	w.offer(id, topic, hubs...)
	return topic
}

func (w *world) offer(id int64, topic string, hubs ...string) {
	w.t.Helper()
	err := w.k.SetChannels(context.Background(), id, id, []destination.Channel{{Kind: rsdoc.KindChangeNotification, Topic: topic, Hubs: hubs}})
	if err != nil {
		w.t.Fatal(err)
	}
}

// subs returns the subscriptions of a Source, tombstones included.
func (w *world) subs(id int64) []store.Subscription {
	all, err := w.st.Subscriptions(context.Background(), id, true)
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

// wait lets virtual time pass, until everything is quiet.
func wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (w *world) report() {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range w.breaches {
		w.t.Error(b)
	}
}

// forge sends what somebody may send who learnt a callback.
func (w *world) forge(s store.Subscription, n int) {
	modes := []websub.Mode{websub.ModeSubscribe, websub.ModeUnsubscribe}
	v := websub.Verification{Mode: modes[n%2], Topic: s.Topic, Lease: int64(max(n-2, 0)) * int64(n) * 10000}
	if _, err := w.k.Verify(context.Background(), s, v); err != nil {
		w.t.Errorf("forged verification: %v", err)
	}
}
