package queue_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"resyncd/sync/queue"
)

func testPut(b *bench) {
	b.begin(done)
	b.put(7, queue.KindNotify, 0)
	got := b.wait(1, soon, any1)[0]
	if got.Source != 7 || got.Kind != queue.KindNotify || got.Due.IsZero() {
		b.Fatalf("ran %+v", got)
	}
	b.put(8, "other", 0)
	b.wait(1, soon, of(8, "other"))
	b.quiet(pause)
	b.q.Put(queue.Job{Source: 1}) // it has no kind
	b.quiet(pause)
}

func testPutBeforeRun(b *bench) {
	b.put(1, queue.KindPull, 0)
	b.put(2, queue.KindNotify, 0)
	b.quiet(tick)
	b.begin(done)
	b.wait(2, soon, any1)
}

func testDue(b *bench) {
	b.begin(done)
	due := time.Now().Add(2 * time.Second)
	for source := range int64(3) {
		b.q.Put(queue.Job{Source: source, Kind: queue.KindConclude, Due: due})
	}
	b.put(3, queue.KindPull, -time.Hour)
	b.wait(1, soon, of(3, queue.KindPull))
	for _, r := range b.wait(4, 2*time.Second+soon, any1)[1:] {
		if r.at.Before(due) {
			b.Fatalf("ran %v too early", due.Sub(r.at))
		}
		if d := r.Due.Sub(due).Abs(); d > time.Millisecond {
			b.Fatalf("its Due is %v off", d)
		}
	}
}

// testEarlier: the earlier Due counts, in whatever order they come.
func testEarlier(b *bench) {
	b.begin(done)
	start := time.Now()
	b.put(1, queue.KindConclude, time.Hour)
	b.put(1, queue.KindConclude, time.Second)
	b.put(1, queue.KindConclude, 2*time.Hour)
	if took := b.wait(1, soon, any1)[0].at.Sub(start); took < time.Second {
		b.Fatalf("ran after %v, want 1s", took)
	}
	b.quiet(tick)
}

func testCoalesce(b *bench) {
	g := newGate()
	b.begin(func(ctx context.Context, _ queue.Job) error { return g.pass(ctx) })
	b.put(1, queue.KindNotify, 0)
	b.wait(1, soon, any1)
	for range 5000 {
		b.put(1, queue.KindNotify, 0)
	}
	b.quiet(tick)
	close(g.open)
	b.wait(2, soon, any1)
	b.quiet(tick)
}

// testAgain: a Put while the Job runs makes it run again, at its Due.
func testAgain(b *bench) {
	g := newGate()
	b.begin(func(ctx context.Context, _ queue.Job) error { return g.pass(ctx) })
	b.put(1, queue.KindConclude, 0)
	b.wait(1, soon, any1)
	start := time.Now()
	b.put(1, queue.KindConclude, 2*time.Second)
	close(g.open)
	again := b.wait(2, soon+2*time.Second, any1)[1]
	if took := again.at.Sub(start); took < 2*time.Second {
		b.Fatalf("ran again after %v, want 2s", took)
	}
}

// testNoLostWakeUp hammers the Queue and checks that one Source is never worked on twice at a time, and that whatever was
// recorded before a Put is seen by a run.
func testNoLostWakeUp(b *bench) {
	const sources, puts, writers = 8, 300, 4
	var recorded, seen [sources]atomic.Int64
	var inside [sources]atomic.Int32
	b.begin(func(_ context.Context, j queue.Job) error {
		if inside[j.Source].Add(1) != 1 {
			b.Errorf("source %d is worked on twice at a time", j.Source)
		}
		defer inside[j.Source].Add(-1)
		seen[j.Source].Store(recorded[j.Source].Load())
		<-time.After(time.Duration(rand.IntN(100)) * time.Microsecond)
		return nil
	})
	every := []queue.Kind{queue.KindNotify, queue.KindGap, queue.KindPull, queue.KindScrub, queue.KindConclude}
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for range puts {
				source := rand.Int64N(sources)
				recorded[source].Add(1)
				b.q.Put(queue.Job{Source: source, Kind: every[rand.IntN(len(every))]})
				if rand.IntN(4) == 0 {
					<-time.After(time.Duration(rand.IntN(100)) * time.Microsecond)
				}
			}
		})
	}
	all.Wait()
	<-time.After(pause)
	for i := range sources {
		if r, s := recorded[i].Load(), seen[i].Load(); r != s {
			b.Errorf("source %d: the last run saw %d of %d", i, s, r)
		}
	}
}

// testOrder: within a second by kind, beyond it by Due.
func testOrder(b *bench) {
	g := newGate()
	b.begin(func(ctx context.Context, j queue.Job) error {
		if j.Kind == "first" {
			return g.pass(ctx)
		}
		return nil
	})
	b.put(1, "first", 0)
	b.wait(1, soon, any1)
	due := time.Now().Truncate(time.Second).Add(-time.Second)
	put := func(k queue.Kind, at time.Time) {
		b.q.Put(queue.Job{Source: 1, Kind: k, Due: at})
	}
	order := []queue.Kind{
		queue.KindNotify, queue.KindGap, queue.KindFramework, queue.KindPull, queue.KindConclude, queue.KindScrub,
	}
	for i, k := range []int{5, 2, 0, 4, 1, 3} {
		put(order[k], due.Add(time.Duration(i)*time.Millisecond))
	}
	put("other", due)
	put("older", due.Add(-time.Second))
	put("oldest", due.Add(-time.Hour))
	close(g.open)
	want := append([]queue.Kind{"first", "oldest", "older"}, order...)
	want = append(want, "other")
	b.same("order", want, kinds(b.wait(len(want), soon, any1)))
}

func testParallel(b *bench) {
	g := newGate()
	b.begin(func(ctx context.Context, _ queue.Job) error { return g.pass(ctx) })
	for source := range int64(100) {
		b.put(source, []queue.Kind{queue.KindNotify, queue.KindGap, queue.KindConclude}[source%3], 0)
	}
	b.wait(100, soon, any1) // all at the same time
	close(g.open)
	b.quiet(tick)
	seen := map[string]bool{}
	for _, r := range b.all() {
		seen[fmt.Sprint(r.Source)] = true
	}
	b.same("sources", 100, len(seen))
}
