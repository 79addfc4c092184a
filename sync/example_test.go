package sync_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"resyncd/callback"
	"resyncd/destination"
	"resyncd/destination/fetch"
	"resyncd/destination/peer/hub"
	"resyncd/destination/peer/hub/hubdb"
	"resyncd/destination/peer/source"
	"resyncd/destination/subscribe"
	"resyncd/store"
	"resyncd/store/blob/dir"
	"resyncd/store/sqlite"
	syncengine "resyncd/sync"
	"resyncd/sync/queue"
)

// must ends an example that does not go as it should.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// loopback is a client that may reach this machine, which the default client refuses to.
func loopback() *fetch.Client {
	return fetch.New(fetch.Options{UserAgent: "example", Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
}

// listen takes a free port.
func listen() (at net.Listener, url string) {
	at = must(net.Listen("tcp", "127.0.0.1:0"))
	return at, "http://" + at.Addr().String()
}

// group is what runs together in an example, and what is to be closed once all of that has ended, the last first.
type group struct {
	context.Context
	folder  string
	client  *fetch.Client
	stop    context.CancelFunc
	running sync.WaitGroup
	closers []func() error
}

func newGroup() *group {
	g := &group{folder: must(os.MkdirTemp("", "follow-")), client: loopback()}
	g.Context, g.stop = context.WithCancel(context.Background())
	return g
}

func (g *group) run(parts ...func(context.Context) error) {
	for _, part := range parts {
		g.running.Go(func() {
			if err := part(g); err != nil && g.Err() == nil {
				panic(err)
			}
		})
	}
}

func (g *group) closing(last ...func() error) { g.closers = append(g.closers, last...) }

func (g *group) end() {
	g.client.Close() // servers wait for connections that are open
	g.stop()
	g.running.Wait()
	for _, closing := range slices.Backward(g.closers) {
		_ = closing()
	}
	_ = os.RemoveAll(g.folder)
}

// until waits until each has said yes.
func until(each ...<-chan bool) {
	for _, c := range each {
		for !<-c {
		}
	}
}

// hubAndSource run a Source and the hub that it tells of its changes.
func hubAndSource(g *group) (src *source.Source, url string) {
	hubAt, hubURL := listen()
	at, url := listen()
	state := must(hubdb.Open(g, filepath.Join(g.folder, "hub.db"), nil))
	relay := must(hub.New(hub.Options{Base: hubURL, State: state, Client: g.client}))
	src = must(source.New(g, source.Options{Base: url, Hub: hubURL, Client: g.client}))
	g.closing(state.Close, src.Close)
	g.run(relay.Run, func(ctx context.Context) error { return relay.Serve(ctx, hubAt) })
	g.run(src.Run, func(ctx context.Context) error { return src.Serve(ctx, at) })
	return src, url
}

// destinationOf is an engine for a Source, with state and mirror, made as ExampleEngine_Run does.
func destinationOf(g *group, url string) (*syncengine.Engine, syncengine.Target) {
	state := must(sqlite.Open(g, filepath.Join(g.folder, "state.db"), sqlite.Options{}))
	id := must(dir.Create(filepath.Join(g.folder, "files")))
	mirror := must(dir.Open(filepath.Join(g.folder, "files"), id, dir.Options{}))
	g.closing(state.Close, mirror.Close)
	target := syncengine.Target{Name: "papers", URL: url, Mirror: mirror, RootID: id}
	target.Client = g.client
	return &syncengine.Engine{Store: state, Log: slog.New(slog.DiscardHandler), Holder: "example", Now: time.Now}, target
}

// A Source is brought into a folder, twice.
func ExampleEngine_Run() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	// The Source lives in this process and has two resources.
	at, url := listen()
	src := must(source.New(ctx, source.Options{Base: url}))
	defer src.Close()
	go src.Serve(ctx, at)
	_, _ = src.Put("papers/one.txt", []byte("one")), src.Put("papers/two.txt", []byte("two"))
	// The Destination is a state, a mirror and a way out.
	folder := must(os.MkdirTemp("", "mirror-"))
	defer os.RemoveAll(folder)
	state := must(sqlite.Open(ctx, filepath.Join(folder, "state.db"), sqlite.Options{}))
	defer state.Close()
	id := must(dir.Create(filepath.Join(folder, "files")))
	mirror := must(dir.Open(filepath.Join(folder, "files"), id, dir.Options{}))
	defer mirror.Close()
	client := loopback()
	defer client.Close()
	engine := &syncengine.Engine{Store: state, Log: slog.New(slog.DiscardHandler), Holder: "example", Now: time.Now}
	target := syncengine.Target{Name: "papers", URL: url, Mirror: mirror, RootID: id}
	target.Client = client
	for range 2 {
		for _, r := range must(engine.Run(ctx, target, syncengine.RunOptions{From: store.NoTime})) {
			fmt.Println(r.Kind, "fetched:", r.Fetched, "in step:", r.InStep)
		}
		_ = src.Put("papers/two.txt", []byte("three"))
	}
	// Its files lie below the name of its site, here 127.0.0.1_PORT.
	files := must(filepath.Glob(filepath.Join(folder, "files", "127.0.0.1_*", "papers", "two.txt")))
	fmt.Printf("%s\n", must(os.ReadFile(files[0])))
	// Output:
	// baseline fetched: 2 in step: true
	// incremental fetched: 1 in step: true
	// three
}

// A Source with a hub is followed: what changes there is pushed here.
func ExampleEngine_Follow() {
	g := newGroup()
	src, url := hubAndSource(g)
	engine, target := destinationOf(g, url)
	// Beside its engine the Destination has a queue of work, a keeper of subscriptions and a door for hubs.
	var f *syncengine.Follower
	var door *callback.Callback
	jobs := queue.NewLocal(queue.LocalOptions{})
	put := func(k queue.Kind, due time.Time) { jobs.Put(queue.Job{Source: f.SourceID(), Kind: k, Due: due}) }
	at, doorURL := listen()
	pulled, subscribed, mirrored := make(chan bool, 9), make(chan bool, 9), make(chan int, 9)
	keep := subscribe.New(subscribe.Options{
		Store: engine.Store, Send: g.client.Send, Callback: func(token string) string { return doorURL + "/" + token },
		Changed: func(s store.Subscription) { door.Changed(s); subscribed <- s.State == store.SubActive },
	})
	wake := func(int64) { put(queue.KindNotify, time.Time{}) }
	door = callback.New(callback.Options{Store: engine.Store, Keeper: keep, Wake: wake})
	offered := func(ctx context.Context, set int64, found []destination.Channel) {
		_ = keep.SetChannels(ctx, f.SourceID(), set, found)
	}
	door.SetReady(true)
	f = must(engine.Follow(g, target, syncengine.FollowOptions{
		Later: func(w syncengine.Work, due time.Time) { put(queue.Kind(w), due) }, Offered: offered,
		Observe: syncengine.Observer{
			Pulled:   func(r syncengine.Result) { pulled <- r.InStep },
			Mirrored: func(m syncengine.Mirrored) { mirrored <- m.Changes },
		}}))
	g.closing(f.Close)
	keep.SetSource(f.SourceID(), subscribe.Plan{Name: target.Name, Push: true, Secret: true})
	work := func(ctx context.Context, j queue.Job) error { return f.Do(ctx, syncengine.Work(j.Kind)) }
	serving := callback.ServerOptions{Listener: at, Handler: door}
	g.run(f.Run, keep.Run, door.Run, func(ctx context.Context) error { return callback.Serve(ctx, serving) },
		func(ctx context.Context) error { return jobs.Run(ctx, work) })
	put(queue.KindPull, time.Time{})
	until(pulled, subscribed)
	_ = src.Put("one.txt", []byte("pushed"))
	fmt.Println("changes mirrored:", <-mirrored)
	g.end()
	// Output: changes mirrored: 1
}
