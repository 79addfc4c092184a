package console

import (
	"context"
	_ "embed" // for the table of metrics
	"math"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.yaml.in/yaml/v3"

	"resyncd/store"
	"resyncd/sync/report"
)

// Event is something that is counted: the name of a counter in metrics.yaml.
type Event string

// The events; the second label of a counter says which of its kind.
const (
	Notifications       Event = "resyncd_notifications_total"
	Rejections          Event = "resyncd_notifications_rejected_total"
	Fetches             Event = "resyncd_fetches_total"
	FetchedBytes        Event = "resyncd_fetched_bytes_total"
	Transports          Event = "resyncd_transports_total"
	Packages            Event = "resyncd_packages_total"
	Batches             Event = "resyncd_batches_total"
	FetchFailures       Event = "resyncd_fetch_failures_total"
	Removals            Event = "resyncd_removals_total"
	PushMisses          Event = "resyncd_push_misses_total"
	Oddities            Event = "resyncd_record_oddities_total"
	Pulls               Event = "resyncd_pulls_total"
	PullProblems        Event = "resyncd_pull_problems_total"
	SkippedEntries      Event = "resyncd_entries_skipped_total"
	DoubtfulDocuments   Event = "resyncd_documents_doubtful_total"
	GapsFound           Event = "resyncd_gaps_found_total"
	GapsEnded           Event = "resyncd_gaps_ended_total"
	LaggingLists        Event = "resyncd_lists_lagging_total"
	HeldSweeps          Event = "resyncd_sweeps_held_total"
	MirrorHalts         Event = "resyncd_mirror_halts_total"
	SourceFailures      Event = "resyncd_source_failures_total"
	UncleanStarts       Event = "resyncd_unclean_starts_total"
	JobFailures         Event = "resyncd_job_failures_total"
	ScrubFindings       Event = "resyncd_scrub_findings_total"
	SubscriptionChanges Event = "resyncd_subscription_changes_total"
	ShortLeases         Event = "resyncd_short_leases_total"
	SuspectedHubs       Event = "resyncd_hubs_suspected_total"
	StateFailures       Event = "resyncd_state_failures_total"
	ClockJumps          Event = "resyncd_clock_jumps_total"
)

// Duration is something whose time is taken: the name of a histogram in metrics.yaml.
type Duration string

// The durations.
const (
	PushLatency     Duration = "resyncd_push_latency_seconds"
	FetchTime       Duration = "resyncd_fetch_duration_seconds"
	Acknowledgement Duration = "resyncd_acknowledgement_duration_seconds"
)

// metric is an entry of metrics.yaml.
type metric struct {
	Kind, Help string
	Daemon     bool     // of the daemon, not of a Source
	By         string   // the last label, "" for none
	Known      []string // its values
	Watched    []string // the values shown from 0 on where all would be too many
	Buckets    []float64
}

// label is the Source of a series.
const label = "source"

//go:embed metrics.yaml
var metricsFile []byte

// metrics are all of ours, by name.
var metrics = sync.OnceValue(func() map[string]*metric {
	out := map[string]*metric{}
	if err := yaml.Unmarshal(metricsFile, &out); err != nil {
		panic("console: metrics.yaml: " + err.Error()) // a test reads it
	}
	return out
})

// labels are the names of a metric's labels, or their values.
func (m *metric) labels(source, by string) (out []string) {
	if !m.Daemon {
		out = append(out, clean(source))
	}
	if m.By != "" {
		out = append(out, clean(by))
	}
	return out
}

// Metrics counts what happens, and shows what is, by Source. Its methods are safe for concurrent use. Reasons and
// results become labels, so they must be few.
type Metrics struct {
	// Gauges is asked at each scrape; set it before the first.
	Gauges func(ctx context.Context) []SourceGauges

	registry *prometheus.Registry
	counters map[Event]*prometheus.CounterVec
	times    map[Duration]*prometheus.HistogramVec
}

// NewMetrics makes the metrics of one daemon.
func NewMetrics() *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), counters: map[Event]*prometheus.CounterVec{},
		times: map[Duration]*prometheus.HistogramVec{}}
	for name, t := range metrics() {
		labels := t.labels(label, t.By)
		switch t.Kind {
		case "counter":
			v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: t.Help}, labels)
			m.counters[Event(name)] = v
			m.registry.MustRegister(v)
		case "histogram":
			v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: t.Help, Buckets: t.Buckets},
				labels)
			m.times[Duration(name)] = v
			m.registry.MustRegister(v)
		}
	}
	m.begin("", false)
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
		m.counters[e].WithLabelValues(metrics()[string(e)].labels(source, value)...).Add(float64(n))
	}
}

