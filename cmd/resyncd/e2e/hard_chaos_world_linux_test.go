package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"resyncd/destination/fetch"
	"resyncd/destination/peer/hub"
	"resyncd/destination/peer/hub/hubdb"
	"resyncd/destination/peer/source"
	sourcefaults "resyncd/destination/peer/source/faults"
)

// chaos is an ordeal in which everything goes wrong at once: it has a Source with weather, a hub that is begun anew and
// whose notifications get lost, and disks that fail. What happens to each of them comes from a seed.
type chaos struct {
	*ordeal
	seed   uint64
	client *fetch.Client

	sky    sync.RWMutex // held for reading by each answer of the Source, for writing while the weather changes
	faults *sourcefaults.Set

	site, front *httptest.Server // the hub, at an address that outlives it; where it delivers
	relay       *relay
	relaying    atomic.Pointer[http.Handler] // nil: the hub is down
	rough       atomic.Bool                  // notifications get lost
	late        sync.WaitGroup               // those under way beside the hub

	mu      sync.Mutex
	fates   *rand.Rand // of notifications
	luck    *rand.Rand // of deeds on a disk that is ill
	illness *illness
	hurt    bool // the disk of the state failed since the daemon was begun
	forgot  bool // the hub has no subscriptions any more
	serial  int
	tally   map[string]int
	diary   bytes.Buffer
}

// relay is one life of the hub.
type relay struct {
	stop  context.CancelFunc
	ended chan error
	close func() error
}

// dice are those of one actor in one round: the same for the same seed.
func (c *chaos) dice(actor, round uint64) *rand.Rand {
	return rand.New(rand.NewPCG(c.seed, actor<<32|round))
}

// newChaos brings Source and hub to life, with so many resources. There are never others, so that rows can be flat.
func newChaos(t *testing.T, seed uint64, resources int) *chaos {
	t.Helper()
	c := &chaos{
		ordeal: &ordeal{t: t, dir: freshRAM(t), annals: newAnnals(), gate: &turnstile{}, calm: func() {}},
		seed:   seed, faults: &sourcefaults.Set{Seed: seed}, tally: map[string]int{},
		client: fetch.New(fetch.Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}),
	}
	c.fates, c.luck = c.dice(fateDice, 0), c.dice(luckDice, 0)
	c.data, c.mirror = filepath.Join(c.dir, "data"), filepath.Join(c.dir, "mirror", "lib")
	t.Cleanup(c.client.Close)
	c.site = c.serves(func(w http.ResponseWriter, r *http.Request) {
		h := c.relaying.Load()
		if h == nil {
			panic(http.ErrAbortHandler)
		}
		(*h).ServeHTTP(w, r)
	})
	c.front = c.serves(c.deliver)
	c.publishes(resources)
	c.hubUp()
	t.Cleanup(c.hubDown)
	t.Cleanup(c.end)
	c.configures()
	return c
}

