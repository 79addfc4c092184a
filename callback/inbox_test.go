package callback

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"resyncd/destination/websub"
	"resyncd/store"
)

// post is a signed notification, answered without a network.
func (s *site) post(token, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", "/cb/"+token, strings.NewReader(body))
	r.Header.Set("X-Hub-Signature", sign(body))
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// TestAckMeansDurable: 2xx only after Deliver returned nil, for each of a group (P4).
func TestAckMeansDurable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		let := make(chan error)
		s := start(t, nil)
		s.store.deliver = func([]*store.Delivery) error { return <-let }
		const posts = 20
		var answered atomic.Int64
		var wg sync.WaitGroup
		var statuses [posts]int
		post := func(n int) {
			wg.Go(func() {
				statuses[n] = s.post(tokenOf, fmt.Sprint("note ", n)).Code
				answered.Add(1)
			})
		}
		post(0)
		synctest.Wait()
		for n := 1; n < posts; n++ {
			post(n)
		}
		synctest.Wait()
		if answered.Load() != 0 {
			t.Fatal("answered before anything was durable")
		}
		let <- nil
		synctest.Wait()
		if answered.Load() != 1 {
			t.Fatalf("%d answers after the first commit", answered.Load())
		}
		let <- errors.New("disk")
		wg.Wait()
		for n, status := range statuses {
			if want := map[bool]int{true: 200, false: 503}[n == 0]; status != want {
				t.Errorf("post %d: %d", n, status)
			}
		}
		if kept := s.store.deliveries(); len(kept) != 1 {
			t.Errorf("kept %d", len(kept))
		}
		s.answered(t)
		// And it goes on.
		s.store.deliver = nil
		if w := s.post(tokenOf, "later"); w.Code != 200 {
			t.Error(w.Code)
		}
	})
}

// TestGroupCommit: what comes while a commit runs goes into the next, and a Source is woken once a commit.
func TestGroupCommit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		let := make(chan struct{})
		var wakes []int64
		s := start(t, func(o *Options) { o.Wake = func(source int64) { wakes = append(wakes, source) } })
		s.store.deliver = func([]*store.Delivery) error { <-let; return nil }
		var wg sync.WaitGroup
		for n := range 30 {
			wg.Go(func() { s.post([]string{tokenOf, "pending-token"}[n%2], fmt.Sprint(n)) })
			if n == 0 {
				synctest.Wait()
			}
		}
		synctest.Wait()
		let <- struct{}{}
		let <- struct{}{}
		wg.Wait()
		if got := fmt.Sprint(s.store.batches); got != "[1 29]" {
			t.Errorf("batches %v", got)
		}
		if got := fmt.Sprint(wakes); got != "[11 11 16]" && got != "[11 16 11]" {
			t.Errorf("woken %v", got)
		}
	})
}

// TestWokenBeforeDurable: what can be read is taken up at once, and the hub is told only when it is durable (P4).
func TestWokenBeforeDurable(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		end    error
		status int
	}{"durable": {nil, 200}, "lost": {store.ErrUnsure, 503}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				woken, answered := 0, 0
				let := make(chan error)
				s := start(t, func(o *Options) { o.Wake = func(int64) { woken++ } })
				s.store.durable = func() error { return <-let }
				var post sync.WaitGroup
				post.Go(func() { answered = s.post(tokenOf, "news").Code })
				synctest.Wait()
				if woken != 1 || answered != 0 || len(s.store.deliveries()) != 1 {
					t.Errorf("woken %d times, answered %d", woken, answered)
				}
				let <- tt.end
				post.Wait()
				if woken != 1 || answered != tt.status {
					t.Errorf("at last: woken %d times, answered %d", woken, answered)
				}
				s.answered(t)
			})
		})
	}
}

// TestBatchBounds: a batch has an end, in number and in bytes.
func TestBatchBounds(t *testing.T) {
	t.Parallel()
	i := newInbox(Options{limits: limits{waiting: 2000}}.withDefaults())
	fill := func(n, size int) {
		for range n {
			i.queue <- &pendingDelivery{d: &store.Delivery{Body: make([]byte, size)}}
		}
	}
	fill(1500, 1)
	if n := len(i.collect(<-i.queue)); n != batchCount {
		t.Error(n)
	}
	for len(i.queue) > 0 {
		<-i.queue
	}
	fill(20, 4<<20)
	if n := len(i.collect(<-i.queue)); n != 4 {
		t.Error(n)
	}
}

// TestStop: what waits is committed and answered, what comes later is asked to come again.
func TestStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStore()
		let := make(chan struct{})
		f.deliver = func([]*store.Delivery) error { <-let; return nil }
		s := &site{Callback: New(Options{Store: f, Keeper: &fakeKeeper{}, BasePath: "/cb"}), store: f}
		s.SetReady(true)
		ctx, stop := context.WithCancel(t.Context())
		var wg, posts sync.WaitGroup
		wg.Go(func() {
			if err := s.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		for n := range 10 {
			posts.Go(func() {
				if w := s.post(tokenOf, fmt.Sprint(n)); w.Code != 200 {
					t.Error(w.Code)
				}
			})
		}
		r := httptest.NewRequest("POST", "/cb/"+tokenOf, strings.NewReader("forged"))
		s.ServeHTTP(httptest.NewRecorder(), r)
		synctest.Wait()
		stop()
		synctest.Wait()
		posts.Go(func() { // the committer has not seen the end yet: it may still be taken
			if w := s.post(tokenOf, "late"); w.Code != http.StatusServiceUnavailable && w.Code != 200 {
				t.Error(w.Code)
			}
		})
		synctest.Wait()
		close(let)
		posts.Wait()
		wg.Wait()
		if w := s.post(tokenOf, "too late"); w.Code != http.StatusServiceUnavailable {
			t.Error(w.Code)
		}
		if n := len(f.deliveries()); n < 10 {
			t.Errorf("%d kept", n)
		}
		if f.tally(1).RejectedSignature != 1 {
			t.Error("the last counts were lost")
		}
		s.answered(t)
	})
}

