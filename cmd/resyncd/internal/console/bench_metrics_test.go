package console

import (
	"context"
	"fmt"
	"testing"
	"time"

	"resyncd/sync/report"
)

// BenchmarkScrape is what Prometheus costs with 500 Sources.
func BenchmarkScrape(b *testing.B) {
	m := NewMetrics()
	var all []SourceGauges
	for i := range 500 {
		name := fmt.Sprintf("source-%03d", i)
		m.Begin(name)
		all = append(all, SourceGauges{SourceStatus: stands(name, report.Time{Time: time.Now()}), Totals: Totals{Position: time.Now(), LastPull: time.Now(), NextPull: time.Now(), LastPush: time.Now()}})
	}
	m.Gauges = func(context.Context) []SourceGauges { return all }
	h := New(Options{Metrics: m})
	size := 0
	for b.Loop() {
		w := ask(h, "GET", "/metrics")
		if size = w.Body.Len(); w.Code != 200 || size < 100_000 {
			b.Fatal(w.Code)
		}
	}
	b.ReportMetric(float64(size), "bytes/scrape")
}
