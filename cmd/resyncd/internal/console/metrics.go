package console

import (
	"context"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// label is what every series of ours has; there are as many values as Sources in the configuration.
const label = "source"

// Metrics counts what happens, and shows what is, by Source. Its methods are safe for concurrent use and quick. Verdicts,
// reasons and results become labels, so they must be few and fixed.
type Metrics struct {
	// Gauges is asked at each scrape, so that nothing has to be kept in step; it should heed ctx. Set it before the first
	// scrape; nil: there are no gauges.
	Gauges func(ctx context.Context) []SourceGauges

	registry      *prometheus.Registry
	notifications *prometheus.CounterVec
	rejected      *prometheus.CounterVec
	fetches       *prometheus.CounterVec
	misses        *prometheus.CounterVec
	odd           *prometheus.CounterVec
	latency       *prometheus.HistogramVec
}

// SourceGauges is how one Source stands.
type SourceGauges struct {
	Source                          string
	Resources, Owed, Held, GapsOpen int64
	Position                        time.Time // the oldest of its sets, in Source time; zero: there is none yet
	LeaseExpires                    time.Time // the first lease of its active channels to end; zero: there is none
}

// NewMetrics makes the metrics of one daemon, in a registry of their own.
func NewMetrics() *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append([]string{label}, labels...))
	}
	m := &Metrics{
		registry:      prometheus.NewRegistry(),
		notifications: counter("resyncd_notifications_total", "Notifications taken, by what their interval means for the position.", "verdict"),
		rejected:      counter("resyncd_notifications_rejected_total", "Notifications not taken, by reason.", "reason"),
		fetches:       counter("resyncd_fetches_total", "Resources fetched, by result.", "result"),
		misses:        counter("resyncd_push_misses_total", "Changes first seen by a pull although a channel was active."),
		odd:           counter("resyncd_record_oddities_total", "Values of records that their format does not have; they are kept as they are."),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "resyncd_push_latency_seconds", Help: "Time from the receipt of a notification to what it announced being in place.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600},
		}, []string{label}),
	}
	m.registry.MustRegister(m.notifications, m.rejected, m.fetches, m.misses, m.odd, m.latency,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Notification counts one that became durable, with the callback's verdict.
func (m *Metrics) Notification(source, verdict string) {
	m.notifications.WithLabelValues(clean(source), clean(verdict)).Inc()
}

// Rejected counts a notification that was not taken.
func (m *Metrics) Rejected(source, reason string) {
	m.rejected.WithLabelValues(clean(source), clean(reason)).Inc()
}

// PushLatency notes how long a notification took from its receipt to its files being in place. Clocks that were set
// meanwhile may make d negative; it counts as none then.
func (m *Metrics) PushLatency(source string, d time.Duration) {
	m.latency.WithLabelValues(clean(source)).Observe(max(0, d).Seconds())
}

// Fetch counts a resource that was asked for.
func (m *Metrics) Fetch(source, result string) {
	m.fetches.WithLabelValues(clean(source), clean(result)).Inc()
}

// PushMisses adds n changes that a push should have told.
func (m *Metrics) PushMisses(source string, n int64) {
	m.misses.WithLabelValues(clean(source)).Add(float64(max(0, n)))
}

// Oddities adds n values of records that are not as their format has them.
func (m *Metrics) Oddities(source string, n int64) {
	m.odd.WithLabelValues(clean(source)).Add(float64(max(0, n)))
}

// Begin has the counters of a Source shown from 0 on, so that their first step is seen: by the reasons, verdicts and
// results that are known.
func (m *Metrics) Begin(source string) {
	name := clean(source)
	for v, values := range map[*prometheus.CounterVec][]string{
		m.notifications: {"next", "stale", "gap", "unknown"}, m.rejected: {"signature", "too_large", "malformed"},
		m.fetches: {"fetched", "unchanged", "gone", "refused", "failed"},
	} {
		for _, value := range values {
			v.WithLabelValues(name, value)
		}
	}
	m.misses.WithLabelValues(name)
	m.odd.WithLabelValues(name)
	m.latency.WithLabelValues(name)
}

// Forget ends all series of a Source.
func (m *Metrics) Forget(source string) {
	of := prometheus.Labels{label: clean(source)}
	for _, v := range []interface {
		DeletePartialMatch(prometheus.Labels) int
	}{m.notifications, m.rejected, m.fetches, m.misses, m.odd, m.latency} {
		v.DeletePartialMatch(of)
	}
}

// clean makes a label value that the library takes; it panics on others.
func clean(value string) string { return strings.ToValidUTF8(value, "?") }

// gauges is how the Sources stand, for one scrape.
func (m *Metrics) gauges(ctx context.Context) prometheus.Gatherer {
	r := prometheus.NewRegistry()
	if m.Gauges == nil {
		return r
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{label})
		r.MustRegister(v)
		return v
	}
	resources := gauge("resyncd_resources", "Resources of the Source that are in the mirror.")
	owed := gauge("resyncd_owed", "Resources that the Source has and the mirror does not, or not as they are.")
	held := gauge("resyncd_held", "Files that wait for an operator's word before they are deleted.")
	gaps := gauge("resyncd_gaps_open", "Holes in what was heard of the Source that are not closed.")
	position := gauge("resyncd_position_timestamp_seconds", "Source time up to which all changes are known.")
	lease := gauge("resyncd_lease_expires_timestamp_seconds", "When the first lease of the active channels ends.")
	for _, s := range m.Gauges(ctx) {
		name := clean(s.Source)
		resources.WithLabelValues(name).Set(float64(s.Resources))
		owed.WithLabelValues(name).Set(float64(s.Owed))
		held.WithLabelValues(name).Set(float64(s.Held))
		gaps.WithLabelValues(name).Set(float64(s.GapsOpen))
		stamp(position, name, s.Position)
		stamp(lease, name, s.LeaseExpires)
	}
	return r
}

func stamp(v *prometheus.GaugeVec, source string, t time.Time) {
	if !t.IsZero() {
		v.WithLabelValues(source).Set(float64(t.UnixMicro()) / 1e6)
	}
}
