package callback

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"resyncd/destination/websub"
	"resyncd/store"
)

func TestMain(m *testing.M) {
	switch os.Getenv("RESYNCD_TEST_CHILD") {
	case "kill":
		if err := killChild(os.Getenv("RESYNCD_TEST_STATE")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	case "listen":
		os.Exit(listenChild())
	}
	goleak.VerifyTestMain(m)
}

const (
	tokenOf = "aB3-_dEfGhIjKlMnOpQrStUvWxYz0123456789abcde" // of the signed subscription
	secret  = "a secret of enough bytes"
	topic   = "http://source.example/changes.xml?a=1&b=ü"
)

// change is a Change Notification.
func change(from, until string) string {
	return `<?xml version="1.0" encoding="UTF-8"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">` +
		`<rs:ln rel="up" href="http://source.example/cap.xml"/><rs:md capability="change-notification" from="` + from + `" until="` + until + `"/>` +
		`<url><loc>http://source.example/a</loc><rs:md change="updated" datetime="` + until + `"/></url></urlset>`
}

func sign(body string) string { return websub.Sign(websub.SHA256, secret, []byte(body)) }

// fakeStore keeps subscriptions and deliveries in memory.
type fakeStore struct {
	Store // what is not here is not called

	mu      sync.Mutex
	subs    map[string]store.Subscription
	kept    []store.Delivery
	tallies map[int64]store.Tally
	batches []int // sizes of the calls of Deliver
	lookups int
	size    store.InboxSize // of a Source that has no subscription, beside what was kept

	deliver func(ds []*store.Delivery) error // before they are kept
	durable func() error                     // after they can be read
	failing error                            // of lookups and tallies
	looking func()                           // during a lookup, after it was read
}

func newFakeStore() *fakeStore {
	f := &fakeStore{subs: map[string]store.Subscription{}, tallies: map[int64]store.Tally{}}
	for i, s := range []store.Subscription{
		{Token: tokenOf, Secret: secret, State: store.SubActive},
		{Token: "unsigned-token", State: store.SubActive},
		{Token: "gone-token", Secret: secret, State: store.SubGone},
		{Token: "framework-token", Secret: secret, State: store.SubActive, Kind: store.ChannelFramework},
		{Token: "feed-token", Secret: secret, State: store.SubActive, Kind: store.ChannelFeed},
		{Token: "pending-token", Secret: secret, State: store.SubRequesting},
		{Token: "off-token", Secret: secret, State: store.SubOff, Expires: store.NoTime},
		{Token: "leaving-token", Secret: secret, State: store.SubOff, Expires: 1},
	} {
		s.ID, s.SourceID, s.SetID, s.Topic = int64(i+1), int64(i+11), int64(i+101), topic
		if s.Kind == "" {
			s.Kind = store.ChannelChange
		}
		f.subs[s.Token] = s
	}
	return f
}

func (f *fakeStore) SubscriptionByToken(_ context.Context, token string) (store.Subscription, error) {
	if f.looking != nil {
		defer f.looking()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lookups++
	if f.failing != nil {
		return store.Subscription{}, f.failing
	}
	s, ok := f.subs[token]
	if !ok {
		return s, fmt.Errorf("subscription: %w", store.ErrNotFound)
	}
	return s, nil
}

func (f *fakeStore) TallySubscription(_ context.Context, id int64, t store.Tally) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failing != nil {
		return f.failing
	}
	have := f.tallies[id]
	merge(&have, t)
	f.tallies[id] = have
	return nil
}

func (f *fakeStore) Deliver(_ context.Context, ds []*store.Delivery, readable func()) error {
	if f.deliver != nil {
		if err := f.deliver(ds); err != nil {
			return err
		}
	}
	f.keep(ds)
	readable()
	if f.durable != nil {
		return f.durable()
	}
	return nil
}

func (f *fakeStore) keep(ds []*store.Delivery) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.batches = append(f.batches, len(ds))
	for _, d := range ds {
		d.Duplicate = d.Signed && d.From.Known() && slices.ContainsFunc(f.kept, func(k store.Delivery) bool { return k.Digest == d.Digest })
		if !d.Duplicate {
			f.kept = append(f.kept, *d)
		}
	}
}

