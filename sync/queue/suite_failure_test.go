package queue_test

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"resyncd/sync/queue"
)

var errWork = errors.New("it did not work")

// testFailure: repeated after 1 s, doubling to 5 min, until it succeeds, and from the start when it fails again later.
func testFailure(b *bench) {
	const fails = 14
	var n atomic.Int32
	b.begin(func(context.Context, queue.Job) error {
		if n.Add(1)%(fails+1) == 0 {
			return nil
		}
		return errWork
	})
	for series := range 2 {
		b.put(1, queue.KindPull, 0)
		rs := b.wait((series+1)*(fails+1), 2*time.Hour, any1)[series*(fails+1):]
		for i := range fails {
			step := min(time.Second<<i, 5*time.Minute)
			if took := rs[i+1].at.Sub(rs[i].at); took < step/2 || took > step+step/2 {
				b.Errorf("pause %d is %v, want about %v", i, took, step)
			}
		}
		b.quiet(time.Hour)
	}
}

// testFailureAlone: a Job that fails holds up no other, not even of its Source.
func testFailureAlone(b *bench) {
	b.begin(func(_ context.Context, j queue.Job) error {
		if j.Kind == queue.KindPull {
			return errWork
		}
		return nil
	})
	b.put(1, queue.KindPull, 0)
	b.wait(1, soon, any1)
	start := time.Now()
	b.put(1, queue.KindNotify, 0)
	b.put(2, queue.KindNotify, 0)
	b.wait(2, soon, func(j queue.Job) bool { return j.Kind == queue.KindNotify })
	if took := time.Since(start); took > time.Second {
		b.Fatalf("the others waited %v", took)
	}
	b.wait(2, soon, of(1, queue.KindPull))
}

func testPanic(b *bench) {
	var n atomic.Int32
	b.begin(func(context.Context, queue.Job) error {
		switch n.Add(1) {
		case 1:
			panic("a bug")
		case 2:
			panic(errWork)
		}
		return nil
	})
	b.put(1, queue.KindNotify, 0)
	b.wait(3, 2*soon, any1)
	b.quiet(pause)
}

// testPutAfterFailure: news bring a repetition forward, but never make it a hot loop.
func testPutAfterFailure(b *bench) {
	b.begin(func(context.Context, queue.Job) error { return errWork })
	b.put(1, queue.KindNotify, 0)
	b.wait(8, time.Hour, any1) // the next pause is two minutes
	<-time.After(2 * time.Second)
	start := time.Now()
	b.put(1, queue.KindNotify, 0)
	if took := b.wait(9, time.Hour, any1)[8].at.Sub(start); took > tick {
		b.Fatalf("it began %v after the Put", took)
	}
	before := len(b.all())
	for range 1000 {
		b.put(1, queue.KindNotify, 0)
		<-time.After(10 * time.Millisecond)
	}
	if n := len(b.all()) - before; n < 5 || n > 15 {
		b.Fatalf("it began %d times in 10 s of puts", n)
	}
}

// testPutWhileFailing: a Put while the Job runs and fails is no way around the pause either.
func testPutWhileFailing(b *bench) {
	b.begin(func(ctx context.Context, j queue.Job) error {
		b.q.Put(queue.Job{Source: j.Source, Kind: j.Kind})
		return errWork
	})
	b.put(1, queue.KindNotify, 0)
	<-time.After(10 * time.Second)
	if n := len(b.all()); n < 5 || n > 15 {
		b.Fatalf("it began %d times in 10 s", n)
	}
}

// testPutLaterWhileFailing: nor does a Put for later postpone the repetition.
func testPutLaterWhileFailing(b *bench) {
	b.begin(func(ctx context.Context, j queue.Job) error {
		b.q.Put(queue.Job{Source: j.Source, Kind: j.Kind, Due: time.Now().Add(time.Hour)})
		return errWork
	})
	b.put(1, queue.KindNotify, 0)
	b.wait(3, soon, any1)
}

func testDrop(b *bench) {
	b.drop(1) // nothing there
	b.begin(done)
	b.put(1, queue.KindPull, time.Second)
	b.put(1, queue.KindConclude, time.Second)
	b.put(2, queue.KindConclude, time.Second)
	b.drop(1)
	b.wait(1, soon, any1)
	b.quiet(tick)
	b.put(1, queue.KindPull, 0)
	b.wait(1, soon, of(1, queue.KindPull))
}

// testDropRunning: what runs is left to end, not repeated, and the Source stays the work of one.
func testDropRunning(b *bench) {
	for source, kind := range []queue.Kind{queue.KindPull, queue.KindNotify} {
		g := newGate()
		var inside atomic.Int32
		stop := b.begin(func(ctx context.Context, j queue.Job) error {
			if j.Kind != kind {
				return nil
			}
			if inside.Add(1) != 1 {
				b.Error("worked on twice at a time")
			}
			defer inside.Add(-1)
			if err := g.pass(ctx); err != nil {
				return err
			}
			return errWork
		})
		id := int64(source)
		b.put(id, kind, 0)
		b.wait(1, soon, of(id, kind))
		b.put(id, kind, 0)
		b.drop(id)
		b.put(id, queue.KindConclude, 0)
		b.quiet(tick)
		close(g.open)
		b.wait(1, soon, of(id, queue.KindConclude))
		b.quiet(10 * time.Minute)
		if err := stop(); err != nil {
			b.Fatal(err)
		}
	}
}

// testDropWithin: work may drop its own Source.
func testDropWithin(b *bench) {
	b.begin(func(ctx context.Context, j queue.Job) error {
		if j.Kind == queue.KindConclude {
			b.q.Drop(j.Source)
			return errWork
		}
		return nil
	})
	b.put(1, queue.KindConclude, 0)
	b.put(1, queue.KindScrub, tick)
	b.wait(1, soon, any1)
	b.quiet(pause)
	b.put(1, queue.KindNotify, 0)
	b.wait(1, soon, of(1, queue.KindNotify))
}

// testStop: Run returns when ctx ended and all work returned, and begins nothing any more.
func testStop(b *bench) {
	g := newGate()
	var inside atomic.Int32
	stop := b.begin(func(ctx context.Context, _ queue.Job) error {
		inside.Add(1)
		defer inside.Add(-1)
		<-ctx.Done()
		return g.pass(context.Background())
	})
	for source := range int64(5) {
		b.put(source, queue.KindNotify, 0)
	}
	b.wait(5, soon, any1)
	time.AfterFunc(time.Second, func() { close(g.open) })
	if err := stop(); err != nil {
		b.Fatal(err)
	}
	if n := inside.Load(); n != 0 {
		b.Fatalf("Run returned before %d jobs did", n)
	}
	b.put(9, queue.KindNotify, 0)
	b.quiet(tick)
}

// testInterrupted: work that fails because ctx ended has not failed, its Job waits for the next Run.
func testInterrupted(b *bench) {
	stop := b.begin(func(ctx context.Context, j queue.Job) error {
		<-ctx.Done()
		if j.Source == 2 {
			return nil // done after all
		}
		return ctx.Err()
	})
	b.put(1, queue.KindPull, 0)
	b.put(2, queue.KindPull, 0)
	b.wait(2, soon, any1)
	if err := stop(); err != nil {
		b.Fatal(err)
	}
	start := time.Now()
	b.begin(done)
	if took := b.wait(2, soon, of(1, queue.KindPull))[1].at.Sub(start); took > time.Second/2 {
		b.Fatalf("it began %v late", took)
	}
	b.quiet(tick)
	b.same("the other's runs", 1, len(b.wait(1, soon, of(2, queue.KindPull))))
}
