package queue

import (
	"context"
	"runtime"
	"testing"
	"time"
)

// BenchmarkPutToWork is the way of a notification to its work, the Source being idle.
func BenchmarkPutToWork(b *testing.B) {
	q := NewLocal(LocalOptions{})
	for i := range int64(1000) { // other Sources, with something to wait for
		q.Put(Job{Source: 1000 + i, Kind: KindConclude, Due: time.Now().Add(time.Hour)})
	}
	began := make(chan struct{})
	benchRun(b, q, func(context.Context, Job) error { began <- struct{}{}; return nil })
	for b.Loop() {
		q.Put(Job{Source: 1, Kind: KindNotify})
		<-began
	}
}

// BenchmarkPutBusy is what a Put costs that an equal one has gone before.
func BenchmarkPutBusy(b *testing.B) {
	q := NewLocal(LocalOptions{})
	benchRun(b, q, func(ctx context.Context, _ Job) error { <-ctx.Done(); return nil })
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			q.Put(Job{Source: 1, Kind: KindNotify})
		}
	})
}

func benchRun(b *testing.B, q *Local, work func(context.Context, Job) error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- q.Run(ctx, work) }()
	runtime.Gosched()
	b.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
}