func (f *fakeStore) InboxShares(context.Context) (map[int64]store.InboxSize, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[int64]store.InboxSize{}
	if f.size != (store.InboxSize{}) {
		out[-1] = f.size
	}
	for _, d := range f.kept {
		out[d.SourceID] = plus(out[d.SourceID], 1, int64(len(d.Body)))
	}
	return out, nil
}

func (f *fakeStore) set(change func(*fakeStore)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *fakeStore) deliveries() []store.Delivery {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.kept)
}

func (f *fakeStore) tally(id int64) store.Tally {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tallies[id]
}

// fakeKeeper confirms what is wanted.
type fakeKeeper struct {
	mu       sync.Mutex
	unwanted websub.Mode
	err      error
	verified []websub.Verification
	denied   []string
}

func (k *fakeKeeper) Verify(_ context.Context, _ store.Subscription, v websub.Verification) (bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.verified = append(k.verified, v)
	return v.Mode != k.unwanted, k.err
}

func (k *fakeKeeper) Denied(_ context.Context, _ store.Subscription, reason string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.denied = append(k.denied, reason)
	return k.err
}

// counts is an Observer that counts.
type counts struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *counts) add(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[what]++
}

func (c *counts) get() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.n)
}

func (c *counts) observer() Observer {
	return Observer{
		Delivered: func(source int64, duplicate bool) {
			c.add(fmt.Sprint(source, map[bool]string{true: " duplicate", false: " delivered"}[duplicate]))
		},
		Rejected:     func(source int64, reason string) { c.add(fmt.Sprint(source, " ", reason)) },
		Acknowledged: func(int64, time.Duration) { c.add("acknowledged") },
	}
}

// site is a Callback that is running.
type site struct {
	*Callback
	store  *fakeStore
	keeper *fakeKeeper
	counts *counts
	base   string // of callbacks, on a real listener
	addr   string
}

// start runs a Callback without a server.
func start(t testing.TB, change func(*Options)) *site {
	t.Helper()
	s := &site{store: newFakeStore(), keeper: &fakeKeeper{}, counts: &counts{}}
	o := Options{
		Store: s.store, Keeper: s.keeper, BasePath: "/cb", Observe: s.counts.observer(),
	}
	if change != nil {
		change(&o)
	}
	s.Callback = New(o)
	s.SetReady(true)
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { stop(); wg.Wait() })
	return s
}

// serve runs a Callback with its server on loopback.
func serve(t testing.TB, change func(*Options), more ...func(*ServerOptions)) *site {
	t.Helper()
	s := start(t, change)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.addr = l.Addr().String()
	s.base = "http://" + s.addr + "/cb/"
	open(t, s, l, more...)
	return s
}

// open serves s on a listener, until the test ends.
func open(t testing.TB, s *site, l net.Listener, more ...func(*ServerOptions)) {
	t.Helper()
	o := ServerOptions{Listener: l, Handler: s, Log: slog.New(slog.DiscardHandler)}
	for _, f := range more {
		f(&o)
	}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := Serve(ctx, o); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { stop(); wg.Wait() })
}

// client is a http.Client of a test.
func client(t testing.TB) *http.Client {
	tr := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// ask sends a request and reads the answer; headers are pairs.
func ask(t testing.TB, c *http.Client, method, url, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	resp, got, err := try(t.Context(), c, method, url, body, headers...)
	if err != nil {
		t.Fatal(err)
	}
	return resp, got
}

func try(ctx context.Context, c *http.Client, method, url, body string, headers ...string) (*http.Response, string, error) {
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, r)
	if err != nil {
		return nil, "", err
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, "", err
	}
	got, err := io.ReadAll(resp.Body)
	return resp, string(got), errors.Join(err, resp.Body.Close())
}

// eventually waits for something that another goroutine is about to do.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	limit := time.After(20 * time.Second)
	for !ok() {
		select {
		case <-limit:
			t.Fatalf("never: %s", what)
		case <-time.After(time.Millisecond):
		}
	}
}

// answered waits until no handler is running any more.
func (s *site) answered(t testing.TB) {
	t.Helper()
	eventually(t, "all memory given back", func() bool {
		s.memory.mu.Lock()
		defer s.memory.mu.Unlock()
		return s.memory.used == 0
	})
}
