package sync

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"resyncd/destination"
	"resyncd/destination/peer/source"
	"resyncd/destination/rsdoc"
	"resyncd/destination/safe"
	"resyncd/store"
	"resyncd/sync/pull"
	"resyncd/sync/transfer"
)

// byHand is a Follower whose slices the test runs itself, and what it asked for.
type byHand struct {
	*Follower
	mu    sync.Mutex
	asked []Work
	dues  []time.Time
}

func (h *byHand) soon(w Work) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.asked {
		if h.asked[i] == w && time.Until(h.dues[i]) < time.Second {
			n++
		}
	}
	return n
}

func (h *byHand) later(w Work, due time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked, h.dues = append(h.asked, w), append(h.dues, due)
}

// hand ends the Follower of p and begins one without a schedule.
func (p *pusher) hand(t *testing.T) *byHand {
	t.Helper()
	p.stop()
	e, target, done := p.open()
	p.store = e.Store
	h := &byHand{}
	f, err := e.Follow(t.Context(), target, FollowOptions{
		ReorderGrace: time.Millisecond, Poll: time.Minute, Patience: 5 * time.Second, Later: h.later,
	})
	if err != nil {
		t.Fatal(err)
	}
	h.Follower = f
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- f.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ran; err != nil {
			t.Errorf("the follower ended: %v", err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		done()
	})
	return h
}

// sickStore is a store whose trash cannot be read while it is told so.
type sickStore struct {
	store.Store
	sick *atomic.Bool
}

func (s sickStore) Trash(ctx context.Context, source int64, before store.Micros, after string, limit int) ([]store.Trashed, error) {
	if s.sick.Load() {
		return nil, errors.New("sick")
	}
	return s.Store.Trash(ctx, source, before, after, limit)
}

// Whoever asked for a pull is told of its end once, however it ends.
func TestRequestsAreAnswered(t *testing.T) {
	t.Parallel()
	p := newPusher(t, source.Options{}, many(3))
	var sick atomic.Bool
	p.engine = func(e *Engine) { e.Store = sickStore{e.Store, &sick} }
	h := p.hand(t)
	var ends atomic.Int64
	var told atomic.Int64
	ask := func() {
		h.RequestPull(PullRequest{Done: func(error) { ends.Add(1) }, Progress: func(transfer.Progress) { told.Add(1) }})
	}
	ask()
	sick.Store(true)
	if err := h.Do(t.Context(), WorkPull); err == nil {
		t.Fatal("no error")
	}
	sick.Store(false)
	for end := time.Now().Add(10 * time.Second); !h.Idle() && time.Now().Before(end); <-time.After(time.Millisecond) {
	}
	if err := h.Do(t.Context(), WorkConclude); err != nil {
		t.Fatal(err)
	}
	if n := ends.Load(); n != 1 {
		t.Errorf("a pull that failed at its end was answered %d times", n)
	}
	// One that comes between a pull and its conclusion is told of its own progress.
	if err := h.Do(t.Context(), WorkPull); err != nil {
		t.Fatal(err)
	}
	ask()
	if err := concludeAll(t.Context(), h.Follower); err != nil {
		t.Fatal(err)
	}
	told.Store(0)
	p.put("a.txt", "1")
	if err := h.Do(t.Context(), WorkPull); err != nil {
		t.Fatal(err)
	}
	if told.Load() == 0 {
		t.Error("a request is told of no progress")
	}
	if err := concludeAll(t.Context(), h.Follower); err != nil {
		t.Fatal(err)
	}
	if n := ends.Load(); n != 2 {
		t.Errorf("%d ends of 2 requests", n)
	}
	if n := h.unsettled.Load(); n != 0 {
		t.Errorf("%d pulls are not concluded", n)
	}
	ask()
	t.Cleanup(func() {
		if n := ends.Load(); n != 2 {
			t.Errorf("answered %d times before the end", n)
		}
	})
}

