package e2e_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"resyncd/destination/peer/hub/hubstate"
)

// seedVariable has a hard test take the decisions of an earlier run again, as far as clocks and schedulers allow.
const seedVariable = "RESYNCD_TEST_SEED"

// hardSeed is the seed of a test, which it prints.
func hardSeed(t *testing.T) uint64 {
	t.Helper()
	seed := rand.Uint64()
	if v := os.Getenv(seedVariable); v != "" {
		var err error
		if seed, err = strconv.ParseUint(v, 10, 64); err != nil {
			t.Fatalf("%s %q: want a number", seedVariable, v)
		}
	}
	t.Logf("again with %s=%d", seedVariable, seed)
	return seed
}

// dice are those of one who throws them from several goroutines.
type dice struct {
	mu sync.Mutex
	r  *rand.Rand
}

func newDice(seed, thrower uint64) *dice { return &dice{r: rand.New(rand.NewPCG(seed, thrower))} }

// roll is a number from [0, n).
func (d *dice) roll(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.IntN(n)
}

// one is one of several.
func one[T any](d *dice, all []T) T { return all[d.roll(len(all))] }

// asked counts what a Source is asked for.
type asked struct{ documents, contents atomic.Int64 }

func (a *asked) note(path string) {
	if path == "/" || strings.HasPrefix(path, "/.") {
		a.documents.Add(1)
	} else {
		a.contents.Add(1)
	}
}

const (
	// pullMost is how many documents one pull of this Source reads: Source Description, Capability List, the index of the
	// Change List and its last parts, and where the list moved on between, those again.
	pullMost     = 8
	pullsAtOnce  = 4  // that may come before any clock holds them back
	pullsByHints = 12 // a minute: hints make it pull at most each five seconds,
	pullsByGaps  = 30 // and gaps after two seconds of grace each, then further and further apart
	tries        = 3  // at a resource that changes while it is fetched
)

// toll is what the daemon asks the Source for from some time on.
type toll struct {
	o                   *ordeal
	began               time.Time
	documents, contents int64
}

func (o *ordeal) toll() *toll {
	return &toll{o: o, began: time.Now(), documents: o.asked.documents.Load(), contents: o.asked.contents.Load()}
}

// due holds it against what it may be: so many pulls a minute, and no requests but for what changed and what notifications
// named that the daemon acknowledged. It says both.
func (c *toll) due(what string, pulls int, changed, named int64) string {
	c.o.t.Helper()
	lasted := time.Since(c.began)
	documents, contents := c.o.asked.documents.Load()-c.documents, c.o.asked.contents.Load()-c.contents
	documentsMost := pullMost * (int64(float64(pulls)*lasted.Minutes()) + pullsAtOnce)
	contentsMost := tries * (changed + named + int64(len(c.o.annals.uris())))
	if documents > documentsMost || contents > contentsMost {
		c.o.t.Errorf("%s: the Source was asked for %d documents in %s, want at most %d pulls a minute, and for %d resources, want at most %d",
			what, documents, lasted, pulls, contents, contentsMost)
	}
	return fmt.Sprintf("%d documents (at most %d) and %d resources (at most %d) asked for in %s", documents, documentsMost, contents, contentsMost,
		lasted.Round(time.Millisecond))
}

// door leads to the hub. While it is shut the hub is dead, to subscribers and publishers alike.
type door struct {
	net.Listener

	mu     sync.Mutex
	closed bool
	inside map[net.Conn]bool
}

// Accept returns the next connection that is let in.
func (d *door) Accept() (net.Conn, error) {
	for {
		c, err := d.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if g := (&guest{Conn: c, door: d}); d.admit(g) {
			return g, nil
		}
		_ = c.Close()
	}
}

func (d *door) admit(g *guest) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	if d.inside == nil {
		d.inside = map[net.Conn]bool{}
	}
	d.inside[g.Conn] = true
	return true
}

// shut cuts off whoever is inside, and lets nobody in; open ends that.
func (d *door) shut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for c := range d.inside {
		_ = c.Close()
	}
}

func (d *door) open() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = false
}

// guest is a connection to the hub.
type guest struct {
	net.Conn
	door *door
}

func (g *guest) Close() error {
	g.door.mu.Lock()
	delete(g.door.inside, g.Conn)
	g.door.mu.Unlock()
	return g.Conn.Close()
}

// subscribed is what the hub knows of the daemon's subscription to changes; false before there is one.
func (o *ordeal) subscribed() (hubstate.Subscription, bool) {
	subs, err := o.relay.Subscriptions(context.Background())
	if err != nil {
		o.t.Error(err)
	}
	for _, s := range subs {
		if !isFramework(s.Topic) {
			return s, true
		}
	}
	return hubstate.Subscription{}, false
}

// known waits until the hub knows the daemon.
func (o *ordeal) known() (s hubstate.Subscription) {
	o.t.Helper()
	o.until("the hub knows the daemon", 30*time.Second, func() (known bool) {
		s, known = o.subscribed()
		return known
	})
	return s
}

// isFramework tells the topic that announces documents, not resources.
func isFramework(topic string) bool { return strings.Contains(topic, "framework") }

// pathOf is where a callback is behind its host.
func pathOf(callback string) string {
	u, err := url.Parse(callback)
	if err != nil {
		panic(err) // the hub has called it
	}
	return u.RequestURI()
}
