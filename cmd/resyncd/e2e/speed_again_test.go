//go:build linux

package e2e_test

import (
	"testing"
)

// BenchmarkSpeedNothingNew is a catch-up, whole process, when nothing has changed, beside a process that does nothing.
func BenchmarkSpeedNothingNew(b *testing.B) {
	g := newRig(b)
	o := g.source("--resources", "20000", "--size", "1024")
	jobs := map[*contender]*job{}
	all := ours(g)
	for _, c := range all {
		jobs[c] = g.job(c, o, 16)
		g.right(c, c.run(jobs[c], false))
	}
	var requests int64
	for b.Loop() {
		for range 5 { // they are short
			for _, c := range all {
				took := c.run(jobs[c], true)
				g.right(c, took)
				g.note(c.name, took)
				requests = took.requests
			}
			g.note("version", g.measure(jobs[all[0]], []string{g.program("resyncd"), "version"}))
		}
	}
	g.table("version")
	b.ReportMetric(float64(requests), "requests")
	b.ReportMetric(g.median("resyncd", wall), "ms")
	b.ReportMetric(g.ratio("resyncd", "version", wall), "x-version")
}

// BenchmarkSpeedIncremental is a catch-up when 200 of 20,000 files have changed, against one when nothing has.
func BenchmarkSpeedIncremental(b *testing.B) {
	const files, changed = 20000, 200
	g := newRig(b)
	t := g.tree(files)
	o := g.serve(t)
	jobs := map[*contender]*job{}
	all := ours(g)
	for _, c := range all {
		jobs[c] = g.job(c, o, 16)
		g.right(c, c.run(jobs[c], false))
	}
	told := 0
	var requests int64
	for b.Loop() {
		for range 5 {
			for _, c := range all {
				idle := c.run(jobs[c], true)
				g.note(c.name+"-nothing", idle)
			}
			t.change(changed)
			told += changed
			g.changes(o, told)
			for _, c := range all {
				took := c.run(jobs[c], true)
				g.right(c, took)
				g.note(c.name, took)
				requests = took.requests
			}
		}
	}
	g.table("resyncd-nothing")
	b.ReportMetric(float64(requests-changed*9/10), "requests-beyond-fetches") // one in ten changes is a deletion
	b.ReportMetric(g.median("resyncd", wall), "ms")
	b.ReportMetric(g.ratio("resyncd", "resyncd-nothing", wall), "x-nothing")
}

// right insists on a mirror that is what the Source lists.
func (g *rig) right(c *contender, took cost) {
	g.b.Helper()
	if took.Exit != 0 || took.faults != (faults{}) {
		g.b.Fatalf("%s: exit code %d, %+v: %s", c.name, took.Exit, took.faults, took.complaint)
	}
}
