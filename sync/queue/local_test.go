package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"resyncd/destination/safe"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs q until the test ends.
func start(t *testing.T, q *Local, work func(context.Context, Job) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- q.Run(ctx, work) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func put(t *testing.T, q *Local, j Job) {
	t.Helper()
	q.Put(j)
}

func TestFailedIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var told []string
		var q *Local
		broken := errors.New("broken")
		var mended atomic.Bool
		q = NewLocal(LocalOptions{Failed: func(j Job, failures int, again time.Time, err error) {
			when := "not again"
			if !again.IsZero() {
				when = "too soon"
				if step := time.Second << (failures - 1); time.Until(again) > step*3/4-1 && time.Until(again) <= step {
					when = fmt.Sprint("within ", step)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			told = append(told, fmt.Sprint(j.Source, " ", j.Kind, " ", failures, " ", when, ": ", err))
			p, ok := errors.AsType[*safe.PanicError](err)
			if ok != (j.Source == 2) || ok && !strings.Contains(string(p.Stack), "TestFailedIsTold") {
				t.Errorf("source %d failed with %#v", j.Source, err)
			}
			if j.Source == 2 && !errors.Is(err, broken) {
				t.Error("what it panicked with is lost")
			}
		}})
		start(t, q, func(ctx context.Context, j Job) error {
			switch {
			case mended.Load():
				return nil
			case j.Source == 2:
				panic(broken)
			case j.Source == 3:
				q.Drop(3)
				return broken
			}
			return broken
		})
		for i := range int64(3) {
			put(t, q, Job{Source: 1 + i, Kind: KindNotify})
			<-time.After(10 * time.Second)
			mended.Store(true)
			<-time.After(10 * time.Second)
			mended.Store(false)
		}
		mu.Lock()
		defer mu.Unlock()
		want := []string{
			"1 notify 1 within 1s: broken", "1 notify 2 within 2s: broken", "1 notify 3 within 4s: broken", "1 notify 4 within 8s: broken",
			"2 notify 1 within 1s: work panicked: broken", "2 notify 2 within 2s: work panicked: broken", "2 notify 3 within 4s: work panicked: broken", "2 notify 4 within 8s: work panicked: broken",
			"3 notify 1 not again: broken",
		}
		if got := strings.Join(told, "\n"); got != strings.Join(want, "\n") {
			t.Errorf("told:\n%s", got)
		}
	})
}

func TestOneRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := NewLocal(LocalOptions{})
		start(t, q, func(context.Context, Job) error { return nil })
		synctest.Wait()
		if err := q.Run(t.Context(), func(context.Context, Job) error { return nil }); err == nil {
			t.Error("a second Run was let in")
		}
	})
}

// TestSlots: exactly so many slotted jobs at a time, then those that take too long run aside, up to so many.
func TestSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newLocal(LocalOptions{}, limits{slots: 3, aside: 5, patience: 10 * time.Second})
		var inside, ran atomic.Int32
		start(t, q, func(ctx context.Context, j Job) error {
			inside.Add(1)
			defer inside.Add(-1)
			ran.Add(1)
			select {
			case <-time.After(time.Minute):
			case <-ctx.Done():
			}
			return nil
		})
		for i := range int64(20) {
			put(t, q, Job{Source: i, Kind: []Kind{KindPull, KindFramework, KindScrub}[i%3]})
		}
		for _, step := range []struct {
			after       time.Duration
			inside, ran int32
		}{
			{0, 3, 3}, {9 * time.Second, 3, 3}, {2 * time.Second, 6, 6}, {10 * time.Second, 8, 8}, {30 * time.Second, 8, 8},
			{10 * time.Second, 8, 11}, {5 * time.Minute, 0, 20},
		} {
			<-time.After(step.after)
			synctest.Wait()
			if i, r := inside.Load(), ran.Load(); i != step.inside || r != step.ran {
				t.Errorf("%v later: %d inside, %d ran; want %d and %d", step.after, i, r, step.inside, step.ran)
			}
		}
		if q.slots != 3 || q.aside != 0 || len(q.holding)+len(q.asking) != 0 {
			t.Errorf("left: %d slots, %d aside, %d holding, %d asking", q.slots, q.aside, len(q.holding), len(q.asking))
		}
	})
}

