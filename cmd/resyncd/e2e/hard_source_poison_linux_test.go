package e2e_test

import (
	"hash/fnv"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/destination/peer/source"
)

// BenchmarkHardSourcePoison is a first catch-up from a Source of which one resource in a hundred always fails, against one
// from the same Source without that, each in every round (P11, F79). Nobody waits for the poison: it is tried as often as
// any failure is at once, and left owed. The Source is in this process and answers 20 ms late, as over a network. Poison that
// hangs is waited for in the end, so there the time counts until the last of the healthy was served.
func BenchmarkHardSourcePoison(b *testing.B) {
	for _, way := range []string{"500", "404", "cut, length known", "cut, until closed", "one byte wrong", "led to another host", "endless", "silent", "stalled"} {
		b.Run(strings.ReplaceAll(way, " ", "_"), func(b *testing.B) {
			g := newRig(b)
			hangs := way == "silent" || way == "stalled"
			c := resyncdOf("resyncd", g.program("resyncd"), "RESYNCD_NETWORK_RETRY_FOR=0s", "RESYNCD_NETWORK_IDLE_TIMEOUT=5s")
			clean, poisoned := g.poisonable(1000, nil), g.poisonable(1000, map[bool]string{true: way})
			for b.Loop() {
				for range 3 { // rounds are short
					took := c.run(g.job(c, clean.origin, 16), false)
					g.right(c, took)
					if served := clean.served(); hangs {
						took.Wall = served
					}
					g.note("unharmed", took)
					took = c.run(g.job(c, poisoned.origin, 16), false)
					if took.Exit != exit.Owed || took.faults != (faults{missing: poisoned.poison}) {
						b.Fatalf("exit code %d, %+v, of %d poisoned: %s", took.Exit, took.faults, poisoned.poison, took.complaint)
					}
					if served := poisoned.served(); hangs {
						took.Wall = served
					}
					g.note("poisoned", took)
				}
			}
			g.table("unharmed")
			x := g.ratio("poisoned", "unharmed", wall)
			b.ReportMetric(x, "x-unharmed")
			if soak && x > 1.2 {
				b.Errorf("the healthy took %.2f times as long beside the poison", x)
			}
		})
	}
}

// poisonable is a Source in this process, of which some resources may always fail.
type poisonable struct {
	*origin
	poison int

	mu          sync.Mutex
	first, last time.Time // request of a run, and end of an answer that was healthy
}

// serves notes an answer.
func (p *poisonable) serves(began time.Time, healthy bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.first.IsZero() || began.Before(p.first) {
		p.first = began
	}
	if healthy {
		p.last = time.Now()
	}
}

// served is how long it took until all that is healthy was served, since the last call.
func (p *poisonable) served() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	took := p.last.Sub(p.first)
	p.first = time.Time{}
	return took
}

// poisonable makes a Source of so many resources. One in a hundred, told by its name, fails in the way for true.
func (g *rig) poisonable(resources int, way map[bool]string) *poisonable {
	g.b.Helper()
	m, p := newMischief(), &poisonable{}
	doomed := func(path string) bool {
		h := fnv.New32a()
		_, _ = h.Write([]byte(path))
		return !isDocument(path) && h.Sum32()%100 == 0
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		defer func() { p.serves(began, !doomed(r.URL.Path)) }()
		<-time.After(20 * time.Millisecond)
		m.ServeHTTP(w, r)
	}))
	src, err := source.New(g.b.Context(), source.Options{Base: server.URL, Synthetic: &source.Synthetic{Resources: resources, Size: 4096, Seed: 1}})
	if err != nil {
		g.b.Fatal(err)
	}
	m.honest.Store(src)
	p.origin = &origin{base: server.URL + "/"}
	g.read(p.origin)
	p.served()
	for _, l := range p.listed {
		if doomed("/" + l.path) {
			p.poison++
		}
	}
	if len(way) == 0 {
		p.poison = 0
	}
	m.begin(func(path string, _ int) string { return way[doomed(path)] })
	g.b.Cleanup(func() {
		m.calm()
		m.elsewhere.Close()
		server.Close()
	})
	return p
}
