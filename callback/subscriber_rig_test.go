package callback_test

import (
	"context"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"resyncd/callback"
	"resyncd/destination"
	"resyncd/destination/fetch"
	"resyncd/destination/subscribe"
	"resyncd/store"
	"resyncd/store/sqlite"
)

// rig is a whole subscriber, as the daemon puts it together: keeper, callback server and SQLite, over loopback. Only its
// wall clock is ours, so that leases and waits pass at once.
type rig struct {
	t           *testing.T
	st          *sqlite.Store
	out         *fetch.Client
	keeper      *subscribe.Keeper
	base        string // of callbacks
	source, set int64

	skew  atomic.Int64 // of the wall clock, ahead
	stop  func()       // ends the keeper's Run
	wakes atomic.Int64 // deliveries that the engine was told of, by commit

	mu       sync.Mutex
	told     map[int64]store.Subscription // what the keeper made known last of each
	moved    []string                     // self links that were no topic (S-64)
	doubtful int                          // pulls asked for because of signatures (S-85)
	large    int                          // and because of sizes (S-69)
	rejected []string                     // why content was not taken, or taken as malformed
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, told: map[int64]store.Subscription{}}
	ctx := context.Background()
	var err error
	if r.st, err = sqlite.Open(ctx, filepath.Join(t.TempDir(), "state.db"), sqlite.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.st.Close(); err != nil {
			t.Error(err)
		}
	})
	src, err := r.st.EnsureSource(ctx, "old", "http://source.example/")
	if err != nil {
		t.Fatal(err)
	}
	claim, _, err := r.st.Claim(ctx, src.ID, "a test")
	if err != nil {
		t.Fatal(err)
	}
	set, err := r.st.EnsureSet(ctx, claim, "http://source.example/feed")
	if err != nil {
		t.Fatal(err)
	}
	r.source, r.set = src.ID, set.ID
	r.out = fetch.New(fetch.Options{UserAgent: "resyncd/test", Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	t.Cleanup(r.out.Close)
	r.listen()
	r.start()
	t.Cleanup(func() { r.stop() })
	return r
}

// listen puts keeper and callback together. The callback listens before anyone is asked (S-23).
func (r *rig) listen() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	r.base = "http://" + l.Addr().String() + "/cb/"
	var cb *callback.Callback
	r.keeper = subscribe.New(subscribe.Options{
		Store: r.st, Send: r.out.Send, Callback: func(token string) string { return r.base + token }, Now: r.now,
		Changed: func(s store.Subscription) { cb.Changed(s); r.count(func() { r.told[s.ID] = s }) },
	})
	cb = callback.New(callback.Options{
		Store: r.st, Keeper: r.keeper, BasePath: "/cb", MaxBody: 1 << 20, Now: r.now,
		Wake:     func(int64) { r.wakes.Add(1) },
		Moved:    func(_ store.Subscription, self string) { r.count(func() { r.moved = append(r.moved, self) }) },
		Doubtful: func(_, _ int64) { r.count(func() { r.doubtful++ }) },
		TooLarge: func(_, _ int64) { r.count(func() { r.large++ }) },
		Observe:  callback.Observer{Rejected: func(_ int64, why string) { r.count(func() { r.rejected = append(r.rejected, why) }) }},
	})
	cb.SetReady(true)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, run := range []func() error{
		func() error { return cb.Run(ctx) },
		func() error { return callback.Serve(ctx, callback.ServerOptions{Listener: l, Handler: cb}) },
	} {
		running.Go(func() {
			if err := run(); err != nil {
				r.t.Error(err)
			}
		})
	}
	r.t.Cleanup(func() { stop(); running.Wait() })
}

func (r *rig) now() time.Time { return time.Now().Add(time.Duration(r.skew.Load())) }

func (r *rig) count(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

// start runs the keeper.
func (r *rig) start() {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.keeper.Run(ctx) }()
	r.stop = func() {
		stop()
		if err := <-done; err != nil {
			r.t.Error(err)
		}
		r.stop = func() {}
	}
}

// pass lets time pass by the wall clock, over a restart of the keeper: a clock that only jumps would not free it from
// the gaps that it keeps by the other one (F15, F23).
func (r *rig) pass(d time.Duration) {
	r.t.Helper()
	r.stop()
	r.skew.Add(int64(d))
	r.start()
}

// follow has the keeper follow a topic at hubs.
func (r *rig) follow(topic string, p subscribe.Plan, hubs ...string) {
	r.t.Helper()
	p.Name, p.Push = "old", true
	r.keeper.SetSource(r.source, p)
	chs := []destination.Channel{{Kind: destination.KindFeed, Topic: topic, Hubs: hubs}}
	if err := r.keeper.SetChannels(context.Background(), r.source, r.set, chs); err != nil {
		r.t.Fatal(err)
	}
}

// subs are all subscriptions, tombstones included.
func (r *rig) subs() []store.Subscription {
	r.t.Helper()
	all, err := r.st.Subscriptions(context.Background(), r.source, true)
	if err != nil {
		r.t.Fatal(err)
	}
	return all
}

// sub is the newest subscription.
func (r *rig) sub() store.Subscription {
	r.t.Helper()
	all := r.subs()
	if len(all) == 0 {
		return store.Subscription{}
	}
	return all[len(all)-1]
}

// await waits until the newest subscription is as wanted.
func (r *rig) await(what string, ok func(store.Subscription) bool) store.Subscription {
	r.t.Helper()
	r.eventually(what, func() bool { return ok(r.sub()) })
	return r.sub()
}

func (r *rig) awaitState(want store.SubscriptionState) store.Subscription {
	r.t.Helper()
	return r.await("state "+string(want), func(s store.Subscription) bool { return s.State == want })
}

// eventually waits for something that another goroutine is about to do.
func (r *rig) eventually(what string, ok func() bool) {
	r.t.Helper()
	limit := time.After(20 * time.Second)
	for !ok() {
		select {
		case <-limit:
			r.t.Fatalf("never: %s; subscription %+v", what, shown(r.sub()))
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// shown is a subscription without what is secret.
func shown(s store.Subscription) store.Subscription {
	s.Token, s.Secret = strings.Repeat("*", len(s.Token)), strings.Repeat("*", len(s.Secret))
	return s
}

// inbox are the deliveries that were kept.
func (r *rig) inbox() []store.Delivery {
	r.t.Helper()
	all, err := r.st.Deliveries(context.Background(), store.InboxQuery{SourceID: r.source, Limit: 1000})
	if err != nil {
		r.t.Fatal(err)
	}
	return all
}
