package console

import (
	"context"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// label is what every series of ours about a Source has; there are as many values as Sources in the configuration.
const label = "source"

// Metrics counts what happens, and shows what is, by Source. Its methods are safe for concurrent use and quick.
// Verdicts, reasons and results become labels, so they must be few and fixed.
type Metrics struct {
	// Gauges is asked at each scrape, so that nothing has to be kept in step; it should heed ctx. Set it before the
	// first scrape; nil: there are no gauges.
	Gauges func(ctx context.Context) []SourceGauges

	registry *prometheus.Registry
	counters [len(events)]*prometheus.CounterVec
	times    [len(durations)]*prometheus.HistogramVec
}

// NewMetrics makes the metrics of one daemon, in a registry of their own.
func NewMetrics() *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	for i, e := range events {
		m.counters[i] = prometheus.NewCounterVec(prometheus.CounterOpts{Name: e.name, Help: e.help}, e.labels())
		m.registry.MustRegister(m.counters[i])
		if e.alone {
			e.begin(m.counters[i])
		}
	}
	for i, d := range durations {
		m.times[i] = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: d.name, Help: d.help,
			Buckets: d.buckets}, []string{label})
		m.registry.MustRegister(m.times[i])
	}
	m.registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Build shows which build this is, once.
func (m *Metrics) Build(version, commit string) {
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "resyncd_build_info",
		Help: "1; its labels tell which build this is."},
		[]string{"version", "commit", "goversion"})
	info.WithLabelValues(clean(version), clean(commit), runtime.Version()).Set(1)
	m.registry.MustRegister(info)
}

// Count adds n occurrences of an event; value is that of its second label, "" where it has none. Less than one is none.
func (m *Metrics) Count(e Event, source, value string, n int64) {
	if n > 0 {
		m.counters[e].WithLabelValues(events[e].values(source, value)...).Add(float64(n))
	}
}

// Observe notes how long something took. Clocks that were set meanwhile may make d negative; it counts as none then.
func (m *Metrics) Observe(of Duration, source string, d time.Duration) {
	m.times[of].WithLabelValues(clean(source)).Observe(max(0, d).Seconds())
}

// Begin has the counters of a Source shown from 0 on, so that their first step is seen: by the reasons, verdicts and
// results that are known.
func (m *Metrics) Begin(source string) {
	for i, e := range events {
		if !e.alone {
			e.begin(m.counters[i], clean(source))
		}
	}
	for _, h := range m.times {
		h.WithLabelValues(clean(source))
	}
}

// Forget ends all series of a Source.
func (m *Metrics) Forget(source string) {
	of := prometheus.Labels{label: clean(source)}
	for i, e := range events {
		if !e.alone {
			m.counters[i].DeletePartialMatch(of)
		}
	}
	for _, h := range m.times {
		h.DeletePartialMatch(of)
	}
}

// clean makes a label value that the library takes; it panics on others.
func clean(value string) string { return strings.ToValidUTF8(value, "?") }