// TestDropOfOneThatWaits: a dropped Source leaves the row for a slot, and one that is in its seat leaves that.
func TestDropOfOneThatWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newLocal(LocalOptions{}, limits{slots: 1, aside: 64, patience: time.Hour})
		gates := []chan struct{}{make(chan struct{}), make(chan struct{}), make(chan struct{})}
		ran := make(chan Job, 10)
		start(t, q, func(_ context.Context, j Job) error {
			ran <- j
			if j.Source < 2 {
				<-gates[j.Source]
			}
			return nil
		})
		put(t, q, Job{Source: 0, Kind: KindPull})
		<-ran
		put(t, q, Job{Source: 1, Kind: KindPull, Due: time.Now().Add(-time.Minute)})
		put(t, q, Job{Source: 2, Kind: KindPull})
		put(t, q, Job{Source: 3, Kind: KindPull})
		put(t, q, Job{Source: 1, Kind: KindNotify}) // Source 1 gets the slot while it does this
		<-ran
		synctest.Wait()
		q.Drop(2)
		close(gates[0])
		synctest.Wait()
		if len(ran) != 0 || q.lanes[1].seat != seatSlot {
			t.Fatalf("%d ran, source 1 has seat %d", len(ran), q.lanes[1].seat)
		}
		begin := time.Now()
		q.Drop(1)
		if j := <-ran; j.Source != 3 || time.Since(begin) > time.Second {
			t.Errorf("%v ran after %v", j, time.Since(begin))
		}
		close(gates[1])
		synctest.Wait()
		if len(ran) != 0 || len(q.lanes) != 2 || q.slots != 1 {
			t.Errorf("left: %d jobs, %d lanes, %d slots", len(ran), len(q.lanes), q.slots)
		}
	})
}

// TestDropKeepsTheLimit: a dropped Job that still runs still counts.
func TestDropKeepsTheLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newLocal(LocalOptions{}, limits{slots: 1, aside: 64, patience: time.Hour})
		ran := make(chan Job, 10)
		start(t, q, func(context.Context, Job) error { <-time.After(time.Minute); ran <- Job{}; return nil })
		put(t, q, Job{Source: 1, Kind: KindPull})
		synctest.Wait()
		q.Drop(1)
		put(t, q, Job{Source: 2, Kind: KindPull})
		<-time.After(90 * time.Second)
		if len(ran) != 1 {
			t.Errorf("%d ended, want one after the other", len(ran))
		}
		<-time.After(time.Minute)
		if len(ran) != 2 {
			t.Errorf("%d ended, want both", len(ran))
		}
	})
}

// TestQuickOnesFirst: of those that wait for a slot, one whose last pull took long lets a quick one pass, but does not wait
// for ever.
func TestQuickOnesFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const slow, quick, other = 1, 2, 3
		q := newLocal(LocalOptions{}, limits{slots: 1, aside: 64, patience: time.Hour})
		var mu sync.Mutex
		var order []int64
		start(t, q, func(_ context.Context, j Job) error {
			mu.Lock()
			order = append(order, j.Source)
			mu.Unlock()
			switch j.Source {
			case slow:
				<-time.After(50 * time.Second)
			case other:
				<-time.After(10 * time.Second)
			}
			return nil
		})
		pull := func(source int64) {
			put(t, q, Job{Source: source, Kind: KindPull})
			<-time.After(time.Second)
		}
		pull(slow)
		<-time.After(time.Minute)
		pull(other)
		pull(slow)
		pull(quick)
		<-time.After(2 * time.Minute)
		pull(other)
		pull(slow)
		for range 120 { // there is always one who is quicker
			pull(other)
		}
		mu.Lock()
		defer mu.Unlock()
		if got := fmt.Sprint(order[:5]); got != "[1 3 2 1 3]" {
			t.Errorf("order %v", got)
		}
		if !slices.Contains(order[5:], slow) {
			t.Errorf("the slow one starves: %v", order)
		}
	})
}

