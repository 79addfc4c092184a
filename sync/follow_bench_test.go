package sync

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"resyncd/destination/peer/source"
	"resyncd/sync/transfer"
)

// BenchmarkInboxToFile is the engine's part of a push: from a notification in the inbox to the file at its final path,
// recorded and durable, one change at a time. The whole way, through hub and callback, is BenchmarkPush in cmd/resyncd.
func BenchmarkInboxToFile(b *testing.B) {
	p := newPusherIn(b, b.TempDir(), source.Options{}, many(3))
	defer func() { p.stop() }()
	p.taken()
	p.pull(false)
	p.put("a.txt", "1")
	p.push()
	p.eventually("quiet", func() bool { return p.same() && p.quiet() })
	done := make(chan Mirrored, 1)
	p.f.s.Site.Notes.Done = func(n *transfer.Note) { done <- Mirrored{Took: time.Since(n.Received)} }
	var took []time.Duration
	i := 0
	for b.Loop() {
		i++
		p.put("a.txt", fmt.Sprint("version ", i))
		begun := time.Now()
		p.push()
		<-done
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

// BenchmarkInboxBurst is how many changes a second the engine carries out when notifications of one change each wait in
// the inbox by the hundred.
func BenchmarkInboxBurst(b *testing.B) {
	const burst = 500
	p := newPusherIn(b, b.TempDir(), source.Options{}, many(3))
	defer func() { p.stop() }()
	p.taken()
	p.pull(false)
	p.put("a.txt", "1")
	p.push()
	p.eventually("quiet", func() bool { return p.same() && p.quiet() })
	done := make(chan int, burst)
	p.f.s.Site.Notes.Done = func(*transfer.Note) { done <- 1 }
	i := 0
	for b.Loop() {
		for range burst {
			i++
			p.put(fmt.Sprintf("f%d.txt", i%2000), fmt.Sprintf("%01000d", i))
			p.push()
		}
		for range burst {
			<-done
		}
	}
	b.ReportMetric(float64(b.N*burst)/b.Elapsed().Seconds(), "changes/s")
}
