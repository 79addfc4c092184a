package plan

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"flag"
	"fmt"
	"testing"
	"time"

	"resyncd/store"
)

// growthMost is how many resources the largest size of BenchmarkGrowth has; the goal is 2,000,000 (performance.md, goal 9).
var growthMost = flag.Int("growth", 200_000, "resources of the largest size of BenchmarkGrowth")

// BenchmarkGrowth is what the state costs a resource in a first baseline that goes well and in a second one that finds
// nothing new, all but the network and the disk: for lists in the order of their URIs and in none, for folders of 100
// files and for one folder of all. x-first is the cost by that of the smallest size, of the same order, in the same run.
func BenchmarkGrowth(b *testing.B) {
	for _, shape := range []struct {
		name string
		uri  func(i, n int) string
	}{
		{"ordered", func(i, _ int) string { return fmt.Sprintf("http://lib.example/%06d/%08d.pdf", i/100, i) }},
		{"random", func(i, n int) string {
			h := scattered(i)
			return fmt.Sprintf("http://lib.example/%06d/%016x.pdf", h%uint64(n/100), h)
		}},
		{"flat", func(i, _ int) string { return fmt.Sprintf("http://lib.example/all/%016x.pdf", scattered(i)) }},
	} {
		var first time.Duration
		for n := 20_000; n <= *growthMost; n *= 10 {
			b.Run(fmt.Sprintf("%s/%dk", shape.name, n/1000), func(b *testing.B) {
				var g growth
				for range b.N {
					g.run(b, n, shape.uri)
				}
				each := g.total() / time.Duration(b.N*n)
				if first == 0 {
					first = each
				}
				g.report(b, n)
				b.ReportMetric(float64(each)/float64(first), "x-first")
			})
		}
	}
}

// scattered is a number that looks random and is another one for each i.
func scattered(i int) uint64 {
	var in [8]byte
	binary.LittleEndian.PutUint64(in[:], uint64(i))
	sum := sha256.Sum256(in[:])
	return binary.LittleEndian.Uint64(sum[:])
}

// growth is the time of each step.
type growth struct{ plan, record, sweep, replan, resweep time.Duration }

func (g *growth) total() time.Duration { return g.plan + g.record + g.sweep + g.replan + g.resweep }

func (g *growth) report(b *testing.B, n int) {
	b.Helper()
	for _, step := range []struct {
		name string
		took time.Duration
	}{{"plan", g.plan}, {"record", g.record}, {"sweep", g.sweep}, {"replan", g.replan}, {"resweep", g.resweep}} {
		b.ReportMetric(float64(step.took)/1e3/float64(b.N*n), step.name+"-µs/resource")
	}
}

func (g *growth) run(b *testing.B, n int, uri func(i, n int) string) {
	b.Helper()
	b.StopTimer()
	p, done := benchPlanner(b)
	defer done()
	b.StartTimer()
	step := func(to *time.Duration, do func()) {
		began := time.Now()
		do()
		*to += time.Since(began)
	}
	uris := func(i int) string { return uri(i, n) }
	step(&g.plan, func() { plan(b, p, n, 1, uris) })
	step(&g.record, func() { recordAll(b, p, n) })
	step(&g.sweep, func() { finishAll(b, p, 1) })
	step(&g.replan, func() { plan(b, p, n, 2, uris) })
	step(&g.resweep, func() { finishAll(b, p, 2) })
	b.StopTimer()
	if counts, err := p.o.Site.Store.Counts(context.Background(), p.o.Set.ID); err != nil || counts.Owed != 0 || p.Calm.Len != int64(n) {
		b.Fatalf("%+v, %d unchanged, %v", counts, p.Calm.Len, err)
	}
	b.StartTimer()
}

// recordAll pages what is owed as the conductor does and records each page as fetched.
func recordAll(b *testing.B, p *Planner, n int) {
	b.Helper()
	ctx := context.Background()
	const page = 1000
	var after int64
	for range (n + page - 1) / page {
		found, err := p.o.Site.Store.Due(ctx, store.DueQuery{SourceID: p.o.Site.SourceID, Action: store.ActionFetch, Now: p.o.Site.LocalNow(), After: after, Limit: page})
		if err != nil || len(found) == 0 {
			b.Fatal(len(found), err)
		}
		after = found[len(found)-1].ID
		c := &store.Commit{Claim: p.o.Site.Claim}
		for _, res := range found {
			w := &res.Wants[0]
			c.Resources = append(c.Resources, store.ResourceChange{ID: res.ID, Work: &store.Work{}, Have: &store.Have{
				State: store.HavePresent, SHA256: [32]byte{1}, Length: w.Length, ModTime: 1e18, ETag: `"5f3a-1b2c"`, Type: w.Type,
				Checked: w.Digests, Version: w.Version, Fetched: p.o.Site.LocalNow(),
			}})
		}
		if err := p.o.Site.Store.Commit(ctx, c); err != nil {
			b.Fatal(err)
		}
	}
}

// finishAll is the end of a baseline of which nothing is unlisted.
func finishAll(b *testing.B, p *Planner, generation int64) {
	b.Helper()
	ctx := context.Background()
	at := p.Reading.At - 1
	for id, err := range p.o.Site.Store.Unlisted(ctx, p.o.Set.ID, generation, store.Micros(1)<<62) {
		if err != nil || !p.Seen.Has(id) {
			b.Fatal(id, err)
		}
	}
	if err := p.o.Site.Store.Commit(ctx, &store.Commit{Claim: p.o.Site.Claim, DropTombstones: &store.DropTombstones{SetID: p.o.Set.ID, At: at}}); err != nil {
		b.Fatal(err)
	}
}