// TestFailuresCount: they are counted on when the Job is put while it runs.
func TestFailuresCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var most atomic.Int64
		q := NewLocal(LocalOptions{Failed: func(_ Job, failures int, _ time.Time, _ error) { most.Store(int64(failures)) }})
		start(t, q, func(ctx context.Context, j Job) error {
			q.Put(Job{Source: j.Source, Kind: j.Kind, Due: time.Now().Add(time.Hour)})
			return errors.New("broken")
		})
		put(t, q, Job{Source: 1, Kind: KindNotify})
		<-time.After(20 * time.Second)
		if n := most.Load(); n != 5 {
			t.Errorf("%d failures counted, want 5", n)
		}
	})
}

// wallClock is a clock that is set, without a monotonic reading, as after a suspension.
type wallClock struct{ ahead atomic.Int64 }

func (c *wallClock) now() time.Time { return time.Now().Round(0).Add(time.Duration(c.ahead.Load())) }

// TestClockJumps: what is due by the wall clock runs within half a minute after a jump, and a clock set back holds up
// nothing that was due.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var clock wallClock
		q := newLocal(LocalOptions{Now: clock.now}, limits{slots: 1, aside: 64, patience: 100 * time.Hour})
		ran := make(chan Job, 10)
		gate := make(chan struct{})
		start(t, q, func(_ context.Context, j Job) error {
			ran <- j
			if j.Kind == "first" || j.Kind == KindScrub {
				<-gate
			}
			return nil
		})
		begin := time.Now()
		next := func(within time.Duration, wants ...Kind) {
			t.Helper()
			for range wants {
				if j := <-ran; !slices.Contains(wants, j.Kind) || time.Since(begin) > within {
					t.Errorf("%v ran %v after the jump, want %v", j, time.Since(begin), wants)
				}
			}
		}
		jump := func(d time.Duration) { synctest.Wait(); clock.ahead.Add(int64(d)); begin = time.Now() }

		put(t, q, Job{Source: 1, Kind: KindConclude, Due: clock.now().Add(time.Hour)})
		<-time.After(time.Minute)
		jump(2 * time.Hour) // suspended
		next(30*time.Second, KindConclude)
		put(t, q, Job{Source: 1, Kind: KindConclude, Due: clock.now().Add(time.Hour)})
		jump(-24 * time.Hour)
		<-time.After(time.Minute)
		jump(26 * time.Hour)
		next(30*time.Second, KindConclude)

		// Due, but its Source is busy, or all slots are.
		put(t, q, Job{Source: 1, Kind: "first"})
		put(t, q, Job{Source: 2, Kind: KindScrub})
		next(time.Minute, "first", KindScrub)
		put(t, q, Job{Source: 1, Kind: KindNotify})
		put(t, q, Job{Source: 1, Kind: KindGap, Due: clock.now().Add(time.Hour)})
		put(t, q, Job{Source: 1, Kind: KindGap})
		put(t, q, Job{Source: 3, Kind: KindPull, Due: clock.now().Add(time.Second)})
		<-time.After(2 * time.Second)
		jump(-24 * time.Hour)
		close(gate)
		next(time.Second, KindNotify, KindGap, KindPull)
		put(t, q, Job{Source: 2, Kind: KindConclude})
		next(time.Second, KindConclude)
	})
}

func TestBackOff(t *testing.T) {
	t.Parallel()
	for n := 1; n < 1000; n++ {
		step := 5 * time.Minute
		if n < 10 {
			step = min(step, time.Second<<(n-1))
		}
		for range 20 {
			if d := (&lane{}).failed(entry{failures: n - 1}, time.Time{}).Sub(time.Time{}); d > step || d <= step*3/4-time.Nanosecond {
				t.Fatalf("failure %d: %v, want up to %v", n, d, step)
			}
		}
	}
}
