package sync

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"resyncd/destination"
	"resyncd/destination/peer/source"
	"resyncd/destination/rsdoc"
	"resyncd/destination/safe"
	"resyncd/store"
)

// frame delivers a Framework Notification that names documents.
func (p *pusher) frame(named map[string]rsdoc.Kind) {
	p.t.Helper()
	var b bytes.Buffer
	w, err := rsdoc.NewWriter(&b, rsdoc.NewHead(rsdoc.List, rsdoc.KindFrameworkNotification))
	if err != nil {
		p.t.Fatal(err)
	}
	for url, kind := range named {
		e := rsdoc.NewEntry(url)
		e.Capability, e.Change, e.HasMD = kind, rsdoc.ChangeUpdated, true
		if err := w.Write(&e); err != nil {
			p.t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		p.t.Fatal(err)
	}
	set := p.theSet()
	d := &store.Delivery{
		SubscriptionID: 1, SourceID: set.SourceID, SetID: set.ID, Kind: store.ChannelFramework, Received: store.MicrosOf(time.Now()),
		Signed: true, Digest: sha256.Sum256(b.Bytes()), From: store.NoTime, Until: store.NoTime, Body: b.Bytes(),
	}
	if err := p.store.Deliver(context.Background(), []*store.Delivery{d}, nil); err != nil {
		p.t.Fatal(err)
	}
	p.later(WorkNotify, time.Now())
}

func (p *pusher) forgetAsked() {
	p.rig.mu.Lock()
	defer p.rig.mu.Unlock()
	p.asks = nil
}

// A Framework Notification has exactly what it names read anew.
func TestFrameworkNotification(t *testing.T) {
	t.Parallel()
	p := newPusher(t, source.Options{}, many(3))
	p.pull(false)
	list := p.f.offers[p.theSet().ID].ChangeList.URL
	capability := p.theSet().CapabilityList
	p.put("a.txt", "1")
	p.forgetAsked()
	p.frame(map[string]rsdoc.Kind{list: rsdoc.KindChangeList})
	p.eventually("the change is here", p.same)
	p.eventually("quiet", p.quiet)
	if docs, _ := p.asked(); slices.ContainsFunc(docs, func(d string) bool { return !strings.HasSuffix(list, d) }) {
		t.Errorf("asked for %q", docs)
	}
	p.forgetAsked()
	p.frame(map[string]rsdoc.Kind{capability: rsdoc.KindCapabilityList})
	p.eventually("the Capability List was read", func() bool {
		docs, _ := p.asked()
		return slices.ContainsFunc(docs, func(d string) bool { return strings.HasSuffix(capability, d) })
	})
	p.eventually("quiet", p.quiet)
	if docs, _ := p.asked(); slices.ContainsFunc(docs, func(d string) bool { return strings.Contains(d, "list") && !strings.HasSuffix(capability, d) }) {
		t.Errorf("asked for %q", docs)
	}
}

// Channels are told to whoever subscribes; one that is gone only after two consistent reads (F71).
func TestChannelsOffered(t *testing.T) {
	t.Parallel()
	var told [][]destination.Channel
	f := &Follower{channels: map[int64][]destination.Channel{}}
	f.o.Offered = func(_ context.Context, _ int64, chs []destination.Channel) { told = append(told, chs) }
	a := destination.Channel{Kind: rsdoc.KindChangeNotification, Topic: "a"}
	b := destination.Channel{Kind: rsdoc.KindFrameworkNotification, Topic: "b"}
	for _, now := range [][]destination.Channel{{a, b}, {a}, {a, b}, {a}, {a}, {}} {
		f.tell(t.Context(), 1, now)
	}
	got := make([]int, len(told))
	for i := range told {
		got[i] = len(told[i])
	}
	if want := []int{2, 2, 2, 2, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("told of %v channels, want %v", got, want)
	}
}

// A resource that hangs holds up nothing else (P11): pushed changes pass it.
func TestPushPassesASlowResource(t *testing.T) {
	t.Parallel()
	p := newPusher(t, source.Options{}, many(3))
	p.taken()
	p.pull(false)
	hang := make(chan struct{})
	t.Cleanup(func() { p.interpose(nil) })
	p.interpose(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/slow.txt" {
			select {
			case <-hang:
			case <-r.Context().Done():
			}
			return false
		}
		return false
	})
	p.put("slow.txt", "slow")
	p.push()
	for i := range 5 {
		p.put("fast.txt", fmt.Sprint(i))
		p.push()
		want := fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%d", i)))
		p.eventually("the quick change is here", func() bool {
			b, err := os.ReadFile(p.path("fast.txt"))
			return err == nil && fmt.Sprintf("%x", sha256.Sum256(b)) == want
		})
	}
	close(hang)
	p.eventually("all are here", p.same)
}

