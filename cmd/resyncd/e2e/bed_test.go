package e2e_test

import (
	"context"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"resyncd/destination/fetch"
	"resyncd/destination/peer/hub"
	"resyncd/destination/peer/hub/hubdb"
	"resyncd/destination/peer/source"
)

// bed is what lives in this process while a daemon is tried: Sources and a hub, on addresses of this machine.
type bed struct {
	testing.TB
	ctx     context.Context //nolint:containedctx // of all that lives here
	stop    context.CancelFunc
	client  *fetch.Client // reaches this machine
	running sync.WaitGroup
	closers []func() error // of what may be closed once nothing runs
}

// newBed begins empty; all that was laid into it ends with the test.
func newBed(tb testing.TB) *bed {
	b := &bed{TB: tb, client: fetch.New(fetch.Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})}
	b.ctx, b.stop = context.WithCancel(context.Background())
	tb.Cleanup(b.end)
	return b
}

// run has something go on until the end; it may fail only by being ended.
func (b *bed) run(works ...func(context.Context) error) {
	for _, work := range works {
		b.running.Go(func() {
			if err := work(b.ctx); err != nil && b.ctx.Err() == nil {
				b.Error(err)
			}
		})
	}
}

// rest ends what runs.
func (b *bed) rest() {
	b.stop()
	b.running.Wait()
}

func (b *bed) end() {
	b.rest()
	b.client.Close()
	for _, closing := range slices.Backward(b.closers) {
		if err := closing(); err != nil {
			b.Error(err)
		}
	}
	b.closers = nil
}

// listen takes a free port, at which url leads.
func (b *bed) listen() (at net.Listener, url string) {
	b.Helper()
	at, err := (&net.ListenConfig{}).Listen(b.Context(), "tcp", freePort)
	if err != nil {
		b.Fatal(err)
	}
	return at, "http://" + at.Addr().String()
}

// source makes a Source; to serve it, and to run it once it has its resources, is its caller's.
func (b *bed) source(o source.Options) *source.Source {
	b.Helper()
	o.Client = b.client
	src, err := source.New(b.ctx, o)
	if err != nil {
		b.Fatal(err)
	}
	b.closers = append(b.closers, src.Close)
	return src
}

// hub runs a hub with its state below a folder.
func (b *bed) hub(folder string, at net.Listener, o hub.Options) *hubdb.DB {
	b.Helper()
	state, err := hubdb.Open(b.ctx, filepath.Join(folder, "hub.db"), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.closers = append(b.closers, state.Close)
	o.State, o.Client = state, b.client
	relay, err := hub.New(o)
	if err != nil {
		b.Fatal(err)
	}
	b.run(relay.Run, func(ctx context.Context) error { return relay.Serve(ctx, at) })
	return state
}
