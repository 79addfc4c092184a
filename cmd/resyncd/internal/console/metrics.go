package console

import (
	"context"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// label is the Source of every series.
const label = "source"

// Metrics counts what happens, and shows what is, by Source. Its methods are safe for concurrent use. Reasons and
// results become labels, so they must be few.
type Metrics struct {
	// Gauges is asked at each scrape; set it before the first.
	Gauges func(ctx context.Context) []SourceGauges

	registry *prometheus.Registry
	counters [len(events)]*prometheus.CounterVec
	times    [len(durations)]*prometheus.HistogramVec
}

// NewMetrics makes the metrics of one daemon.
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

// Build shows which build this is.
func (m *Metrics) Build(version, commit string) {
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "resyncd_build_info",
		Help: "1; its labels tell which build this is."},
		[]string{"version", "commit", "goversion"})
	info.WithLabelValues(clean(version), clean(commit), runtime.Version()).Set(1)
	m.registry.MustRegister(info)
}

// Count adds n occurrences; value is that of the second label, "" where there is none.
func (m *Metrics) Count(e Event, source, value string, n int64) {
	if n > 0 {
		m.counters[e].WithLabelValues(events[e].values(source, value)...).Add(float64(n))
	}
}

// Observe notes how long something took; below 0, as of a clock that was set, is 0.
func (m *Metrics) Observe(of Duration, source string, d time.Duration) {
	m.times[of].WithLabelValues(clean(source)).Observe(max(0, d).Seconds())
}

// Begin shows the counters of a Source from 0 on, so that their first step is seen.
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

// clean makes a label value on which the library does not panic.
func clean(value string) string { return strings.ToValidUTF8(value, "?") }
