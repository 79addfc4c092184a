//go:build linux

package e2e_test

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkSpeedFaults is a first catch-up where 4 % of the answers go wrong, against one where none does, for everyone
// who claims to try again. What is not there or not right afterwards is countedSource; for resyncd it must be nothing.
func BenchmarkSpeedFaults(b *testing.B) {
	for _, kind := range []struct {
		name, fault string
		peers       []*contender
	}{
		{"broken", "error5xx=0.02,cut=0.02", retriers()},
		{"lying", "cutclose=0.02,wrong=0.01,html=0.01", retriers()}, // what only a digest finds
		{"busy", "throttle=0.002,error5xx=0.02,cut=0.018", nil},     // ten answers ask for a second's pause
	} {
		b.Run(kind.name, func(b *testing.B) {
			g := newRig(b)
			flags := []string{"--resources", "5000", "--size", "4096"}
			all := append(ours(g), kind.peers...)
			last := map[string]cost{}
			for round := 0; b.Loop(); round++ {
				for _, c := range all {
					if !c.installed() {
						continue
					}
					clean := g.source(flags...)
					took := c.run(g.job(c, clean, 16), false)
					clean.end()
					g.right(c, took)
					g.note(c.name+"-unharmed", took)
					// A Source of its own for each run: which answers go wrong depends on how often they were asked for.
					faulty := g.source(append(flags, "--fault", fmt.Sprintf("%s,seed=%d", kind.fault, round+1))...)
					j := g.job(c, faulty, 16)
					took = c.run(j, false)
					faulty.end()
					g.note(c.name, took)
					last[c.name] = took
					if c.program == "" {
						g.right(c, took)
						if found := g.measure(j, []string{g.program("resyncd"), "verify", "--quiet", j.mirror}); found.Exit != 0 {
							b.Fatalf("verify: exit code %d", found.Exit)
						}
					}
				}
			}
			g.table("resyncd-unharmed")
			var t strings.Builder
			for _, c := range all {
				if l, ok := last[c.name]; ok {
					fmt.Fprintf(&t, "\n%s: exit code %d, %d missing, %d wrong, %.2f times its unharmed run",
						c.name, l.Exit, l.faults.missing, l.faults.wrong, g.ratio(c.name, c.name+"-unharmed", wall))
				}
			}
			g.say("%s", t.String())
			b.ReportMetric(g.ratio("resyncd", "resyncd-unharmed", wall), "x-unharmed")
			b.ReportMetric(g.median("resyncd", wall)-g.median("resyncd-unharmed", wall), "ms-beyond")
		})
	}
}

// retriers are the peers that claim to try again. (rclone that asks for heads first takes minutes.)
func retriers() []*contender {
	return []*contender{curl(), wget(), wget2(), rcloneNoHead(), aria2()}
}
