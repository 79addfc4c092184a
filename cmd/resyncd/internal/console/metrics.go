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

// SourceGauges is how one Source stands, for metrics.
type SourceGauges struct {
	Source string
	Totals
	InboxDeliveries, InboxBytes int64
	InStep, Failing, Halted     bool
	Channels                    map[string]int64 // by state
	LeaseExpires                time.Time        // the first to end
}

// channelStates are shown for each Source, for alerts.
var channelStates = []string{"wanted", "requesting", "pending", "active", "renewing", "lapsed", "denied", "failed",
	"unsubscribing", "off"}

type gauge struct {
	name, help string
	value      func(*SourceGauges) (float64, bool)
}

var gauges = []gauge{
	number("resyncd_resources", "Resources of the Source that are in the mirror.",
		func(s *SourceGauges) int64 { return s.Resources }),
	number("resyncd_mirror_bytes", "Bytes of the Source's resources in the mirror.",
		func(s *SourceGauges) int64 { return s.Bytes }),
	number("resyncd_owed", "Resources that the Source has and the mirror does not, or not as they are.",
		func(s *SourceGauges) int64 { return s.Owed }),
	number("resyncd_held", "Files that wait for an operator's word before they are deleted.",
		func(s *SourceGauges) int64 { return s.Held }),
	number("resyncd_refused", "Resources outside scope or policy, which are not fetched.",
		func(s *SourceGauges) int64 { return s.Refused }),
	number("resyncd_gaps_open", "Holes in what was heard of the Source that are not closed.",
		func(s *SourceGauges) int64 { return s.GapsOpen }),
	number("resyncd_gaps_unprovable", "Holes, of the last ones, that nobody can close any more.",
		func(s *SourceGauges) int64 { return s.GapsLost }),
	number("resyncd_inbox_deliveries", "Notifications that are durable and not carried out yet.",
		func(s *SourceGauges) int64 { return s.InboxDeliveries }),
	number("resyncd_inbox_bytes", "Bytes of the notifications that are durable and not carried out yet.",
		func(s *SourceGauges) int64 { return s.InboxBytes }),
	truth("resyncd_in_step", "1 while the mirror is known to be in step with the Source, else 0.",
		func(s *SourceGauges) bool { return s.InStep }),
	truth("resyncd_paused", "1 while the operator has paused the Source, else 0.",
		func(s *SourceGauges) bool { return s.Paused }),
	truth("resyncd_failing", "1 while the Source cannot be read or worked on, else 0.",
		func(s *SourceGauges) bool { return s.Failing }),
	truth("resyncd_mirror_halted", "1 while the Source's mirror cannot take files, else 0.",
		func(s *SourceGauges) bool { return s.Halted }),
	instant("resyncd_position_timestamp_seconds", "Source time up to which all changes are known.",
		func(s *SourceGauges) time.Time { return s.Position }),
	instant("resyncd_lease_expires_timestamp_seconds", "When the first lease of the active channels ends.",
		func(s *SourceGauges) time.Time { return s.LeaseExpires }),
	instant("resyncd_last_pull_timestamp_seconds", "When the set that was pulled longest ago was last pulled.",
		func(s *SourceGauges) time.Time { return s.LastPull }),
	instant("resyncd_next_pull_timestamp_seconds", "When the next scheduled pull is due.",
		func(s *SourceGauges) time.Time { return s.NextPull }),
	instant("resyncd_last_push_timestamp_seconds", "When a hub last delivered.",
		func(s *SourceGauges) time.Time { return s.LastPush }),
}

func number(name, help string, of func(*SourceGauges) int64) gauge {
	return gauge{name, help, func(s *SourceGauges) (float64, bool) { return float64(of(s)), true }}
}

func truth(name, help string, of func(*SourceGauges) bool) gauge {
	return gauge{name, help, func(s *SourceGauges) (float64, bool) {
		if of(s) {
			return 1, true
		}
		return 0, true
	}}
}

func instant(name, help string, of func(*SourceGauges) time.Time) gauge {
	return gauge{name, help, func(s *SourceGauges) (float64, bool) {
		t := of(s)
		return float64(t.UnixMicro()) / 1e6, !t.IsZero()
	}}
}

func (m *Metrics) gauges(ctx context.Context) prometheus.Gatherer {
	r := prometheus.NewRegistry()
	if m.Gauges == nil {
		return r
	}
	all := m.Gauges(ctx)
	for _, g := range gauges {
		v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: g.name, Help: g.help}, []string{label})
		r.MustRegister(v)
		for i := range all {
			if x, known := g.value(&all[i]); known {
				v.WithLabelValues(clean(all[i].Source)).Set(x)
			}
		}
	}
	channels := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "resyncd_channels",
		Help: "Channels at hubs, by state."}, []string{label, "state"})
	r.MustRegister(channels)
	for i := range all {
		for _, state := range channelStates {
			channels.WithLabelValues(clean(all[i].Source), state).Set(float64(all[i].Channels[state]))
		}
	}
	return r
}
