//go:build linux

package e2e_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"
)

// BenchmarkSpeedBaseline is a first catch-up, whole process, against the yardstick and curl. With RESYNCD_BEFORE another
// resyncd runs beside, so that a change is measured in pairs:
//
//	RESYNCD_BEFORE=/path/to/resyncd TMPDIR=/where/to go test -run '^$' -bench SpeedBaseline -benchtime 5x ./cmd/resyncd
func BenchmarkSpeedBaseline(b *testing.B) {
	for _, work := range []struct {
		name  string
		flags []string
	}{
		{"20000x4KiB", []string{"--resources", "20000", "--size", "4096"}},
		{"2000x100KiB", []string{"--resources", "2000", "--size", "102400"}},
		{"5000mixed", []string{"--resources", "5000"}},
		{"1x1GiB", []string{"--resources", "1", "--size", strconv.Itoa(1 << 30)}},
	} {
		b.Run(work.name, func(b *testing.B) {
			g := newRig(b)
			o := g.source(work.flags...)
			all := append(ours(g), yardstick(g), curl(), resyncdOf("resyncd-nosync", g.program("resyncd"), "RESYNCD_DEFAULTS_DURABILITY=none"))
			for b.Loop() {
				g.round(o, all, 16)
			}
			g.table("yardstick")
			for _, over := range []string{"yardstick", "curl"} {
				b.ReportMetric(g.ratio("resyncd", over, wall), "x-"+over)
			}
			b.ReportMetric(g.ratio("resyncd", "yardstick", cpu), "cpu-x-yardstick")
			b.ReportMetric(g.median("resyncd", memory), "MiB")
		})
	}
}

// BenchmarkSpeedLatency is a first catch-up from a Source that answers each request, documents too, 20 ms late. The least
// possible is what the resources alone take, so many at a time.
func BenchmarkSpeedLatency(b *testing.B) {
	const late = 20 * time.Millisecond
	for _, work := range []struct{ resources, connections int }{{2000, 16}, {2000, 64}, {2000, 256}, {20000, 16}, {20000, 64}, {20000, 256}} {
		b.Run(fmt.Sprintf("%dby%d", work.resources, work.connections), func(b *testing.B) {
			g := newRig(b)
			o := g.source("--resources", strconv.Itoa(work.resources), "--size", "4096", "--fault", fmt.Sprintf("latency=%s,doc-latency=%[1]s", late))
			all := append(ours(g), yardstick(g), curl())
			for b.Loop() {
				g.round(o, all, work.connections)
			}
			g.table("yardstick")
			least := float64(late.Milliseconds()) * float64(work.resources) / float64(work.connections)
			for _, c := range all {
				b.ReportMetric(g.median(c.name, wall)/least, c.name+"-x-least")
			}
		})
	}
}

// ours is resyncd as it is, and as it was.
func ours(g *rig) []*contender {
	all := []*contender{resyncdOf("resyncd", g.program("resyncd"))}
	if before := os.Getenv("RESYNCD_BEFORE"); before != "" {
		all = append(all, resyncdOf("before", before))
	}
	return all
}

// round lets each contender make a mirror of its own, and begins with another one each time.
func (g *rig) round(o *origin, all []*contender, workers int) {
	g.b.Helper()
	first := len(g.took["yardstick"])
	for i := range all {
		c := all[(first+i)%len(all)]
		if !c.installed() {
			continue
		}
		j := g.job(c, o, workers)
		took := c.run(j, false)
		g.right(c, took)
		g.note(c.name, took)
		g.drop(j)
	}
}