// A Follower that ends answers whoever still waits.
func TestCloseAnswers(t *testing.T) {
	t.Parallel()
	p := newPusher(t, source.Options{}, many(3))
	p.stop()
	e, target, done := p.open()
	defer done()
	f, err := e.Follow(t.Context(), target, FollowOptions{Later: func(Work, time.Time) {}})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 3)
	f.RequestPull(PullRequest{Done: func(err error) { ended <- err }}) // read, but not concluded
	if err := f.Do(t.Context(), WorkPull); err != nil {
		t.Fatal(err)
	}
	f.RequestPull(PullRequest{Done: func(err error) { ended <- err }})
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		select {
		case err := <-ended:
			if err == nil {
				t.Error("told of success")
			}
		default:
			t.Error("nobody answered")
		}
	}
}

// A Source that cannot be read is not asked at every hint and every push (P8).
func TestHintsToADeadSource(t *testing.T) {
	t.Parallel()
	p := newPusher(t, source.Options{}, many(3))
	p.taken()
	p.pull(false)
	set := p.theSet().ID
	p.interpose(func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, "no", http.StatusNotFound)
		return true
	})
	h := p.hand(t)
	for range 20 {
		h.Hint(set)
		if err := h.Do(t.Context(), WorkGap); err != nil {
			t.Fatal(err)
		}
	}
	if n := h.soon(WorkPull); n != 1 {
		t.Errorf("%d pulls at once", n)
	}
}

// The same before the first baseline.
func TestPushesToADeadSource(t *testing.T) {
	t.Parallel()
	p := newPusher(t, source.Options{}, many(3))
	p.interpose(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "resourcelist") {
			http.Error(w, "no", http.StatusNotFound)
			return true
		}
		return false
	})
	p.pull(false)
	p.interpose(func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, "no", http.StatusNotFound)
		return true
	})
	h := p.hand(t)
	for i := range 20 {
		p.put("a.txt", fmt.Sprint(i))
		p.push()
		if err := errors.Join(h.Do(t.Context(), WorkNotify), h.Do(t.Context(), WorkPull)); err != nil {
			t.Fatal(err)
		}
	}
	if n := h.soon(WorkPull); n > 1 {
		t.Errorf("%d pulls at once", n)
	}
}

// Framework Notifications do not make us ask the Source without end (P8).
func TestFrameworkFlood(t *testing.T) {
	t.Parallel()
	p := newPusher(t, source.Options{}, many(3))
	p.pull(false)
	url := p.theSet().CapabilityList
	h := p.hand(t)
	p.forgetAsked()
	for range 20 {
		p.frame(map[string]rsdoc.Kind{url: rsdoc.KindCapabilityList, url + "?unknown": rsdoc.KindChangeList})
		if err := errors.Join(h.Do(t.Context(), WorkNotify), h.Do(t.Context(), WorkFramework)); err != nil {
			t.Fatal(err)
		}
	}
	if docs, _ := p.asked(); len(docs) > 4 {
		t.Errorf("asked for %d documents: %q", len(docs), docs)
	}
}

// A Follower begins with the holes that the last one left.
func TestFollowGoesOnWithHoles(t *testing.T) {
	t.Parallel()
	p := newPusher(t, source.Options{}, many(3))
	h := p.hand(t)
	if err := h.Do(t.Context(), WorkNotify); err != nil {
		t.Fatal(err)
	}
	if h.soon(WorkGap) == 0 {
		t.Error("nobody asks about holes")
	}
}

// A hub that tells of one interval here and another there leaves no more behind than a stated amount (P8).
func TestHolesAreBounded(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.set("resourcelist", "/rl.xml", "changelist", "/cl.xml")
	f.page("/rl.xml", list("resourcelist", `at="`+when(0)+`"`, f.res("/a.txt", "one")))
	f.page("/cl.xml", list("changelist", `from="`+when(0)+`"`))
	p := f.follow()
	p.pull(false)
	p.told(f, "/a.txt", rsdoc.ChangeUpdated, minute(t, 1), minute(t, 2)) // there is a subscription now
	h := p.hand(t)
	var ds []*store.Delivery
	set := p.theSet()
	for i := range pull.HolesMost + 50 {
		iv := rsdoc.Interval{From: minute(t, 10+2*i), Until: minute(t, 11+2*i)}
		body := p.document(iv, nil)
		ds = append(ds, &store.Delivery{
			SubscriptionID: p.sub.ID, SourceID: set.SourceID, SetID: set.ID, Kind: store.ChannelChange, Received: store.MicrosOf(time.Now()),
			Signed: true, Digest: sha256.Sum256(body), From: store.Micros(iv.From), Until: store.Micros(iv.Until), Body: body,
		})
	}
	if err := errors.Join(p.store.Deliver(t.Context(), ds, nil), h.Do(t.Context(), WorkNotify)); err != nil {
		t.Fatal(err)
	}
	if n := len(p.theSet().Joint); n > pull.HolesMost {
		t.Errorf("%d intervals", n)
	}
	if n := len(p.listed()); n > pull.HolesMost {
		t.Errorf("%d gaps", n)
	}
}

