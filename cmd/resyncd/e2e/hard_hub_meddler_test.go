package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"resyncd/destination/websub"
)

// meddler stands where the turnstile is and cannot be trusted: what the hub sends it loses, doubles, delays, empties and
// repeats, and it sends what strangers send, who know the callback, and what a hub can send, which knows the secret too.
// Everything it decides comes from its dice.
type meddler struct {
	o    *ordeal
	dice *dice
	stop chan struct{}
	done chan struct{}
	end  sync.Once

	mu    sync.Mutex
	dead  bool     // the hub sends nothing: later it comes again with all that
	late  []parcel // on their way, in no order
	past  []parcel // whatever came, to be sent again
	did   map[string]int
	taken map[string]int // of these, how many the daemon acknowledged
	named int64          // entries in those
}

// parcel is a notification on its way.
type parcel struct {
	path   string
	header http.Header
	body   []byte
}

const (
	pastMost   = 300
	meddleTick = 15 * time.Millisecond
)

// meddle begins to meddle, until calmed.
func (o *ordeal) meddle(d *dice) *meddler {
	m := &meddler{o: o, dice: d, stop: make(chan struct{}), done: make(chan struct{}), did: map[string]int{}, taken: map[string]int{}}
	o.gate.let(m.between)
	go m.run()
	o.t.Cleanup(m.calmed)
	return m
}

// calmed ends that: what was late arrives now, in no order, and what comes from the hub is handed on as it is.
func (m *meddler) calmed() {
	m.end.Do(func() {
		close(m.stop)
		<-m.done
		m.o.gate.let(nil)
		for m.deliverLate() {
		}
	})
}

// between is what becomes of a request of the hub.
func (m *meddler) between(w http.ResponseWriter, r *http.Request, body []byte) bool {
	if r.Method == http.MethodGet {
		return false
	}
	m.mu.Lock()
	dead := m.dead
	m.mu.Unlock()
	if dead {
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	}
	p := parcel{r.URL.RequestURI(), r.Header.Clone(), body}
	m.remember(p)
	switch luck := m.dice.roll(100); {
	case luck < 30:
		m.count("lost", 0)
	case luck < 35:
		m.send("doubled", p)
		m.send("doubled", p)
	case luck < 40:
		m.empty(p)
	case luck < 60:
		m.mu.Lock()
		m.late = append(m.late, p)
		m.mu.Unlock()
	default:
		m.count("handed on", http.StatusOK)
		return false
	}
	w.WriteHeader(http.StatusOK)
	return true
}

// run meddles of its own accord.
func (m *meddler) run() {
	defer close(m.done)
	tick := time.NewTicker(meddleTick)
	defer tick.Stop()
	for {
		select {
		case <-m.stop:
			return
		case <-tick.C:
		}
		switch luck := m.dice.roll(100); {
		case luck < 30:
			m.deliverLate()
		case luck < 45:
			if p, ok := m.earlier(); ok {
				m.send("repeated", p)
			}
		case luck < 70:
			m.forge()
		case luck < 97:
			m.lie()
		default:
			m.ask()
		}
	}
}

// deliverLate hands on one of those that are late; false if none is.
func (m *meddler) deliverLate() bool {
	m.mu.Lock()
	if len(m.late) == 0 {
		m.mu.Unlock()
		return false
	}
	i := m.dice.roll(len(m.late))
	p := m.late[i]
	m.late = slices.Delete(m.late, i, i+1)
	m.mu.Unlock()
	m.send("late", p)
	return true
}

func (m *meddler) remember(p parcel) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.past) < pastMost {
		m.past = append(m.past, p)
	} else {
		m.past[m.dice.roll(pastMost)] = p
	}
}

// earlier is one that came before.
func (m *meddler) earlier() (parcel, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.past) == 0 {
		return parcel{}, false
	}
	return one(m.dice, m.past), true
}

// empty hides what a notification tells: its interval comes, signed, and nothing in it.
func (m *meddler) empty(p parcel) {
	iv, ok := intervalOf(p.body)
	s, known := m.o.subscribed()
	if !ok || !known {
		return
	}
	m.signed("emptied", s.Callback, s.Secret, notification(iv.From, iv.Until))
}

// forge sends what strangers can, and insists that nobody takes it.
func (m *meddler) forge() {
	p, ok := m.earlier()
	s, known := m.o.subscribed()
	if !ok || !known {
		return
	}
	f := one(m.dice, forgeries())
	q := parcel{p.path, p.header.Clone(), p.body}
	f.forge(m, &q, s.Secret)
	if status := m.send("forged", q); status/100 == 2 {
		m.o.t.Errorf("%s was answered %d", f.name, status)
	}
}

// lie sends what a hub can that lies.
func (m *meddler) lie() {
	s, known := m.o.subscribed()
	if !known {
		return
	}
	m.signed("lies", s.Callback, s.Secret, one(m.dice, lies()).tell(m))
}

// ask asks the callback something: whether it unsubscribed, whether its lease is another, or that it is denied.
func (m *meddler) ask() {
	s, known := m.o.subscribed()
	if !known {
		return
	}
	v := websub.Verification{Mode: one(m.dice, []websub.Mode{websub.ModeDenied, websub.ModeUnsubscribe, websub.ModeSubscribe}), Topic: s.Topic}
	if v.Mode != websub.ModeDenied {
		v.Challenge = "challenge"
	}
	if v.Mode == websub.ModeSubscribe {
		v.Lease = int64(one(m.dice, []int{1, 5, 3600, 1 << 40}))
	}
	target, err := websub.VerificationURL(s.Callback, v)
	if err != nil {
		m.o.t.Error(err)
		return
	}
	m.count("asked", m.request(http.MethodGet, pathOf(target), nil, nil))
}

// signed sends a body that the secret was used on.
func (m *meddler) signed(kind, callback, secret, body string) int {
	return m.send(kind, parcel{pathOf(callback), http.Header{
		"Content-Type": {"application/xml"}, websub.SignatureHeader: {websub.Sign(websub.SHA256, secret, []byte(body))},
	}, []byte(body)})
}

// send posts to the daemon, and counts what it answers.
func (m *meddler) send(kind string, p parcel) (status int) {
	status = m.request(http.MethodPost, p.path, p.header, p.body)
	m.count(kind, status)
	if status/100 == 2 {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.named += int64(bytes.Count(p.body, []byte("<loc>")))
	}
	return status
}

func (m *meddler) request(method, path string, header http.Header, body []byte) (status int) {
	r, err := http.NewRequestWithContext(context.Background(), method, m.o.gate.URL+path, bytes.NewReader(body))
	if err != nil {
		m.o.t.Error(err)
		return 0
	}
	if header != nil {
		r.Header = header
	}
	status, _ = m.o.gate.hand(r, body)
	return status
}

func (m *meddler) count(kind string, status int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.did[kind]++
	if status/100 == 2 {
		m.taken[kind]++
	}
}

// entries is how many the notifications named that the daemon acknowledged.
func (m *meddler) entries() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.named
}

// die has the hub be dead for as long as that, then come back.
func (m *meddler) die(wait time.Duration) {
	silent := func(dead bool) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.dead = dead
	}
	silent(true)
	m.o.door.shut()
	<-time.After(wait)
	m.o.door.open()
	silent(false)
}

// String says what was done, and how much of it the daemon acknowledged.
func (m *meddler) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []string
	for _, kind := range slices.Sorted(maps.Keys(m.did)) {
		all = append(all, fmt.Sprintf("%d %s (%d taken)", m.did[kind], kind, m.taken[kind]))
	}
	return strings.Join(all, ", ")
}