// Observe notes how long something took; below 0, as of a clock that was set, is 0.
func (m *Metrics) Observe(of Duration, source string, d time.Duration) {
	m.times[of].WithLabelValues(clean(source)).Observe(max(0, d).Seconds())
}

// Begin shows the counters of a Source from 0 on, so that their first step is seen.
func (m *Metrics) Begin(source string) {
	m.begin(source, true)
	for _, h := range m.times {
		h.WithLabelValues(clean(source))
	}
}

// begin shows the counters from 0 on that are of a Source, or that are of none.
func (m *Metrics) begin(source string, ofSources bool) {
	for e, v := range m.counters {
		t := metrics()[string(e)]
		if t.Daemon == ofSources {
			continue
		}
		watched := t.Watched
		if watched == nil {
			watched = t.Known
		}
		if t.By == "" {
			watched = []string{""}
		}
		for _, value := range watched {
			v.WithLabelValues(t.labels(source, value)...)
		}
	}
}

// Forget ends all series of a Source.
func (m *Metrics) Forget(source string) {
	of := prometheus.Labels{label: clean(source)}
	for _, v := range m.counters {
		v.DeletePartialMatch(of)
	}
	for _, h := range m.times {
		h.DeletePartialMatch(of)
	}
}

// clean makes a label value on which the library does not panic.
func clean(value string) string { return strings.ToValidUTF8(value, "?") }

// SourceGauges is how one Source stands, for metrics.
type SourceGauges struct {
	report.SourceStatus
	Totals Totals
	Inbox  store.InboxSize
	Halted bool
}

// values are the gauges of a Source by name, and how many of its channels are in each state.
func (s *SourceGauges) values() (values map[string]float64, channels map[string]int64) {
	failing, lease, channels := s.Problem != nil, time.Time{}, map[string]int64{}
	for i := range s.Sets {
		failing = failing || s.Sets[i].Problem != nil
		for j := range s.Sets[i].Channels {
			c := &s.Sets[i].Channels[j]
			channels[c.State]++
			if end := c.ExpiresAt; c.Live() && !end.IsZero() && (lease.IsZero() || end.Before(lease)) {
				lease = end.Time
			}
		}
	}
	return map[string]float64{
		"resyncd_resources":        float64(s.Totals.Resources),
		"resyncd_mirror_bytes":     float64(s.Totals.Bytes),
		"resyncd_owed":             float64(s.Totals.Owed),
		"resyncd_held":             float64(s.Totals.Held),
		"resyncd_refused":          float64(s.Totals.Refused),
		"resyncd_gaps_open":        float64(s.Totals.GapsOpen),
		"resyncd_gaps_unprovable":  float64(s.Totals.GapsLost),
		"resyncd_inbox_deliveries": float64(s.Inbox.Deliveries),
		"resyncd_inbox_bytes":      float64(s.Inbox.Bytes),
		"resyncd_in_step":          truth(s.InStep()),
		"resyncd_paused":           truth(s.Paused),
		"resyncd_failing":          truth(failing),
		"resyncd_mirror_halted":    truth(s.Halted),

		"resyncd_position_timestamp_seconds":      instant(s.Totals.Position),
		"resyncd_lease_expires_timestamp_seconds": instant(lease),
		"resyncd_last_pull_timestamp_seconds":     instant(s.Totals.LastPull),
		"resyncd_next_pull_timestamp_seconds":     instant(s.Totals.NextPull),
		"resyncd_last_push_timestamp_seconds":     instant(s.Totals.LastPush),
	}, channels
}

// truth and instant are values of gauges; an instant that is not known has none.
func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func instant(t time.Time) float64 {
	if t.IsZero() {
		return math.NaN()
	}
	return float64(t.UnixMicro()) / 1e6
}

// channelGauge is the gauge of channels at hubs, whose states are shown for each Source, for alerts.
const channelGauge = "resyncd_channels"

func (m *Metrics) gauges(ctx context.Context) prometheus.Gatherer {
	r := prometheus.NewRegistry()
	if m.Gauges == nil {
		return r
	}
	vecs := map[string]*prometheus.GaugeVec{}
	for name, t := range metrics() {
		if t.Kind == "gauge" {
			vecs[name] = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: t.Help}, t.labels(label, t.By))
			r.MustRegister(vecs[name])
		}
	}
	for _, s := range m.Gauges(ctx) {
		values, channels := s.values()
		for name, value := range values {
			if !math.IsNaN(value) {
				vecs[name].WithLabelValues(clean(s.Name)).Set(value)
			}
		}
		for _, state := range metrics()[channelGauge].Known {
			vecs[channelGauge].WithLabelValues(clean(s.Name), state).Set(float64(channels[state]))
		}
	}
	return r
}
