package hub

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"resyncd/destination/peer/hub/hubstate"
	"resyncd/store"
)

const (
	quickDeliveries = 512 // at a time, to subscribers that answer well
	slowDeliveries  = 128 // at a time, to those that dawdled last time: they never take the others' places
	lastDeliveries  = 128 // at a time, to those that failed last time: nor do they
	verifications   = 256 // of a line at a time
	looks           = 16  // topics that are read at a time
	bodies          = 32  // pushed contents that are received at a time

	sweepEvery = 30 * time.Second // wall time is looked at this often, because timers stand still in a suspended machine (F16)
	stopGrace  = 5 * time.Second  // for what is on the wire when the hub stops
)

// phase is where a Hub is in its life.
type phase int

const (
	idle     phase = iota // nothing is read from the state yet: every request gets a 503
	running               //
	stopping              // requests get a 503, what is on its way is finished
	ended                 // nothing is recorded any more
)

// Hub is a WebSub hub. Until Run has read the state its Handler lets requests wait a little, then answers 503, as it does
// while the hub stops.
type Hub struct {
	o      Options
	net    network // to callbacks
	origin network // to topics
	path   string  // of Base

	// ledger is held while a subscription begins, changes or ends, so that state and memory change together.
	ledger sync.Mutex

	mu        sync.Mutex // guards all below, and every topic, lane and chain; never held while waiting for anything
	phase     phase
	topics    map[string]*topic
	subs      int
	subsOf    map[string]int // by callback site
	tasks     []func(context.Context)
	pending   []*submission
	size      int64 // of the content in pending
	progress  map[int64]*hubstate.Progress
	chains    map[pair][]*intent
	strangers *line                            // of what is new
	living    *line                            // of what is about a lease that there is
	asking    map[string]map[*intent]time.Time // by topic: new subscribers that are being asked, since when

	recent  recent
	claims  claims
	quick   pool
	slow    pool
	last    pool
	looking pool
	reading pool

	hasTasks, hasPending, hasProgress chan struct{} // of one place each: there is something
	opened, halt                      chan struct{} // closed when the state is read, and when Run is to stop
	unsure                            chan error    // of one place: see doubt
}

// topic is a topic that has subscriptions.
type topic struct {
	id    int64
	url   string
	last  int64            // number of the newest notification
	lanes map[string]*lane // by callback
	ahead *ahead           // what follows last and is being recorded; nil for nothing

	etag, lastModified string
	digest             [32]byte
	pinged             store.Micros
	looking            bool // somebody reads its URL, or will
	tries              int  // that failed since it was pinged
	nextLook           time.Time
	timer              *time.Timer
}

// New returns a hub that Run brings to life.
func New(o Options) (*Hub, error) {
	if o.Client == nil || o.State == nil {
		return nil, errors.New("a hub needs a client and a state")
	}
	if o.TopicClient == nil {
		o.TopicClient = o.Client
	}
	return newHub(o, o.Client, o.TopicClient)
}

func newHub(o Options, net, origin network) (*Hub, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	base, err := url.Parse(o.Base)
	if err != nil {
		return nil, err
	}
	h := &Hub{
		o: o, net: net, origin: origin, path: base.EscapedPath(),
		topics: map[string]*topic{}, subsOf: map[string]int{}, progress: map[int64]*hubstate.Progress{},
		chains: map[pair][]*intent{}, strangers: newLine(o.VerifyRate), living: newLine(o.VerifyRate), asking: map[string]map[*intent]time.Time{},
		quick: make(pool, quickDeliveries), slow: make(pool, slowDeliveries),
		last: make(pool, lastDeliveries), looking: make(pool, looks), reading: make(pool, bodies),
		hasTasks: make(chan struct{}, 1), hasPending: make(chan struct{}, 1), hasProgress: make(chan struct{}, 1),
		opened: make(chan struct{}), halt: make(chan struct{}), unsure: make(chan error, 1),
	}
	if h.path == "" {
		h.path = "/"
	}
	return h, nil
}

