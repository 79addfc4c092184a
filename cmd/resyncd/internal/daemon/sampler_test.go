package daemon

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/store"
)

// chronicler keeps the points that it was given, unless it fails.
type chronicler struct {
	store.Store

	mu   sync.Mutex
	got  [][]store.Point
	fail error
	read int
}

func (c *chronicler) Points(context.Context, int64, store.Width, store.Micros, store.Micros) ([]store.Point, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read++
	return nil, nil
}

func (c *chronicler) failing(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail = err
}

func (c *chronicler) written() [][]store.Point {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.got)
}

func (c *chronicler) AddPoints(_ context.Context, points []store.Point) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fail == nil {
		c.got = append(c.got, points)
	}
	return c.fail
}

// TestSampler: what happens in a minute becomes one point of each Source, what cannot be written is not lost, and the last
// minute is written at the end.
func TestSampler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &chronicler{}
		d := New(Options{Config: config.Default(), Log: slog.New(slog.DiscardHandler), Now: time.Now})
		d.sampler.st = c
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- d.sample(ctx) }()
		began := store.MicrosOf(time.Now())
		d.sampler.add(store.Point{SourceID: 1, Changes: 2, Bytes: 10})
		d.sampler.add(store.Point{SourceID: 1, Pushes: 1, Latency: 5, LatencyMost: 5})
		d.sampler.add(store.Point{SourceID: 1, Pushes: 1, Latency: 3, LatencyMost: 3, Failed: 1})
		if w := d.sampler.waiting(1); w.Changes != 2 || w.Pushes != 2 {
			t.Errorf("waiting %+v", w)
		}
		<-time.After(59 * time.Second)
		synctest.Wait()
		if len(c.written()) != 0 {
			t.Errorf("written before the minute is over: %v", c.written())
		}
		<-time.After(2 * time.Second)
		synctest.Wait()
		want := [][]store.Point{{{SourceID: 1, At: began, Changes: 2, Bytes: 10, Pushes: 2, Latency: 8, LatencyMost: 5, Failed: 1}}}
		if diff := cmp.Diff(want, c.written()); diff != "" {
			t.Error(diff)
		}
		<-time.After(10 * time.Minute)
		synctest.Wait()
		if len(c.written()) != 1 { // nothing happened
			t.Errorf("%d writes", len(c.written()))
		}
		c.failing(errors.New("full"))
		d.sampler.add(store.Point{SourceID: 1, Changes: 1})
		first := store.MicrosOf(time.Now())
		<-time.After(5 * time.Minute)
		d.sampler.add(store.Point{SourceID: 1, Changes: 4})
		synctest.Wait()
		c.failing(nil)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		want = append(want, []store.Point{{SourceID: 1, At: first, Changes: 5}})
		if diff := cmp.Diff(want, c.written()); diff != "" {
			t.Error(diff)
		}
		if c.read != 12 || d.sampler.waiting(1) != (store.Point{}) {
			t.Errorf("read %d times, waiting %+v", c.read, d.sampler.waiting(1))
		}
	})
}

// hasty is a store that has carried a write out when it tells that its context ended.
type hasty struct {
	store.Store
	changes int64
}

func (h *hasty) AddPoints(ctx context.Context, points []store.Point) error {
	for i := range points {
		h.changes += points[i].Changes
	}
	return ctx.Err()
}

// TestSamplerCountsOnce: a write on which the daemon's end falls is not done again.
func TestSamplerCountsOnce(t *testing.T) {
	t.Parallel()
	h := &hasty{}
	s := newSampler(time.Now)
	s.st = h
	s.add(store.Point{SourceID: 1, Changes: 3})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 {
		if err := s.flush(ctx); err != nil {
			t.Error(err)
		}
	}
	if h.changes != 3 || s.waiting(1) != (store.Point{}) {
		t.Errorf("%d changes are written, %+v waits", h.changes, s.waiting(1))
	}
}