// serves answers until the end of the test.
func (c *chaos) serves(handle http.HandlerFunc) *httptest.Server {
	s := httptest.NewServer(handle)
	c.t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

// publishes begins the Source. Change Lists are rotated away after a while, so that who was cut off takes a baseline.
func (c *chaos) publishes(resources int) {
	c.t.Helper()
	var answers http.Handler
	site := c.serves(func(w http.ResponseWriter, r *http.Request) {
		c.sky.RLock()
		defer c.sky.RUnlock()
		answers.ServeHTTP(w, r)
	})
	ctx, stop := context.WithCancel(context.Background())
	var err error
	c.base = site.URL
	c.src, err = source.New(ctx, source.Options{
		Base: c.base, Hub: c.site.URL + "/", Client: c.client, ChangeListSize: 100, KeepChangeLists: 5, OnChange: c.annals.heard, Faults: c.faults,
	})
	if err != nil {
		stop()
		c.t.Fatal(err)
	}
	answers = c.src.Handler()
	made := c.dice(makeDice, 0)
	for i := range resources {
		c.edit(made, chaosName(i))
	}
	ended := make(chan error, 1)
	go func() { ended <- c.src.Run(ctx) }()
	c.t.Cleanup(func() {
		stop()
		if err := errors.Join(<-ended, c.src.Close()); err != nil {
			c.t.Error(err)
		}
	})
}

func chaosName(i int) string { return fmt.Sprintf("d%d/r%03d.txt", i%7, i) }

// edit publishes a body that nobody has published yet.
func (c *chaos) edit(dice *rand.Rand, name string) {
	c.mu.Lock()
	c.serial++
	head := fmt.Sprintf("edition %d\n", c.serial)
	c.mu.Unlock()
	size := dice.IntN(2000)
	if dice.IntN(8) == 0 {
		size = dice.IntN(200_000)
	}
	if err := c.src.Put(name, []byte(head+strings.Repeat("x", size))); err != nil {
		c.t.Error(err)
	}
}

// configures writes the configuration, with short times and a console to read the daemon's figures at.
func (c *chaos) configures() {
	c.t.Helper()
	text := fmt.Sprintf(`data_dir: %q
mirror: %q
callback: { listen: "127.0.0.1:0", base_url: "%s/cb" }
console: { listen: "127.0.0.1:0" }
network: { allow: [127.0.0.0/8], idle_timeout: 2s }
sources:
  - { name: lib, url: "%s/", schedule: "@every 5s", reorder_grace: 500ms }
`, c.data, filepath.Dir(c.mirror), c.front.URL, c.base)
	if err := os.WriteFile(filepath.Join(c.dir, "resyncd.yaml"), []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// hubUp begins the hub with what it remembers.
func (c *chaos) hubUp() {
	ctx, stop := context.WithCancel(context.Background())
	state, err := hubdb.Open(ctx, filepath.Join(c.dir, "hub.db"), nil)
	if err != nil {
		stop()
		c.t.Error(err)
		return
	}
	h, err := hub.New(hub.Options{Base: c.site.URL + "/", State: state, Client: c.client, RetryBase: 50 * time.Millisecond})
	if err != nil {
		stop()
		c.t.Error(errors.Join(err, state.Close()))
		return
	}
	c.relay = &relay{stop: stop, ended: make(chan error, 1), close: state.Close}
	go func(ended chan<- error) { ended <- h.Run(ctx) }(c.relay.ended)
	answers := h.Handler()
	c.relaying.Store(&answers)
}

// hubDown ends the hub, if it is up.
func (c *chaos) hubDown() {
	c.relaying.Store(nil)
	if c.relay == nil {
		return
	}
	c.relay.stop()
	if err := errors.Join(<-c.relay.ended, c.relay.close()); err != nil {
		c.t.Error(err)
	}
	c.relay = nil
}

// deliver stands between hub and turnstile. Of the notifications some get lost although the hub is told otherwise, some
// arrive twice, and some late, after those that follow them.
func (c *chaos) deliver(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	pass := func(w http.ResponseWriter, ctx context.Context) {
		again := r.Clone(ctx)
		again.Body = io.NopCloser(bytes.NewReader(body))
		c.gate.ServeHTTP(w, again)
	}
	if r.Method != http.MethodPost || !c.rough.Load() {
		pass(w, r.Context())
		return
	}
	c.mu.Lock()
	fate, wait := c.fates.IntN(100), time.Duration(c.fates.IntN(1500))*time.Millisecond
	c.mu.Unlock()
	switch {
	case fate < 15:
		c.count("notifications lost")
	case fate < 25:
		c.count("notifications doubled")
		pass(httptest.NewRecorder(), r.Context())
		pass(w, r.Context())
	case fate < 40:
		c.count("notifications late")
		c.late.Go(func() {
			<-time.After(wait)
			pass(httptest.NewRecorder(), context.WithoutCancel(r.Context()))
		})
	default:
		pass(w, r.Context())
	}
}

// count adds to what is told in the end.
func (c *chaos) count(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tally[what]++
}

// happened counts a blow, and notes it for who reads the daemon's log after a failure.
func (c *chaos) happened(what, detail string) {
	c.count(what)
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(&c.diary, "%s chaos: %s %s\n", time.Now().Format("15:04:05.000"), what, detail)
}

// illness is one way for a disk to fail, for a while.
type illness struct {
	name  string
	state bool // the disk of the state, else of the mirror
	// rules are told a random number from 0 to 99 with each deed.
	rules func(d deed, luck int) ruling
	ends  bool // the daemon may end of it, and say so by its exit code
}

func illnesses() []illness {
	full := func(d deed, _ int) ruling {
		if d.kind == "write" || d.kind == "create" {
			return unix.ENOSPC
		}
		return 0
	}
	unsynced := func(d deed, _ int) ruling {
		if d.kind == "sync" {
			return unix.EIO
		}
		return 0
	}
	now := func(d deed, luck int) ruling {
		if luck < 10 {
			return d.failure()
		}
		return 0
	}
	return []illness{
		{name: "mirror full", rules: full},
		{name: "mirror read-only", rules: func(deed, int) ruling { return unix.EROFS }},
		{name: "mirror fails to sync", rules: unsynced},
		{name: "mirror fails at times", rules: now},
		{name: "state full", state: true, rules: full},
		{name: "state fails to sync", state: true, rules: unsynced, ends: true},
		{name: "state fails at times", state: true, rules: now, ends: true},
	}
}

// judge decides about a deed of the daemon.
func (c *chaos) judge(d deed) ruling {
	c.mu.Lock()
	defer c.mu.Unlock()
	ill := c.illness
	below := filepath.Dir(c.mirror)
	if ill == nil {
		return 0
	}
	if ill.state {
		below = c.data
	}
	if !under(d.path, below) {
		return 0
	}
	r := ill.rules(d, c.luck.IntN(100))
	if r != 0 {
		c.hurt = c.hurt || ill.state
		c.tally["system calls failed"]++
	}
	return r
}