// Run does the hub's work until ctx ends: it delivers what waits, verifies, reads topics, ends leases. It returns nil
// after an orderly end, in which what is on the wire gets a few seconds, and an error if the state cannot be read or
// written any more. It may be called once.
func (h *Hub) Run(ctx context.Context) error {
	if err := h.load(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("read the hub's state: %w", err)
	}
	hard, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var work sync.WaitGroup
	recorded, done := make(chan error, 1), make(chan struct{})
	go func() { recorded <- h.record(hard, done) }()
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	var failure error
	h.later(h.sweep)
	for ctx.Err() == nil && failure == nil {
		select {
		case <-ctx.Done():
		case <-sweep.C:
			h.later(h.sweep)
		case failure = <-recorded:
		case <-h.hasTasks:
			for _, task := range h.takeTasks() {
				work.Go(func() { h.guarded(hard, task) })
			}
		}
	}
	h.stop()
	grace := time.AfterFunc(stopGrace, cancel)
	work.Wait()
	grace.Stop()
	close(done)
	if failure == nil {
		failure = <-recorded
	}
	return failure
}

// load reads the state into memory and opens for requests.
func (h *Hub) load(ctx context.Context) error {
	topics, err := h.o.State.Topics(ctx)
	if err != nil {
		return err
	}
	subs, err := h.o.State.Subscriptions(ctx)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase != idle {
		return errors.New("this hub was run before")
	}
	h.phase = running
	close(h.opened)
	for i := range topics {
		h.topicOf(&topics[i])
	}
	for i := range subs {
		h.admit(subs[i])
	}
	for _, t := range h.topics {
		h.wakeTopic(t)
	}
	h.o.Log.Info("hub is open", "topics", len(h.topics), "subscriptions", h.subs)
	return nil
}

// topicOf finds a topic, or makes it as the state has it. h.mu is held.
func (h *Hub) topicOf(rec *hubstate.Topic) *topic {
	t := h.topics[rec.URL]
	if t == nil || t.id != rec.ID {
		t = &topic{id: rec.ID, url: rec.URL, lanes: map[string]*lane{}, etag: rec.ETag, lastModified: rec.LastModified,
			digest: rec.Digest, pinged: rec.Pinged}
		h.topics[rec.URL] = t
	}
	t.last = max(t.last, rec.Last)
	return t
}

// stop ends the intake; what sleeps wakes up and ends.
func (h *Hub) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase == running {
		h.phase = stopping
	}
	h.tasks = nil
	close(h.halt)
	for _, t := range h.topics {
		stopTimer(t.timer)
		for _, l := range t.lanes {
			stopTimer(l.timer)
		}
	}
	for _, chain := range h.chains {
		for _, in := range chain {
			in.answer(errStopping)
		}
	}
}

func stopTimer(t *time.Timer) {
	if t != nil {
		t.Stop()
	}
}

// later has Run do something.
func (h *Hub) later(task func(context.Context)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.spawn(task)
}

// spawn is later for those who hold h.mu.
func (h *Hub) spawn(task func(context.Context)) {
	if h.phase != running {
		return
	}
	h.tasks = append(h.tasks, task)
	signal(h.hasTasks)
}

func (h *Hub) takeTasks() []func(context.Context) {
	h.mu.Lock()
	defer h.mu.Unlock()
	tasks := h.tasks
	h.tasks = nil
	return tasks
}

// guarded keeps a bug in one task from ending all others (F5).
func (h *Hub) guarded(ctx context.Context, task func(context.Context)) {
	defer func() {
		if bug := recover(); bug != nil {
			h.o.Log.Error("a task of the hub broke off; please report this", "panic", bug)
		}
	}()
	task(ctx)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// pool bounds how many do something at a time.
type pool chan struct{}

// enter waits for a place; false if the hub stops first.
func (p pool) enter(ctx context.Context, halt <-chan struct{}) bool {
	select {
	case <-halt:
		return false
	default:
	}
	select {
	case p <- struct{}{}:
		return true
	case <-halt:
	case <-ctx.Done():
	}
	return false
}

func (p pool) leave() { <-p }

// micros is the hub's clock.
func (h *Hub) micros() store.Micros { return store.MicrosOf(h.o.Now()) }

// listens reports whether a request path is the hub's.
func (h *Hub) listens(path string) bool {
	return path == h.path || path == "/" || strings.TrimSuffix(path, "/") == strings.TrimSuffix(h.path, "/")
}