// A want that changes while its resource is being fetched is fetched again.
func TestPushDuringFetch(t *testing.T) {
	t.Parallel()
	p := newPusher(t, source.Options{}, many(3))
	p.taken()
	p.pull(false)
	hang, began := make(chan struct{}), make(chan struct{}, 10)
	p.interpose(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/a.txt" {
			began <- struct{}{}
			<-hang
		}
		return false
	})
	p.put("a.txt", "one")
	p.push()
	<-began
	p.put("a.txt", "two")
	p.push()
	p.eventually("taken up", func() bool {
		n, err := waiting(p.store)
		return err == nil && n.Deliveries == 0
	})
	close(hang)
	p.eventually("the newest is here", p.same)
	p.eventually("quiet", p.quiet)
}

// The scrubber fetches anew what rotted (F13).
func TestScrub(t *testing.T) {
	t.Parallel()
	p := newPusher(t, source.Options{}, many(3))
	p.pull(false)
	if err := os.WriteFile(p.path("d0/r000.txt"), []byte("rotten"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(p.path("d1/r001.txt")); err != nil {
		t.Fatal(err)
	}
	p.later(WorkScrub, time.Now())
	p.eventually("mended", p.same)
}

// Where the Source as a whole cannot be read, its sets say so, and recover by themselves.
func TestFollowTroubledSource(t *testing.T) {
	t.Parallel()
	p := newPusher(t, source.Options{}, many(3))
	p.pull(false)
	p.interpose(func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, "no", http.StatusNotFound)
		return true
	})
	done := make(chan error, 1)
	p.f.RequestPull(PullRequest{Done: func(err error) { done <- err }})
	p.later(WorkPull, time.Now())
	var own *destination.Error
	if err := <-done; !errors.As(err, &own) {
		t.Errorf("the requester is told %v", err)
	}
	p.eventually("the set says what is wrong", func() bool { s := p.theSet(); return !s.InStep && s.Problem != "" })
	p.interpose(nil)
	if r := p.pull(false); !r.InStep {
		t.Errorf("afterwards: %+v", r)
	}
	if s := p.theSet(); !s.InStep || s.Problem != "" {
		t.Errorf("the set still says %q", s.Problem)
	}
}

// Rediscover returns once the Capability List was read anew.
func TestRediscover(t *testing.T) {
	t.Parallel()
	p := newPusher(t, source.Options{}, many(3))
	p.pull(false)
	p.forgetAsked()
	if err := p.f.Rediscover(t.Context()); err != nil {
		t.Fatal(err)
	}
	if docs, _ := p.asked(); len(docs) == 0 {
		t.Error("nothing was asked")
	}
}

// Deliveries for a set without a baseline wait for it.
func TestPushBeforeBaseline(t *testing.T) {
	t.Parallel()
	p := newPusher(t, source.Options{}, many(3))
	p.taken()
	down := true
	p.interpose(func(w http.ResponseWriter, r *http.Request) bool {
		if down && strings.Contains(r.URL.Path, "resourcelist") {
			http.Error(w, "no", http.StatusServiceUnavailable)
			return true
		}
		return false
	})
	p.pull(false)
	p.put("a.txt", "1")
	p.push()
	p.eventually("a second try", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return len(p.jobs) == 0 || true })
	if n, err := waiting(p.store); err != nil || n.Deliveries == 0 {
		t.Errorf("the inbox holds %+v, %v", n, err)
	}
	p.interpose(nil)
	p.pull(false)
	p.eventually("the mirror equals the Source", p.same)
	p.eventually("quiet", p.quiet)
}

// A set whose URL led to a list and to a feed may have deliveries of both: none of them stops the inbox.
func TestDeliveriesOfTwoKinds(t *testing.T) {
	t.Parallel()
	kinds := []store.ChannelKind{store.ChannelChange, store.ChannelFeed}
	for range 2 {
		slices.Reverse(kinds)
		p := newSettled(t, source.Options{}, many(3))
		h := p.hand(t)
		set := p.theSet()
		var ds []*store.Delivery
		for i, body := range [][]byte{p.document(rsdoc.Interval{From: 1, Until: 2}, nil), []byte("<feed/>")} {
			ds = append(ds, &store.Delivery{
				SubscriptionID: p.sub.ID, SourceID: set.SourceID, SetID: set.ID, Kind: kinds[i], Signed: true,
				Received: store.MicrosOf(time.Now()), From: store.NoTime, Until: store.NoTime,
				Digest: sha256.Sum256(body), Body: body,
			})
		}
		if err := p.store.Deliver(t.Context(), ds, nil); err != nil {
			t.Fatal(err)
		}
		if err := safe.Do(func() error { return h.Do(t.Context(), WorkNotify) }); err != nil {
			t.Fatalf("%v: %v", kinds, err)
		}
		all := store.InboxQuery{SourceID: set.SourceID, Limit: 10, MaxBytes: 1 << 20}
		left, err := p.store.Deliveries(t.Context(), all)
		if err != nil || len(left) > 0 {
			t.Errorf("%v: %d are left, %v", kinds, len(left), err)
		}
	}
}
