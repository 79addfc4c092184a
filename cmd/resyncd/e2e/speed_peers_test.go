//go:build linux

package e2e_test

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkSpeedPeers is the first table of performance.md: everyone who can fetch a list of files, on the same work, each with the
// flags that serve it best. In every round each makes a mirror, brings it up to date when nothing has changed, and again
// when 1 % has.
func BenchmarkSpeedPeers(b *testing.B) {
	const files, changed = 20000, 200
	g := newRig(b)
	t := g.tree(files)
	var all []*contender
	for _, c := range append(ours(g), yardstick(g), curl(), rclone(), rcloneNoHead(), wget2(), wget(), aria2(), reference()) {
		if !c.installed() {
			g.say("%s: %s is not installed here", c.name, c.program)
			continue
		}
		all = append(all, c)
	}
	asked := g.asked(all)
	o := g.serve(t)
	told := 0
	kept := map[string]int{}
	for round := 0; b.Loop(); round++ {
		jobs := map[*contender]*job{}
		turn := append(all[round%len(all):], all[:round%len(all)]...)
		for _, c := range turn {
			jobs[c] = g.job(c, o, 16)
			took := c.run(jobs[c], false)
			g.right(c, took)
			g.note(c.name, took)
		}
		for _, c := range turn {
			took := c.run(jobs[c], true)
			g.right(c, took)
			g.note(c.name+" again", took)
		}
		t.change(changed)
		told += changed
		g.changes(o, told)
		for _, c := range turn {
			took := c.run(jobs[c], true)
			kept[c.name] = took.faults.extra
			took.faults.extra = 0
			g.right(c, took)
			g.note(c.name+" changed", took)
		}
	}
	g.peersTable(all, asked, kept)
	b.ReportMetric(0, "ns/op")
	for _, c := range all[1:] {
		b.ReportMetric(g.ratio(c.name, "resyncd", wall), c.name+"-x-resyncd")
	}
}

// asked counts each one's requests in the three phases, at a Source that is not for timing and has a tenth of the files.
func (g *rig) asked(all []*contender) map[string][]string {
	g.b.Helper()
	const files, changed = 2000, 20
	t := g.tree(files)
	counts, jobs := map[string][]string{}, map[*contender]*job{}
	src := g.countedSource(t)
	for phase := range 3 {
		if phase == 2 {
			t.change(changed)
			g.look(g.b.Context(), src)
		}
		for _, c := range all {
			if phase == 0 {
				jobs[c] = g.job(c, src.origin, 16)
			}
			counts[c.name] = append(counts[c.name], src.requests(func() { c.run(jobs[c], phase > 0) }))
		}
	}
	return counts
}

func (g *rig) peersTable(all []*contender, asked map[string][]string, kept map[string]int) {
	g.b.Helper()
	var t strings.Builder
	fmt.Fprintf(&t, "\n%s\n", g.machine())
	t.WriteString("| | first: x yardstick (ms) | CPU x yardstick | peak MiB | nothing new: ms (requests of 2,000 files) | 1 % changed: ms (requests, 20 changes) | deleted files kept, of 20 | does not do |\n")
	t.WriteString("| --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, c := range all {
		fmt.Fprintf(&t, "| %s | %.2f (%.0f) | %.2f | %.0f | %.0f (%s) | %.0f (%s) | %d | %s |\n", c.name,
			g.ratio(c.name, "yardstick", wall), g.median(c.name, wall), g.ratio(c.name, "yardstick", cpu), g.median(c.name, memory),
			g.median(c.name+" again", wall), asked[c.name][1], g.median(c.name+" changed", wall), asked[c.name][2], kept[c.name], c.lacks)
	}
	g.say("%s", t.String())
}