// TestClockSetBack: the overview shows the last day again once a clock that was far ahead is right.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	f := furnish(t)
	changed := func(ahead time.Duration, n int64) {
		t.Helper()
		f.sampler.now = func() time.Time { return time.Now().Add(ahead) }
		f.sampler.add(store.Point{SourceID: f.src.ID, Changes: n})
		if err := f.sampler.flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.loadDay(t.Context())
	}
	changed(-time.Minute, 1)
	changed(10*365*24*time.Hour, 2)
	f.clockJumped(t.Context(), -10*365*24*time.Hour)
	changed(0, 4)
	sum := int64(0)
	for _, p := range f.overview(t)["lib"].Hours {
		sum += p.Changes
	}
	if sum != 5 {
		t.Errorf("%d changes are shown", sum)
	}
}

// TestClockWatch: a wall clock that goes another way than the monotonic one is told of, small corrections are not.
func TestClockWatch(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c := newClockWatch(at, at)
	for i, step := range []struct{ wall, steady, want time.Duration }{
		{15 * time.Second, 15 * time.Second, 0}, {19 * time.Second, 15 * time.Second, 0}, {15 * time.Second, 24 * time.Second, 0},
		{time.Hour, 15 * time.Second, time.Hour - 15*time.Second}, {-time.Hour, 15 * time.Second, -time.Hour - 15*time.Second},
	} {
		wall, steady := c.wall.Add(step.wall), c.steady.Add(step.steady)
		if got := c.look(wall, steady); got != step.want {
			t.Errorf("%d: %s, want %s", i, got, step.want)
		}
	}
}

// TestDay: a row shows the last 24 hours, whenever it is looked at.
func TestDay(t *testing.T) {
	t.Parallel()
	hour := func(n int64) store.Micros { return store.Micros(n * 3600e6) }
	past := []store.Point{
		{At: hour(100), Changes: 1}, {At: hour(102) + 5, Changes: 2, Pushes: 2, Latency: 3e6}, {At: hour(101), Changes: 4},
		{At: hour(60), Changes: 1000}, // too old
	}
	at := func(n int64) (changes []int64, hours []store.Point) {
		hours = lastDay(hour(n).Time().Add(time.Minute), past, store.Point{At: hour(n), Changes: 7})
		for _, p := range hours {
			changes = append(changes, p.Changes)
		}
		return changes, hours
	}
	changes, hours := at(102)
	if diff := cmp.Diff([]int64{1, 4, 9}, changes[21:]); diff != "" || len(changes) != 24 || hours[23].Latency != 3e6 || hours[23].Pushes != 2 || hours[22].Pushes != 0 {
		t.Errorf("%s %v", diff, hours)
	}
	if changes, _ = at(124); changes[0] != 4 || changes[1] != 2 || changes[23] != 7 {
		t.Errorf("22 hours later: %v", changes)
	}
	if changes, _ = at(1000); changes[22] != 0 || changes[23] != 7 {
		t.Errorf("long after: %v", changes)
	}
	if hours := lastDay(hour(5).Time(), nil, store.Point{}); hours[23].Changes != 0 || len(hours) != 24 {
		t.Errorf("nothing ever: %v", hours)
	}
}

// TestStates: what a subscription comes to is counted once, and so is each lease.
func TestStates(t *testing.T) {
	t.Parallel()
	h := newHubs(nil)
	sub := store.Subscription{ID: 1, Verified: store.NoTime}
	for i, step := range []struct {
		state        store.SubscriptionState
		verified     store.Micros
		came, leased bool
	}{
		{store.SubRequesting, store.NoTime, true, false}, {store.SubRequesting, store.NoTime, false, false}, {store.SubActive, 5, true, true},
		{store.SubActive, 5, false, false}, {store.SubRenewing, 5, true, false}, {store.SubActive, 9, true, true}, {store.SubActive, 12, false, true},
		{store.SubGone, 12, true, false},
	} {
		sub.State, sub.Verified = step.state, step.verified
		if _, came, leased := h.note(&sub, 1); came != step.came || leased != step.leased {
			t.Errorf("%d: came %v, leased %v", i, came, leased)
		}
	}
	if subs := h.of(0, 0).subs; len(subs) != 0 {
		t.Errorf("it remembers what is gone: %v", subs)
	}
}