// TestTalliesSurvive: counts that cannot be written now are written later, and asked for pulls once.
func TestTalliesSurvive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pulls := 0
		var log bytes.Buffer
		s := start(t, func(o *Options) {
			o.MaxBody, o.TooLarge = 10, func(int64, int64) { pulls++ }
			o.Log = slog.New(slog.NewTextHandler(&log, nil))
		})
		s.post(tokenOf, "the first time it is seen")
		s.store.set(func(f *fakeStore) { f.failing = errors.New("disk") })
		for range 5 {
			s.post(tokenOf, "12345678901")
			<-time.After(2 * tallyEvery)
		}
		s.store.set(func(f *fakeStore) { f.failing = nil })
		<-time.After(2 * tallyEvery)
		synctest.Wait()
		if got := s.store.tally(1).RejectedTooLarge; got != 6 || pulls != 5 { // two of them in one second
			t.Errorf("counted %d, asked for %d pulls", got, pulls)
		}
		if got := strings.Count(log.String(), "\n"); got < 2 || got > 4 || strings.Contains(log.String(), tokenOf) {
			t.Errorf("log: %s", log.String())
		}
	})
}

// TestVerificationDoesNotWait: a hub is confirmed while notifications hang in their commit (S-36).
func TestVerificationDoesNotWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		let := make(chan struct{})
		s := start(t, nil)
		s.store.deliver = func([]*store.Delivery) error { <-let; return nil }
		var wg sync.WaitGroup
		wg.Go(func() { s.post(tokenOf, "x") })
		synctest.Wait()
		began := time.Now()
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest("GET", "/cb/"+tokenOf+query("subscribe", topic, "abc"), nil))
		if w.Code != 200 || time.Since(began) != 0 {
			t.Errorf("answered %d after %v", w.Code, time.Since(began))
		}
		close(let)
		wg.Wait()
	})
}

// hung is a state that does not move in one of its operations, nor in the keeper's, until the context ends.
type hung struct {
	*fakeStore
	*fakeKeeper
	in string
}

func (h *hung) wait(ctx context.Context, in string) error {
	if h.in != in {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (h *hung) SubscriptionByToken(ctx context.Context, token string) (store.Subscription, error) {
	if err := h.wait(ctx, "lookups"); err != nil {
		return store.Subscription{}, err
	}
	return h.fakeStore.SubscriptionByToken(ctx, token)
}

func (h *hung) TallySubscription(ctx context.Context, id int64, n store.Tally) error {
	return errors.Join(h.wait(ctx, "counts"), h.fakeStore.TallySubscription(ctx, id, n))
}

func (h *hung) Deliver(ctx context.Context, ds []*store.Delivery, readable func()) error {
	if err := h.wait(ctx, "commits"); err != nil {
		return err
	}
	return h.fakeStore.Deliver(ctx, ds, readable)
}

func (h *hung) InboxShares(ctx context.Context) (map[int64]store.InboxSize, error) {
	if err := h.wait(ctx, "measurements"); err != nil {
		return nil, err
	}
	return h.fakeStore.InboxShares(ctx)
}

func (h *hung) Verify(ctx context.Context, sub store.Subscription, v websub.Verification) (bool, error) {
	if err := h.wait(ctx, "records"); err != nil {
		return false, err
	}
	return h.fakeKeeper.Verify(ctx, sub, v)
}

func (h *hung) Denied(ctx context.Context, sub store.Subscription, reason string) error {
	return errors.Join(h.wait(ctx, "records"), h.fakeKeeper.Denied(ctx, sub, reason))
}

// TestHandshakesDoNotWait: hubs are answered at once while the state hangs in what a handshake does not need, and in
// time where it does (S-36).
func TestHandshakesDoNotWait(t *testing.T) {
	t.Parallel()
	for in, after := range map[string]time.Duration{
		"commits": 0, "counts": 0, "measurements": 0, "lookups": lookupTime, "records": keeperTime,
	} {
		t.Run(in, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var state *hung
				s := start(t, func(o *Options) {
					state = &hung{fakeStore: o.Store.(*fakeStore), fakeKeeper: o.Keeper.(*fakeKeeper)}
					o.Store, o.Keeper = state, state
				})
				s.post(tokenOf, "there is something to measure")
				synctest.Wait()
				state.in = in
				var wg sync.WaitGroup
				wg.Go(func() { s.post(tokenOf, "x") })
				wg.Go(func() {
					s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/cb/"+tokenOf, strings.NewReader("forged")))
				})
				<-time.After(3 * tallyEvery)
				for range 20 {
					for _, mode := range []string{"subscribe", "unsubscribe", "denied"} {
						wg.Go(func() {
							began, want := time.Now(), map[bool]int{true: 200, false: 503}[after == 0]
							w := httptest.NewRecorder()
							s.ServeHTTP(w, httptest.NewRequest("GET", "/cb/"+tokenOf+query(mode, topic, "abc"), nil))
							if took := time.Since(began); w.Code != want || took != after {
								t.Errorf("%s: answered %d after %v", mode, w.Code, took)
							}
						})
					}
				}
				wg.Wait()
			})
		})
	}
}
