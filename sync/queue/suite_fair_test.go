package queue_test

import (
	"context"
	"sync/atomic"
	"time"

	"resyncd/sync/queue"
)

// testHog: Sources that always have a pull to do leave room for others.
func testHog(b *bench) {
	b.begin(func(ctx context.Context, j queue.Job) error {
		if j.Source < 50 {
			<-time.After(tick)
			b.q.Put(queue.Job{Source: j.Source, Kind: j.Kind})
			return nil
		}
		return nil
	})
	for source := range int64(50) {
		b.put(source, queue.KindPull, 0)
	}
	b.wait(50, soon, any1) // each of them had its turn
	for source := range int64(10) {
		b.put(50+source, queue.KindPull, 0)
	}
	b.wait(10, soon, func(j queue.Job) bool { return j.Source >= 50 })
	least, most := 1<<30, 0
	<-time.After(pause)
	count := map[int64]int{}
	for _, r := range b.all() {
		count[r.Source]++
	}
	for source := range int64(50) {
		least, most = min(least, count[source]), max(most, count[source])
	}
	if least < most*2/3 {
		b.Fatalf("some ran %d times, some %d times", least, most)
	}
}

// testStream: a Source that always has a notification to read gets its pull done, though all slots are wanted (P9).
func testStream(b *bench) {
	b.begin(func(ctx context.Context, j queue.Job) error {
		<-time.After(tick / 10)
		if j.Source == 0 && j.Kind == queue.KindPull {
			return nil
		}
		b.q.Put(queue.Job{Source: j.Source, Kind: j.Kind})
		return nil
	})
	for source := range int64(80) {
		b.put(1+source, queue.KindPull, 0)
	}
	b.put(0, queue.KindNotify, 0)
	b.wait(10, soon, of(0, queue.KindNotify))
	b.put(0, queue.KindPull, 0)
	b.wait(1, soon, of(0, queue.KindPull))
}

// testDead: fifty Sources whose jobs block for a minute leave a healthy one alone (issue 3, point 6).
func testDead(b *bench) {
	b.begin(blocking)
	for source := range int64(50) {
		for _, k := range []queue.Kind{queue.KindPull, queue.KindFramework, queue.KindGap, queue.KindConclude, queue.KindScrub} {
			b.put(1+source, k, 0)
		}
	}
	b.wait(50, soon, any1)
	for _, k := range []queue.Kind{queue.KindNotify, queue.KindGap, queue.KindConclude} {
		start := time.Now()
		b.put(0, k, 0)
		b.promptly(start, 0, k, 10*time.Millisecond)
	}
	// The dead ones go on to their pulls, and wait for all slots at the same time.
	<-time.After(61 * time.Second)
	start := time.Now()
	b.put(0, queue.KindPull, 0)
	b.promptly(start, 0, queue.KindPull, 15*time.Second)
}

// testDeadOften: what fifty dead Sources cost the freshness of a healthy one without a hub, over hours of pulls that all
// fall due at the same time.
func testDeadOften(b *bench) {
	const every = 2 * time.Minute
	var late atomic.Int64
	b.begin(func(ctx context.Context, j queue.Job) error {
		if j.Source == 0 {
			late.Add(int64(time.Since(j.Due)))
		}
		return blocking(ctx, j)
	})
	const rounds = 100
	for range rounds {
		for source := int64(50); source >= 0; source-- {
			b.put(source, queue.KindPull, 0)
		}
		<-time.After(every)
	}
	if mean := time.Duration(late.Load()) / rounds; mean > every/20 {
		b.Fatalf("the healthy one waited %v on average, pulls are %v apart", mean, every)
	}
}

func (b *bench) promptly(since time.Time, source int64, k queue.Kind, most time.Duration) {
	b.Helper()
	rs := b.wait(1, most+soon, of(source, k))
	if took := rs[len(rs)-1].at.Sub(since); took > most {
		b.Fatalf("%s of the healthy source began after %v", k, took)
	}
}

// blocking works for a minute, or at once for Source 0.
func blocking(ctx context.Context, j queue.Job) error {
	if j.Source == 0 {
		return nil
	}
	select {
	case <-time.After(time.Minute):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// testOvertake: what needs no slot does not wait behind a pull of its own Source that waits for one.
func testOvertake(b *bench) {
	g := newGate()
	b.begin(func(ctx context.Context, j queue.Job) error {
		if j.Kind.Slotted() {
			return g.pass(ctx)
		}
		return nil
	})
	const many = 2000 // more than any slots
	for source := range int64(many) {
		b.put(source, queue.KindPull, -time.Minute)
	}
	<-time.After(10 * time.Minute)
	idle := map[int64]bool{}
	for source := range int64(many) {
		idle[source] = true
	}
	for _, r := range b.all() {
		delete(idle, r.Source)
	}
	if len(idle) == 0 {
		b.Fatal("pulls are not limited")
	}
	for source := range idle {
		b.put(source, queue.KindNotify, 0)
	}
	b.wait(len(idle), soon, func(j queue.Job) bool { return j.Kind == queue.KindNotify })
	close(g.open)
	b.wait(many, soon, func(j queue.Job) bool { return j.Kind == queue.KindPull })
}
