//go:build linux

package e2e_test

import (
	"strconv"
	"strings"
	"testing"
)

// BenchmarkSpeedMemory is the peak memory of whole runs: what a state of so many resources costs the run that makes it,
// one that finds nothing new, one that reads the list again and looks at every file, and a verification. The larger sizes
// take a while, so pick one: -bench 'SpeedMemory/20000$'.
func BenchmarkSpeedMemory(b *testing.B) {
	for _, n := range []int{2_000, 20_000, 200_000, 1_000_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			g := newRig(b)
			o := g.source("--resources", strconv.Itoa(n), "--size", "256")
			us := ours(g)
			for b.Loop() {
				for _, c := range us {
					j := g.job(c, o, 16)
					run := c.first(j)
					g.keep(c.name+" baseline", c, c.run(j, false))
					g.keep(c.name+" nothing new", c, g.measure(j, run))
					g.keep(c.name+" looked at all", c, g.measure(j, []string{run[0], "sync", "--full", "--quiet", o.base, j.mirror}))
					g.keep(c.name+" verified", c, g.measure(j, []string{run[0], "verify", "--quiet", j.mirror}))
				}
			}
			g.table("resyncd nothing new")
			for _, what := range []string{"baseline", "nothing new", "looked at all", "verified"} {
				b.ReportMetric(g.median("resyncd "+what, memory), "MiB-"+strings.ReplaceAll(what, " ", "-"))
			}
			b.ReportMetric(g.median("resyncd looked at all", wall)*1000/float64(n), "µs/look")
		})
	}
}

// BenchmarkSpeedListed is the peak memory of a run that only reads lists: a dry run on an empty mirror, whose plan is a
// state of so many rows. What ten times the entries cost shows whether it is flat.
func BenchmarkSpeedListed(b *testing.B) {
	for _, n := range []int{100_000, 1_000_000, 10_000_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			g := newRig(b)
			said, _ := g.begin(1, g.program("rssource"), "--listen", freePort, "--log-level", "error", "--resources", strconv.Itoa(n), "--size", "64")
			o := &origin{base: said[0]}
			us := ours(g)
			for b.Loop() {
				for _, c := range us {
					j := g.job(c, o, 16)
					g.keep(c.name, c, g.measure(j, []string{c.first(j)[0], "sync", "--dry-run", "--quiet", "--json", o.base, j.mirror + "/none"}))
				}
			}
			g.table("resyncd")
			b.ReportMetric(g.median("resyncd", memory), "MiB")
			b.ReportMetric(g.median("resyncd", wall)*1000/float64(n), "µs/entry")
		})
	}
}

// BenchmarkSpeedOneLarge is the peak memory of a run that brings a single resource of 2 GiB.
func BenchmarkSpeedOneLarge(b *testing.B) {
	g := newRig(b)
	o := g.source("--resources", "1", "--size", strconv.Itoa(2<<30))
	us := ours(g)
	for b.Loop() {
		for _, c := range us {
			j := g.job(c, o, 16)
			g.keep(c.name, c, c.run(j, false))
		}
	}
	g.table("resyncd")
	b.ReportMetric(g.median("resyncd", memory), "MiB")
}

// keep notes what a run cost that went well.
func (g *rig) keep(name string, c *contender, took cost) {
	g.b.Helper()
	g.right(c, took)
	g.note(name, took)
}