// A body that does not match has the Change List read anew, which may explain it (F48).
func TestMismatchAsksTheList(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.set("resourcelist", "/rl.xml", "changelist", "/cl.xml")
	f.page("/rl.xml", list("resourcelist", `at="`+when(0)+`"`, f.res("/a.txt", "one")))
	f.page("/cl.xml", list("changelist", `from="`+when(0)+`"`))
	p := f.follow()
	p.pull(false)
	early := f.changed("/a.txt", "two", "updated", 10)
	f.page("/cl.xml", list("changelist", `from="`+when(0)+`"`, early))
	f.page("/a.txt", "three")
	p.pull(false)
	f.page("/cl.xml", list("changelist", `from="`+when(0)+`"`, early, f.changed("/a.txt", "three", "updated", 20)))
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte("three")))
	p.eventually("the newest is here", func() bool {
		for _, have := range p.files() {
			return have == sum
		}
		return false
	})
}

// concludeAll ends all pulls as if their patience were over.
func concludeAll(ctx context.Context, f *Follower) error {
	for _, p := range f.pulls {
		p.deadline, p.retry = time.Time{}, time.Time{}
	}
	return f.conclude(ctx)
}

// A pull whose end is met by a bug is concluded by the next try, and whoever asked for it is told (F5).
func TestConcludeAfterAPanic(t *testing.T) {
	t.Parallel()
	p := newPusher(t, source.Options{}, many(3))
	h := p.hand(t)
	ended, done := 0, 0
	h.RequestPull(PullRequest{Done: func(error) { done++ }, Ended: func(Result) {
		if ended++; ended == 1 {
			panic("a bug")
		}
	}})
	if err := h.Do(t.Context(), WorkPull); err != nil {
		t.Fatal(err)
	}
	if err := safe.Do(func() error { return concludeAll(t.Context(), h.Follower) }); err == nil {
		t.Fatal("no panic")
	}
	if err := concludeAll(t.Context(), h.Follower); err != nil {
		t.Fatal(err)
	}
	if left := h.unsettled.Load(); ended != 2 || done != 1 || left != 0 {
		t.Errorf("ended %d times, answered %d times, %d pulls are not concluded", ended, done, left)
	}
}

// Nobody who waits for a discovery is taken twice, or a second answer would block who gives it.
func TestFrameworkIsTakenOnce(t *testing.T) {
	t.Parallel()
	for range 20 {
		var a asks
		for range 5000 {
			a.request(&PullRequest{work: WorkFramework})
		}
		var both sync.WaitGroup
		var taken atomic.Int64
		for range 2 {
			both.Go(func() { taken.Add(int64(len(a.take(WorkFramework)))) })
		}
		if both.Wait(); taken.Load() != 5000 {
			t.Fatalf("%d of 5000 taken", taken.Load())
		}
	}
}

// A pull that a bug ends answers whoever asked for it (F5): the queue's next try knows of no request.
func TestPullThatPanicsAnswers(t *testing.T) {
	t.Parallel()
	p := newPusher(t, source.Options{}, many(3))
	h := p.hand(t)
	h.o.Offered = func(context.Context, int64, []destination.Channel) { panic("a bug") }
	var told []error
	h.RequestPull(PullRequest{Done: func(err error) { told = append(told, err) }})
	err := safe.Do(func() error { return h.Do(t.Context(), WorkPull) })
	if _, bug := errors.AsType[*safe.PanicError](err); !bug || len(told) != 1 || told[0] == nil {
		t.Errorf("ended with %v, told %v", err, told)
	}
}
